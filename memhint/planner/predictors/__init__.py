"""What VMs will need, as far as their past tells: one file per way of telling."""

from __future__ import annotations

from typing import assert_never

from memhint.objects.plan import PredictorName
from memhint.planner.predictors.decaying_peak import DecayingPeak
from memhint.planner.predictors.n_sigma import NSigma
from memhint.planner.predictors.predictor import Predictor
from memhint.planner.predictors.quantile import Quantile
from memhint.planner.settings import PlannerSettings

__all__ = ["Predictor", "predictor_of"]


def predictor_of(settings: PlannerSettings) -> Predictor:
    """The one that the settings choose."""
    if settings.predictor is PredictorName.QUANTILE:
        return Quantile(settings.forecast_window, settings.quantile)
    if settings.predictor is PredictorName.N_SIGMA:
        return NSigma(settings.forecast_window, settings.sigmas)
    if settings.predictor is PredictorName.DECAYING_PEAK:
        return DecayingPeak(settings.peak_half_life)
    assert_never(settings.predictor)
