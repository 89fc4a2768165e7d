"""Who writes a host's ratio: one at a time, and nobody for ever."""

from __future__ import annotations

from dataclasses import replace

from oslo_config import cfg

from memhint.conf.openstack import OPTS
from memhint.objects.provider import Tenure
from memhint.openstack.session import WHOLE
from memhint.store import Store
from memhint.store.capacities import TURN, Capacities
from memhint.store.tables import host
from memhint.store.upsert import upsert
from tests.unit.builders import NOW

PROVIDER = "11111111-2222-3333-4444-555555555555"


def test_who_began_and_says_nothing_loses_the_turn_also_where_its_clock_was_years_ahead(store: Store) -> None:
    clock = [NOW]
    capacities = Capacities(store.database, lambda _connection: clock[0])
    standing = capacities.adopt(PROVIDER, "host-a", 1.0)
    assert capacities.begin(standing, 2.0, "one")
    standing = capacities.adopt(PROVIDER, "host-a", 1.0)
    assert not capacities.begin(standing, 2.0, "other")
    clock[0] += TURN + 1
    assert capacities.begin(standing, 2.0, "other")
    clock[0] = NOW + 1e8
    assert capacities.begin(standing, 2.0, "one")
    clock[0] = NOW
    assert capacities.begin(standing, 2.0, "other")


def test_a_turn_is_longer_than_the_longest_request() -> None:
    (timeout,) = (one.default for one in OPTS if isinstance(one, cfg.FloatOpt) and one.name == "timeout")
    assert WHOLE * timeout < TURN


def test_nobody_begins_on_a_standing_that_is_not_the_newest(store: Store) -> None:
    standing = store.capacities.adopt(PROVIDER, "host-a", 1.0)
    assert store.capacities.begin(standing, 2.0, "one")
    store.capacities.end(PROVIDER, "one", None, standing.tenure, "")
    assert not store.capacities.begin(standing, 3.0, "other")
    newest = store.capacities.adopt(PROVIDER, "host-a", 2.0)
    assert (newest.written, newest.intended) == (None, 2.0)
    known = replace(newest, written=2.5)  # by who knows more than the database
    assert not store.capacities.begin(known, 3.0, "other")
    assert store.capacities.begin(known, 3.0, "other", newest)
    (after,) = store.capacities.all()
    assert (after.written, after.intended) == (2.5, 3.0)


def test_a_write_that_is_not_confirmed_is_known_under_another_name_of_the_host_too(store: Store) -> None:
    standing = store.capacities.adopt(PROVIDER, "host-a", 1.0)
    assert store.capacities.begin(standing, 2.0, "one")
    assert store.capacities.adopt(PROVIDER, "host-b", 1.0).intended == 2.0
    assert store.capacities.adopt(PROVIDER, "host-b", 3.0, again=True).intended is None


def test_the_end_of_a_turn_takes_no_released_provider_back(store: Store) -> None:
    standing = store.capacities.adopt(PROVIDER, "host-a", 1.0)
    assert store.capacities.begin(standing, 2.0, "one")
    released = store.capacities.release(PROVIDER, "uninstalled")
    assert released is not None
    assert (released.tenure, released.intended) == (Tenure.RELEASED, 2.0)
    store.capacities.end(PROVIDER, "one", 2.0, Tenure.MANAGED, "")
    (after,) = store.capacities.all()
    assert (after.tenure, after.detail, after.written) == (Tenure.RELEASED, "uninstalled", 2.0)
    assert not store.capacities.begin(after, 3.0, "other")


def test_a_provider_that_memhint_never_came_to_is_not_released(store: Store) -> None:
    assert store.capacities.release(PROVIDER, "uninstalled") is None
    assert store.capacities.all() == ()


def _hear(store: Store, epoch: str, sequence: int) -> None:
    """The host's newest report, as the fleet has taken it."""
    words = {"period": 10.0, "heard": NOW, "clock_begin": NOW, "silent": 0, "lost": 0}
    with store.database.write() as connection:
        upsert(connection, host, {"name": "host-a", "epoch": epoch, "sequence": sequence, **words})


def test_a_life_of_an_agent_that_the_fleet_took_is_written_for_also_where_its_epoch_went_back(store: Store) -> None:
    """As where the clock was years ahead, and then the host was installed anew."""
    found = store.capacities.adopt(PROVIDER, "host-a", 1.0)
    late, early = (f"{begin:015d}-aaaaaaaa" for begin in (2, 1))
    _hear(store, late, 5)
    assert store.capacities.begin(replace(found, epoch=late, sequence=5), 2.0, "one")
    store.capacities.end(PROVIDER, "one", 2.0, Tenure.MANAGED, "")
    (found,) = store.capacities.all()
    before = replace(found, epoch=early, sequence=0)
    assert not store.capacities.begin(before, 3.0, "one"), "an old life that is told again"
    _hear(store, early, 0)
    assert not store.capacities.begin(found, 3.0, "other"), "who has not heard of the new life"
    assert store.capacities.begin(before, 3.0, "one")
    store.capacities.end(PROVIDER, "one", 3.0, Tenure.MANAGED, "")
    (found,) = store.capacities.all()
    assert (found.epoch, found.sequence) == (early, 0)
    _hear(store, early, 1)
    assert store.capacities.begin(replace(found, sequence=1), 2.0, "one")


def test_within_one_life_no_plan_comes_after_a_newer_one(store: Store) -> None:
    """Also where a failover lost the reports in between, so that the older one is the newest again."""
    found = store.capacities.adopt(PROVIDER, "host-a", 1.0)
    epoch = "000000000000001-aaaaaaaa"
    _hear(store, epoch, 5)
    assert store.capacities.begin(replace(found, epoch=epoch, sequence=5), 2.0, "one")
    store.capacities.end(PROVIDER, "one", 2.0, Tenure.MANAGED, "")
    (found,) = store.capacities.all()
    _hear(store, epoch, 4)
    assert not store.capacities.begin(replace(found, sequence=4), 3.0, "one")


def test_where_the_host_is_not_known_any_more_an_older_life_is_not_written_for(store: Store) -> None:
    found = store.capacities.adopt(PROVIDER, "host-a", 1.0)
    late, early = (f"{begin:015d}-aaaaaaaa" for begin in (2, 1))
    assert store.capacities.begin(replace(found, epoch=late, sequence=5), 2.0, "one")
    store.capacities.end(PROVIDER, "one", 2.0, Tenure.MANAGED, "")
    (found,) = store.capacities.all()
    assert not store.capacities.begin(replace(found, epoch=early, sequence=9), 3.0, "one")
