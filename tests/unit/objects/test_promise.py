"""The fleet's promises: sums over hosts, and the hosts that broke one in the order of how often."""

from __future__ import annotations

from memhint.objects.promise import FleetPromises, HostPromises, fleet_promises


def test_hosts_that_broke_most_hours_come_first_then_those_that_lacked_most() -> None:
    whole = HostPromises("whole", 168, 168, 0)
    once, deep, often = (
        HostPromises("once", 168, 167, 1),
        HostPromises("deep", 24, 23, 9),
        HostPromises("often", 9, 1, 1),
    )
    assert fleet_promises([once, whole, often, deep], 7.0) == FleetPromises(369, 359, 4, 7.0, (often, deep, once))


def test_a_fleet_of_which_nothing_is_judged_says_no_share() -> None:
    assert fleet_promises([], 7.0) == FleetPromises(0, 0, 0, 7.0, ())
