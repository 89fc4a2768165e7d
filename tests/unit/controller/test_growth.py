"""Learning how VMs grow: a host in each turn, a table now and then, and none where nothing is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from oslo_config import cfg
from sqlalchemy import Connection, update

from memhint.conf import ConfigError, load
from memhint.controller.growth import EVERY, Learner, check, known
from memhint.controller.rounds import Rounds
from memhint.controller.service import ControllerService
from memhint.objects.plan import DemandReason
from memhint.objects.units import GIB
from memhint.planner.growth import DAY, HOUR, LEAST, Outlook, outlook
from memhint.store import Store, StoreError, open_store
from memhint.store.fleet import State
from memhint.store.growth import AGAIN, Growth
from memhint.store.tables import domain_history, growth
from tests.unit import builders

BEGIN = 1_700_000_000.0 // HOUR * HOUR
HOSTS = ("a", "b", "c", "d")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/memhint.db")
    yield opened
    opened.close()


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self, _connection: Connection) -> float:
        return self.now


def kept_for(tmp_path: Path, days: str, learning: str = "") -> cfg.ConfigOpts:
    path = tmp_path / "memhint.conf"
    path.write_text(f"[store]\ndomain_hourly_days = {days}\n[controller]\n{learning}\n")
    return load([path])


@pytest.mark.parametrize("days", ["0", "8", "8.9"])
def test_a_controller_that_learns_from_too_few_days_does_not_start(tmp_path: Path, days: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"\[store\] domain_hourly_days: {days}: use 9 or more, .* growth_interval = 0"
    ):
        ControllerService(kept_for(tmp_path, days)).run()


@pytest.mark.parametrize(("days", "learning"), [("9", ""), ("30", ""), ("1", "growth_interval = 0")])
def test_enough_days_or_nothing_to_learn_are_accepted(tmp_path: Path, days: str, learning: str) -> None:
    check(kept_for(tmp_path, days, learning))


def lived(store: Store, vms: int, days: float = 9.0, use: int = GIB, later: int = 3 * GIB) -> None:
    """Four hosts with so many VMs each, that used ``use`` of 4 GiB for two days and ``later`` from then on."""
    rows = []
    for host in HOSTS:
        reports, demands = [], []
        for number in range(vms):
            uuid = f"{host}-{number}"
            seen = builders.domain_observation(uuid=uuid, name=uuid)
            reports.append(builders.domain_report(observation=seen))
            demands.append(builders.demand(uuid=uuid, reason=DemandReason.FORECAST))
            for hour in range(int(days * 24)):
                at = BEGIN - days * DAY + hour * HOUR
                row = {"uuid": uuid, "span": 3600, "at": at, "bucket": int(at), "assigned": 4 * GIB}
                rows.append({**row, "footprint": use if hour < 48 else later})
        made = builders.report(host=host, epoch="000000000000001-00000000", domains=tuple(reports))
        made = replace(made, plan=replace(made.plan, demands=tuple(demands)))
        store.fleet.take([State(made, 1.0)])
    with store.database.write() as connection:
        connection.execute(domain_history.delete())
        connection.execute(domain_history.insert(), rows)


def test_what_all_hosts_tell_becomes_a_table(store: Store) -> None:
    clock = Clock()
    learner = Learner(Growth(store.database, 30 * DAY, clock), pause=10.0)
    lived(store, 3)
    for turn in range(len(HOSTS)):
        assert store.growth.newest() is None  # three hosts are not enough
        assert learner.round() is True
        assert learner.round() is False  # it is not time
        clock.now += 10
        assert (store.growth.newest() is not None) == (turn == len(HOSTS) - 1)
    table = store.growth.newest()
    assert table is not None
    assert table.version == int(clock.now) - 10
    one = outlook(table, 12 * HOUR, GIB, 4 * GIB)
    assert (one.percent, one.count) == (75, 12)
    assert outlook(table, 12 * HOUR, GIB // 2, 4 * GIB) == Outlook()
    assert known(table) > 0
    # Another life of a controller goes on with it, and looks again when it is time.
    again = Learner(Growth(store.database, 30 * DAY, clock), pause=10.0)
    assert again.round() is False
    lived(store, 3, later=2 * GIB)
    for _ in HOSTS:
        clock.now += AGAIN
        assert again.round()
    newer = store.growth.newest()
    assert newer is not None
    assert newer.version > table.version
    assert outlook(newer, 12 * HOUR, GIB, 4 * GIB).percent == 50


def test_a_table_is_made_now_and_then_and_the_same_one_keeps_its_version(store: Store) -> None:
    clock = Clock()
    learner = Learner(Growth(store.database, 30 * DAY, clock), pause=0.0)
    lived(store, 3)
    while learner.round():
        clock.now += 1
    first = store.growth.newest()
    assert first is not None
    clock.now += AGAIN
    assert learner.round()
    assert store.growth.newest() == first
    with store.database.read() as connection:
        made = connection.execute(growth.select()).one().made
    assert made == clock.now  # it was looked at
    lived(store, 3, later=2 * GIB)
    clock.now += EVERY - 1
    while learner.round():
        pass
    assert store.growth.newest() == first
    with store.database.write() as connection:
        connection.execute(update(growth).values(document="{"))
    clock.now += AGAIN
    while learner.round():
        pass
    mended = store.growth.newest()
    assert mended is not None
    assert mended.version > first.version


@pytest.mark.parametrize(("vms", "days"), [(1, 9.0), (3, 6.0)])
def test_nothing_is_said_of_too_few_or_too_young_vms(store: Store, vms: int, days: float) -> None:
    assert vms * len(HOSTS) < LEAST or days < 7
    clock = Clock()
    learner = Learner(Growth(store.database, 30 * DAY, clock), pause=0.0)
    lived(store, vms, days)
    while learner.round():
        clock.now += 1
    assert store.growth.newest() is None


def test_rounds_go_on_after_a_failure_and_end_when_they_are_told_to() -> None:
    done: list[int] = []

    def work() -> None:
        done.append(1)
        raise StoreError("away") if len(done) < 2 else ValueError("a defect")

    rounds = Rounds("growth", work, 0.001, "nothing is learnt")
    rounds.start()
    for _ in range(5000):
        if len(done) < 4:
            rounds._stop.wait(0.001)
    rounds.close()
    assert len(done) >= 4
    assert not rounds._thread.is_alive()
