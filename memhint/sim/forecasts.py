"""The planner's predictors over arrays. Each remembers one row per VM, in the order of the engine's table."""

from __future__ import annotations

from typing import Protocol, assert_never

import numpy as np

from memhint.objects.plan import PredictorName
from memhint.planner.past import SLOTS
from memhint.planner.settings import PlannerSettings
from memhint.sim.fleet import Bools, Floats, Ints
from memhint.sim.twin import Forecast, Vms, per_host
from memhint.sim.windows import VmSlots, kept_for


class Remembering(Forecast, Protocol):
    """A predictor whose memory follows the VMs that come and go."""

    def append(self, count: int) -> None:
        """``count`` more VMs, not seen yet."""

    def move(self, source: Ints, target: Ints, count: int) -> None:
        """VMs of ``source`` take the places ``target``; ``count`` are left."""

    def forget(self, vms: Bools) -> None:
        """These VMs have not been seen yet, one value for each that is there."""


def forecast_of(settings: PlannerSettings) -> Remembering:
    """The one that the settings choose, as `memhint.planner.predictors.predictor_of` does."""
    if settings.predictor is PredictorName.QUANTILE:
        return Quantile(settings.forecast_window, settings.quantile)
    if settings.predictor is PredictorName.N_SIGMA:
        return NSigma(settings.forecast_window, settings.sigmas)
    if settings.predictor is PredictorName.DECAYING_PEAK:
        return DecayingPeak(settings.peak_half_life)
    assert_never(settings.predictor)


class DecayingPeak:
    """A peak that decays by half towards the present use in each half-life."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._peak = np.zeros(0)
        self._count = 0
        self._at: float | None = None

    def append(self, count: int) -> None:
        """``count`` more VMs, not seen yet."""
        self._peak = np.concatenate([self._peak[: self._count], np.full(count, np.nan)])
        self._count += count

    def move(self, source: Ints, target: Ints, count: int) -> None:
        """VMs of ``source`` take the places ``target``; ``count`` are left."""
        self._peak[target] = self._peak[source]
        self._count = count

    def forget(self, vms: Bools) -> None:
        """These VMs have not been seen yet, one value for each that is there."""
        self._peak[: self._count][vms] = np.nan

    def forecast(self, vms: Vms, now: float, hosts: int) -> Floats:
        """What each VM may come to use, within [use, assigned]."""
        past = self._peak[: self._count]
        if self._at is not None:
            fade = 0.5 ** (max(0.0, now - self._at) / self._half_life)
            past = np.maximum(vms.use, vms.use + (past - vms.use) * fade)
        self._peak = np.where(np.isnan(past), vms.use, past)
        self._at = now
        return np.minimum(np.maximum(np.trunc(self._peak), vms.use), vms.assigned)


class Quantile:
    """A quantile of each VM's use over a window."""

    def __init__(self, window: float, q: float) -> None:
        self._q = q
        self._slots = VmSlots(window, keep=kept_for(q))
        self.append, self.move, self.forget = self._slots.append, self._slots.move, self._slots.forget

    def forecast(self, vms: Vms, now: float, hosts: int) -> Floats:
        """What each VM may come to use, within [use, assigned]."""
        self._slots.add(now, vms.use)
        return np.minimum(np.maximum(self._slots.quantile(self._q), vms.use), vms.assigned)


class NSigma:
    """Mean and standard deviations of the sum of a host's VMs over a window, never below what it is now."""

    def __init__(self, window: float, sigmas: float) -> None:
        self._sigmas = sigmas
        self._slots = VmSlots(window)
        self.append, self.move, self.forget = self._slots.append, self._slots.move, self._slots.forget

    def forecast(self, vms: Vms, now: float, hosts: int) -> Floats:
        """Each VM's use now, and its part of what the host may come to use beyond that."""
        self._slots.add(now, vms.use)
        # Who is guaranteed counts in full whatever it does, and has no part in this.
        own = 1.0 if vms.guaranteed is None else (~vms.guaranteed).astype(np.float64)
        present = per_host(vms, vms.use * own, hosts)
        total = np.maximum(present, self._expected(vms, own, hosts))
        distance = (vms.assigned - vms.use) * own
        room = per_host(vms, distance, hosts)
        extra = np.minimum(np.ceil(total - present), room)
        return vms.use + _part(extra, distance, room, vms.host)

    def _expected(self, vms: Vms, own: Floats | float, hosts: int) -> Floats:
        """Mean and deviations, over as many slots as the host's oldest VM has.

        One slot after the other, oldest first: the planner adds in this order, and so its last bit is the same.
        """
        lengths = self._slots.lengths()
        longest = np.zeros(hosts, dtype=np.int64)
        np.maximum.at(longest, vms.host, lengths * np.asarray(own, dtype=np.int64))
        young = np.flatnonzero((lengths < SLOTS) & (np.asarray(own) > 0.0))
        highest = self._slots.highest(young)
        totals = np.zeros((SLOTS, hosts))
        for age in range(SLOTS):
            totals[age] = np.bincount(vms.host, weights=self._slots.slot(age) * own, minlength=hosts)
            if young.size:  # before it came, a VM counts with its largest
                missing = np.where(lengths[young] <= age, highest, 0.0)
                totals[age] += np.bincount(vms.host[young], weights=missing, minlength=hosts)
        counted = np.arange(SLOTS)[:, None] < longest
        samples = np.maximum(1, longest)
        mean = np.where(counted, totals, 0.0).sum(axis=0) / samples
        squares = np.zeros(hosts)
        for age in range(SLOTS - 1, -1, -1):
            squares += np.where(counted[age], (totals[age] - mean) ** 2, 0.0)
        expected: Floats = mean + self._sigmas * np.sqrt(squares / samples)
        return expected


def _part(extra: Floats, own: Floats, room: Floats, host: Ints) -> Floats:
    """⌈extra × own / room⌉ of each VM. The product has up to 75 bits; its low 64 suffice to mend the quotient."""
    whole_extra, whole_own = extra.astype(np.int64)[host], own.astype(np.int64)
    whole_room = np.maximum(1, room.astype(np.int64))[host]
    quotient = (whole_extra.astype(np.float64) * own / whole_room).astype(np.int64)
    left = whole_extra * whole_own - quotient * whole_room
    return (quotient - (-left // whole_room)).astype(np.float64)
