"""Who may be admitted: by a fixed ratio, by what the planner promises, or by knowing what will come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memhint.objects.plan import PredictorName
from memhint.planner.earned_ratio import Earned
from memhint.planner.growth import GrowthTable
from memhint.planner.settings import PlannerSettings

HOUR = 3600.0
EARNED = 2.0  # how far a ratio may rise, unless told otherwise


class PolicyError(ValueError):
    """A policy's name that says nothing; the message tells what would."""


@dataclass(frozen=True, slots=True)
class Static:
    """``ratio`` times the memory that is not reserved, by flavors, whatever the VMs use."""

    name: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Planned:
    """What memhint's planner promises with these settings."""

    name: str
    settings: PlannerSettings
    growth: GrowthTable | None = None
    earned: tuple[Earned, ...] = ()  # what hosts begin with, by turns


@dataclass(frozen=True, slots=True)
class Oracle:
    """Who is known never to make the host violate: the future of all VMs is known. A bound, not a planner."""

    name: str


Policy = Static | Planned | Oracle

KINDS = (
    "nominal, oracle, static[:RATIO], peak[:HOURS], quantile[:HOURS], n_sigma[:HOURS], growth[:HOURS] or earned[:RATIO]"
)
DEFAULT = ("nominal", "static:1.5", "peak", "peak:24", "quantile", "n_sigma", "oracle")
_NAME = re.compile(r"(nominal|oracle|static|peak|quantile|n_sigma|growth|earned)(?::(\d+(?:\.\d+)?))?")


def parse(
    names: Sequence[str],
    settings: PlannerSettings,
    learnt: Callable[[], GrowthTable] | None = None,
    earn: Callable[[Planned], tuple[Earned, ...]] | None = None,
) -> list[Policy]:
    """The policies of these names, each once. What a name does not say is as in ``settings``.

    :param learnt: what learns a growth table, where there is a history to learn from; called once, if at all
    :param earn: what tells what hosts have earned under a policy, where there is a history
    :raises PolicyError: for a name that is none, and for ``growth`` and ``earned`` without a history
    """
    found: list[Policy] = []
    table: GrowthTable | None = None
    for name in dict.fromkeys(names):
        one = _parse(name, settings)
        if isinstance(one, Planned) and name.startswith(("growth", "earned")):
            if learnt is None or (earn is None and name.startswith("earned")):
                raise PolicyError(f"{name!r} needs a history to learn from: say --learn")
            table = table or learnt()
            one = replace(one, growth=table)
            if earn is not None and name.startswith("earned"):
                one = replace(one, earned=earn(one))
        found.append(one)
    return found


def _parse(name: str, settings: PlannerSettings) -> Policy:
    found = _NAME.fullmatch(name)
    number = float(found[2]) if found and found[2] else None
    if found is None or number == 0 or (found[1] in ("nominal", "oracle") and number is not None):
        raise PolicyError(f"{name!r} is no policy: say {KINDS}")
    kind = found[1]
    if kind == "nominal":
        return Static(name, 1.0)
    if kind == "oracle":
        return Oracle(name)
    if kind == "static":
        return Static(name, number or 1.5)
    if kind == "earned":
        most = number or settings.earned_max_ratio or EARNED
        return Planned(name, replace(settings, predictor=PredictorName.DECAYING_PEAK, earned_max_ratio=most))
    if kind in ("peak", "growth"):
        half_life = settings.peak_half_life if number is None else number * HOUR
        return Planned(name, replace(settings, predictor=PredictorName.DECAYING_PEAK, peak_half_life=half_life))
    window = settings.forecast_window if number is None else number * HOUR
    predictor = PredictorName.QUANTILE if kind == "quantile" else PredictorName.N_SIGMA
    return Planned(name, replace(settings, predictor=predictor, forecast_window=window))
