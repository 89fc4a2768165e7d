"""Who writes a host's ratio: one at a time, and nobody for ever."""

from __future__ import annotations

from dataclasses import replace

from oslo_config import cfg

from memhint.conf.openstack import OPTS
from memhint.objects.provider import Tenure
from memhint.openstack.session import WHOLE
from memhint.store import Store
from memhint.store.capacities import TURN, Capacities
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
