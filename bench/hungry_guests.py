"""Three guests that together are larger than their host, one after the other taking all the memory it can get."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cpu import cpu_seconds
from bench.filled_host import Setup, Sizes, agent_of, enforced, host_of
from bench.harness.precondition import require
from lab.guest import Guest
from lab.packing import MARGIN
from memhint.objects.units import MIB

GUESTS = 3
AT_REST = 0.1  # of a core that a guest at rest takes at most
PATIENCE = 90.0  # seconds that guests get to come to rest
_LOOK = 2.0


@dataclass(frozen=True, slots=True)
class Turns:
    """One run: seconds that each guest took in turn, and bytes in swap after the last."""

    seconds: tuple[float, ...]
    swapped: int

    @property
    def ratio(self) -> float:
        """How many times as long as the first the last took."""
        return self.seconds[-1] / self.seconds[0]


def turns(setup: Setup, sizes: Sizes) -> Turns:
    """One run on a host of its own. Raises PreconditionFailed where its budget or its swap are not there."""
    with host_of(setup, sizes) as host, agent_of(host, setup):
        guests = host.add_guests([{"name": f"vm{one + 1}", "reporting": setup.reporting} for one in range(GUESTS)])
        at_rest(guests)
        seconds = []
        for guest in guests:
            size = (int(guest.meminfo()["MemAvailable"]) - MARGIN) // MIB - 1
            began = time.monotonic()
            guest.alloc("memhog", size * MIB)
            seconds.append(time.monotonic() - began)
            if guest is guests[0]:
                enforced(host, sizes)
            guest.free("memhog")
        return Turns(tuple(seconds), host.swap_used())


def at_rest(guests: Sequence[Guest]) -> None:
    """Wait until no guest is busy with its boot any more, or with being asked who it is.

    Raises PreconditionFailed where one does not come to rest.
    """
    began = time.monotonic()
    before = [cpu_seconds(one.pid()) for one in guests]
    while time.monotonic() - began < PATIENCE:
        time.sleep(_LOOK)
        now = [cpu_seconds(one.pid()) for one in guests]
        if all(after - earlier <= AT_REST * _LOOK for after, earlier in zip(now, before, strict=True)):
            return
        before = now
    require(False, "a guest does not come to rest: what it does besides would be measured")


def third_over_first(runs: Sequence[Turns]) -> float:
    """The median time of the last guest over that of the first."""
    firsts, thirds = ([one.seconds[at] for one in runs] for at in (0, -1))
    return statistics.median(thirds) / statistics.median(firsts)
