"""Each policy's gain over accounting by flavors, and which part it is of the clairvoyant bound's."""

from __future__ import annotations

from collections.abc import Sequence

from memhint.sim.engine import SimulationResult

SAFE = 0.0001  # violations, of all hosts' time, up to which a gain may be compared with the bound's, which has none


def memory_gains(outcomes: Sequence[SimulationResult]) -> list[float | None]:
    """Memory assigned, in multiples of the first outcome's; None where that has none."""
    first = outcomes[0].assigned_mean
    return [one.assigned_mean / first if first else None for one in outcomes]


def host_gains(outcomes: Sequence[SimulationResult]) -> list[float | None]:
    """Hosts that the first outcome needed, in multiples of each one's."""
    return [outcomes[0].hosts / one.hosts for one in outcomes]


def oracle_shares(outcomes: Sequence[SimulationResult], gains: Sequence[float | None]) -> list[float | None]:
    """Which part of the oracle's gain over nominal each policy has.

    None for a policy that violates more than `SAFE`, or has VMs killed: what it gains more, it takes from its VMs; and
    for all of them where nominal or the oracle is not among them, or the oracle gains nothing.
    """
    by_name = {one.policy: gain for one, gain in zip(outcomes, gains, strict=True)}
    nominal, oracle = by_name.get("nominal"), by_name.get("oracle")
    if nominal is None or oracle is None or oracle <= nominal:
        return [None] * len(outcomes)
    return [
        None if gain is None or one.killed or one.violation_share > SAFE else (gain - nominal) / (oracle - nominal)
        for one, gain in zip(outcomes, gains, strict=True)
    ]
