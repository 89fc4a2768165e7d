"""The fleet of which answers are kept: a synthetic one, and one host of which everything is known, at one moment."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from lab.fleet.fill import fill
from lab.fleet.fleet import BEGIN, Fleet, Shape
from memhint.objects.exclusion import Excluded, Exclusion
from memhint.objects.lever import LeverName, Observed
from memhint.objects.promise import PromisedHour
from memhint.objects.report import Report
from memhint.objects.units import GIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import clock, open_store
from memhint.store.fleet import State
from tests.unit import builders

MOMENT = BEGIN + 86_400.0  # unix seconds
FLEET = Fleet(Shape(hosts=12, vms=2, period=600.0))  # the last one is under pressure
FULL_HOST = "full-host"
_EPOCH = "001700000000000-0000000a"


def full_report() -> Report:
    """One in which hardly anything is absent."""
    web = builders.domain_report(
        observation=builders.domain_observation(
            balloon_reporting=builders.balloon_reporting(), reporting_check=builders.reporting_check()
        ),
        levers=tuple(
            builders.lever_state(lever=name, subject=builders.WEB, observed=Observed.OFF, verdict=verdict)
            for name, verdict in zip(LeverName, _verdicts(), strict=False)
        ),
    )
    demand = builders.demand(
        minimum=512 << 20, group="group-1", excluded=(Excluded(Exclusion.LOCKED, "its memory is locked"),)
    )
    plan = builders.plan()
    return builders.report(
        host=FULL_HOST,
        epoch=_EPOCH,
        at=MOMENT,
        domains=(web, builders.refused_domain(), builders.idle_domain()),
        plan=replace(plan, demands=(demand, *plan.demands[1:])),
        agent="1.0.0",
    )


def _verdicts() -> tuple[Verdict, ...]:
    details = {Answer.REFUSED: (Reason.CONSENT, "the guest may not be changed")}
    return tuple(Verdict(one, *details.get(one, (Reason.NONE, ""))) for one in Answer)


def filled_store(folder: Path) -> Path:
    """The file of a store that knows all of it, in which time stands still."""
    file = folder / "memhint.db"
    with pytest.MonkeyPatch.context() as patch:
        hold_still(patch)
        store = open_store(f"sqlite:///{file}")
        try:
            fill(store, FLEET, MOMENT, past=1200.0)
            store.fleet.take([State(full_report(), 10.0)])
            for number, came in ((5, 3 * GIB), (6, GIB)):
                hours = [PromisedHour(MOMENT // 3600 * 3600 - 7200, 2 * GIB, came)]
                store.promises.add(FLEET.name(number), hours, MOMENT)
        finally:
            store.close()
    return file


def hold_still(patch: pytest.MonkeyPatch) -> None:
    """The store's clock stands at MOMENT, and identifiers are numbers."""
    numbers = count(1)
    patch.setitem(clock._CLOCKS, "sqlite", f"SELECT {MOMENT}")
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
