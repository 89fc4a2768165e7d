"""Who writes a host's ratio: one at a time, and nobody for ever."""

from __future__ import annotations

from memhint.store import Store
from memhint.store.capacities import TURN, Capacities
from tests.unit.builders import NOW

PROVIDER = "11111111-2222-3333-4444-555555555555"


def test_who_began_and_says_nothing_loses_the_turn_also_where_its_clock_was_years_ahead(store: Store) -> None:
    clock = [NOW]
    capacities = Capacities(store.database, lambda _connection: clock[0])
    standing = capacities.adopt(PROVIDER, "host-a", 1.0)
    assert capacities.begin(standing, 2.0, "one")
    assert not capacities.begin(standing, 2.0, "other")
    clock[0] += TURN + 1
    assert capacities.begin(standing, 2.0, "other")
    clock[0] = NOW + 1e8
    assert capacities.begin(standing, 2.0, "one")
    clock[0] = NOW
    assert capacities.begin(standing, 2.0, "other")
