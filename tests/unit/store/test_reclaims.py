from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import inspect, text

from memhint.objects.reclaim import Compaction, Hold, Reclaim, ReclaimError, ReclaimState, Stop, released
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import Store, StoreDamaged, open_store, schema
from memhint.store.reclaims import ReclaimPage
from memhint.store.rows.points import Keep
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB
from tests.unit.store.lived import lived


@pytest.fixture
def short(url: str) -> Iterator[Store]:
    store = open_store(url, host="host-a", keep=Keep(3600.0))
    yield store
    store.close()


def queued(**changes) -> Reclaim:
    return Reclaim(builders.reclaim_request(**changes))


def done(one: Reclaim) -> Reclaim:
    return replace(
        one,
        state=ReclaimState.DONE,
        verdict=Verdict(Answer.APPLIED, Reason.KERNEL, "12 MiB"),
        owner="life-1",
        asked=100 * MIB,
        reclaimed=12 * MIB,
        compaction=Compaction.DONE,
        stop=Stop.PRESSURE,
        pressure=12.5,
        flushed=10 * MIB,
        calls=3,
        before=900 * MIB,
        after=889 * MIB,
        begun=NOW + 1,
        ended=NOW + 4.5,
    )


def test_a_request_goes_from_its_making_to_its_end(store: Store) -> None:
    one = queued()
    store.reclaims.add(one)
    assert store.reclaims.open() == (one,)
    running = replace(one, state=ReclaimState.RUNNING, owner="life-1", begun=NOW + 1)
    assert store.reclaims.save(running)
    assert store.reclaims.open() == (running,)
    assert store.reclaims.save(done(running))
    assert store.reclaims.open() == ()
    assert store.reclaims.get("req-1") == done(running)
    assert store.reclaims.get("req-2") is None


def test_one_that_holds_has_not_ended(store: Store) -> None:
    one = queued(hold=600.0)
    store.reclaims.add(one)
    held = Hold(NOW + 5, NOW + 605, kept=40 * MIB, used=30 * MIB)
    holding = replace(done(one), state=ReclaimState.HOLDING, ended=None, held=held)
    assert store.reclaims.save(holding)
    assert store.reclaims.open() == (holding,)
    over = released(holding, Stop.DONE, NOW + 606)
    assert store.reclaims.save(over)
    assert store.reclaims.open() == ()
    assert store.reclaims.get("req-1") == over


def test_a_request_of_a_memhint_that_knew_no_hold_is_read(store: Store) -> None:
    store.reclaims.add(queued())
    with store.database.write() as connection:
        for member in (',"hold":0.0', ',"held":null'):
            told = {"member": member}
            changed = connection.execute(
                text("UPDATE reclaim SET document = REPLACE(document, :member, '') WHERE document LIKE :some"),
                {**told, "some": f"%{member}%"},
            )
            assert changed.rowcount == 1
    assert store.reclaims.get("req-1") == queued()


def test_what_has_ended_stays_as_it_ended(store: Store) -> None:
    store.reclaims.add(queued())
    store.reclaims.save(done(queued()))
    assert not store.reclaims.save(queued())
    assert store.reclaims.get("req-1") == done(queued())


def test_the_oldest_waits_first_and_the_newest_shows_first(store: Store) -> None:
    for name, uuid, second in (("b", WEB, 2), ("a", DB, 1), ("c", WEB, 3)):
        store.reclaims.add(queued(id=name, uuid=uuid, at=NOW + second))
    assert [one.request.id for one in store.reclaims.open()] == ["a", "b", "c"]
    assert [one.request.id for one in store.reclaims.newest()] == ["c", "b", "a"]
    assert [one.request.id for one in store.reclaims.newest(limit=1)] == ["c"]
    assert [one.reclaim.request.id for one in store.reclaims.page(uuid=WEB, limit=1).items] == ["c"]


def test_hosts_that_share_a_store_do_not_share_requests(store: Store, url: str) -> None:
    other = open_store(url, host="host-b")
    store.reclaims.add(queued())
    assert other.reclaims.open() == ()
    assert other.reclaims.newest() == ()
    other.close()


def test_what_ended_long_ago_goes_and_what_waits_stays(short: Store) -> None:
    short.reclaims.add(queued(id="old"))
    short.reclaims.save(done(queued(id="old")))
    short.reclaims.add(queued(id="waits"))
    lived(short, NOW + 3700, 3600.0)
    short.reclaims.add(queued(id="new", at=NOW + 3700, expires=NOW + 3760))
    assert {one.request.id for one in short.reclaims.newest()} == {"waits", "new"}


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 0},
        {"psi_limit": -1.0},
        {"timeout": 1e9},
        {"expires": NOW},
        {"reason": ""},
        {"by": "x" * 65},
        {"hold": -1.0},
        {"hold": 3600.5},
        {"hold": float("nan")},
    ],
)
def test_what_no_guest_could_be_asked_is_not_stored(store: Store, changes) -> None:
    with pytest.raises(ReclaimError):
        store.reclaims.add(queued(**changes))
    assert store.reclaims.open() == ()


@pytest.mark.parametrize(("old", "new"), [('"psi_limit":10.0', '"psi_limit":1000.0'), ('"done"', "7")])
def test_what_cannot_be_a_request_is_damage(store: Store, old: str, new: str) -> None:
    store.reclaims.add(queued())
    store.reclaims.save(done(queued()))
    with store.database.write() as connection:
        connection.execute(
            text("UPDATE reclaim SET document = REPLACE(document, :old, :new)"), {"old": old, "new": new}
        )
    with pytest.raises(StoreDamaged):
        store.reclaims.get("req-1")
    assert store.reclaims.page() == ReclaimPage((), None)
    older = queued(id="req-2", at=NOW - 1)
    store.reclaims.add(older)
    part = store.reclaims.page(limit=1)
    assert part == ReclaimPage((), (NOW, "req-1"))
    assert [one.reclaim for one in store.reclaims.page(limit=1, before=part.last).items] == [older]


def test_a_store_of_the_first_version_is_upgraded_and_keeps_what_it_has(store: Store, url: str) -> None:
    store.marks.put(builders.mark())
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with store.database.write() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
    with store.database.read() as connection:
        assert not inspect(connection).has_table("reclaim")
    upgraded = open_store(url, host="host-a")
    upgraded.reclaims.add(queued())
    assert upgraded.marks.get(WEB, "merge") == builders.mark()
    upgraded.close()
