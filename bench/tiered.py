"""What memory on two nodes costs whoever uses it: accesses by node and weight, and when a move has settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SLOW = 3.0
"""Times as long as an access to the fast node takes one to the slow node: a figure that is assumed, not measured."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was accessed in some seconds, and where it lies at their end. Bytes."""

    at: float  # seconds since the beginning
    phase: int
    fast: int  # accesses to the fast node
    slow: int
    hot_on_fast: int
    on_fast: int


@dataclass(frozen=True, slots=True)
class AgentSample:
    """What an agent has taken by then, and what was moved by anybody."""

    at: float  # seconds since the beginning
    cpu: float  # seconds
    moved: int  # bytes


def together(rows: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows of several VMs as those of one. Raises ValueError unless each has one for the same moments."""
    found = []
    for same in zip(*rows, strict=True):
        if len({(row.at, row.phase) for row in same}) != 1:
            raise ValueError(f"rows of different moments: {sorted({row.at for row in same})}")
        found.append(
            Row(
                same[0].at,
                same[0].phase,
                sum(row.fast for row in same),
                sum(row.slow for row in same),
                sum(row.hot_on_fast for row in same),
                sum(row.on_fast for row in same),
            )
        )
    return found


def weighted(rows: Sequence[Row], weight: float = SLOW) -> float:
    """Mean weight of an access: 1 where all went to the fast node. Raises ValueError where there was none."""
    fast, slow = sum(row.fast for row in rows), sum(row.slow for row in rows)
    if fast + slow <= 0:
        raise ValueError("nothing was accessed")
    return (fast + weight * slow) / (fast + slow)


def settled(rows: Sequence[Row], began: float, most: float, weight: float = SLOW) -> float | None:
    """Seconds from the beginning of a phase from which on each row weighs at most so much; None if it never does.

    :param rows: of the phase
    """
    since: float | None = None
    for row in rows:
        if weighted([row], weight) > most:
            since = None
        elif since is None:
            since = row.at - began
    return since


def after(rows: Sequence[Row], began: Sequence[float], rest: float) -> list[Row]:
    """The rows that end later than so many seconds after the beginning of their phase."""
    return [row for row in rows if row.at - began[row.phase] > rest]


def at_rest(looks: Sequence[AgentSample], since: float, until: float) -> float | None:
    """Percent of a CPU that an agent took between two moments; None where fewer than two looks lie there."""
    within = [look for look in looks if since <= look.at <= until]
    if len(within) < 2 or within[-1].at <= within[0].at:
        return None
    return 100.0 * (within[-1].cpu - within[0].cpu) / (within[-1].at - within[0].at)


def moved(looks: Sequence[AgentSample], since: float, until: float) -> int:
    """Bytes that were moved between two moments, as far as looks lie there."""
    within = [look.moved for look in looks if since <= look.at <= until]
    return within[-1] - within[0] if within else 0
