"""How fast a guest's free memory leaves QEMU: by page reporting, by a balloon, by unplugging."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.counted_guest import GuestFailed, Kernel
from bench.figures import time_to
from lab.kernel_guest import PARAMETERS, Guest, GuestError
from memhint.objects.units import MIB

MEMORY_MIB = 2048
PLUGGED_AT_MOST_MIB = 1280
WINDOW = 60.0  # seconds a drain gets
QUIET = 10.0  # seconds without progress after which it is over: passes are 2 apart
ENOUGH = 0.95  # of what is free, after which nobody looks on
EVERY = 0.02  # seconds between two looks
SPARE_MIB = 256
"""Used and freed besides, so that all that may be taken is resident."""
SLACK_MIB = 48
"""Left to the guest's kernel where all else is used."""
UNTOUCHED_MIB = SLACK_MIB + 48
"""That a balloon meets at most which were never resident: these, and what the kernel kept back (69 were seen)."""
PRESSED_DELAY_MS = 200
"""What memhint's ladder sets under pressure unless the operator says otherwise: [ladder] delay_ms."""


@dataclass(frozen=True, slots=True)
class Drain:
    """`size` bytes were to leave; `left` are samples of (seconds, bytes that had)."""

    size: int
    left: tuple[tuple[float, float], ...]

    def seconds(self, share: float) -> float | None:
        """When that share of it had left, None if it never had."""
        return time_to(self.left, share * self.size)

    @property
    def bound(self) -> float:
        """Seconds to 90 %; where that was not reached, the whole window, also of one that stalled and was given up."""
        reached = self.seconds(0.9)
        return WINDOW if reached is None else reached


@dataclass(frozen=True, slots=True)
class Method:
    """A guest, and what is done to it. `start` begins what makes memory leave, and returns at once."""

    name: str
    series: str
    words: str
    prepare: Callable[[Guest, int], None]
    start: Callable[[Guest, int], None]
    finish: Callable[[Guest, int], None]
    hotplug: bool = False

    @property
    def guest(self) -> tuple[str, str, bool]:
        """Methods of which this is equal share a guest."""
        return self.series, self.words, self.hotplug


def _use(guest: Guest, mib: int) -> None:
    guest.hold(mib)


def _use_after(delay_ms: int) -> Callable[[Guest, int], None]:
    def use(guest: Guest, mib: int) -> None:
        # what the last drain left over would count here
        guest.set(page_reporting_delay_ms=PRESSED_DELAY_MS)
        guest.drained()
        guest.set(page_reporting_delay_ms=delay_ms)
        guest.hold(mib)

    return use


def _free(guest: Guest, mib: int) -> None:
    guest.run("kill $(cat /tmp/holder)")


def _free_pressed(guest: Guest, mib: int) -> None:
    """As memhint's ladder asks of the guest agent: a shorter delay, and what is free now at once."""
    guest.run(
        "kill $(cat /tmp/holder); wait; "
        f"echo {PRESSED_DELAY_MS} > {PARAMETERS}/page_reporting_delay_ms; "
        f"echo {mib * MIB // 4096} > {PARAMETERS}/flush_pages"
    )


def _freed(guest: Guest, mib: int) -> None:
    guest.run("wait; rm -f /tmp/held /tmp/holder")


def _use_all_and_free(guest: Guest, mib: int) -> None:
    # A balloon takes what the guest's kernel hands it, touched or not, and only what was touched leaves QEMU with it.
    free = int(guest.run("awk '/^MemFree:/ { print $2 }' /proc/meminfo")) // 1024
    guest.hold(free - SLACK_MIB)
    guest.release()


def _inflate(guest: Guest, mib: int) -> None:
    # What was never touched is handed out first: without it the balloon came to its size before so much had left.
    guest.qmp("balloon", value=(MEMORY_MIB - mib - UNTOUCHED_MIB) * MIB)


def _deflate(guest: Guest, mib: int) -> None:
    guest.qmp("balloon", value=MEMORY_MIB * MIB)
    guest.wait_until(lambda: guest.qmp("query-balloon")["actual"] == MEMORY_MIB * MIB, "the balloon to deflate")


def _request(guest: Guest, mib: int) -> None:
    guest.qmp("qom-set", path="/machine/peripheral/mem0", property="requested-size", value=mib * MIB)


def _plugged(guest: Guest, mib: int) -> None:
    guest.wait_until(
        lambda: guest.qmp("qom-get", path="/machine/peripheral/mem0", property="size") == mib * MIB,
        f"{mib} MiB to be plugged",
    )


def _plug(guest: Guest, mib: int) -> None:
    _request(guest, mib)
    _plugged(guest, mib)
    # movable memory, which the plugged is, is used first
    guest.hold(mib + SPARE_MIB)
    guest.release()


_OFF = "page_reporting.enabled=0"
STOCK = Method("stock reporting", "none", "", _use, _free, _freed)
SLOW = Method("free lists, 2000 ms", "stats", "", _use_after(2000), _free, _freed)
FAST = Method("free lists, 200 ms", "stats", "", _use_after(200), _free, _freed)
PRESSED = Method("memhint under pressure", "stats", "", _use_after(2000), _free_pressed, _freed)
BITMAP = Method("bitmap", "bitmap", "page_reporting.bitmap=1", _use, _free, _freed)
BALLOON = Method("balloon inflated", "stats", _OFF, _use_all_and_free, _inflate, _deflate)
UNPLUGGED = Method(
    "virtio-mem unplugged",
    "stats",
    f"{_OFF} memhp_default_state=online_movable",
    _plug,
    lambda guest, mib: _request(guest, 0),
    lambda guest, mib: _plugged(guest, 0),
    hotplug=True,
)
METHODS = (STOCK, SLOW, FAST, PRESSED, BITMAP, BALLOON, UNPLUGGED)


@contextmanager
def guests(kernels: dict[str, Kernel], methods: Sequence[Method]) -> Iterator[dict[tuple[str, str, bool], Guest]]:
    """A guest for all methods that can share it. Raises GuestFailed, also for what fails in the body."""
    with ExitStack() as stack:
        try:
            found: dict[tuple[str, str, bool], Guest] = {}
            for method in methods:
                if method.guest not in found:
                    plugged = PLUGGED_AT_MOST_MIB if method.hotplug else 0
                    mib = MEMORY_MIB // 2 if method.hotplug else MEMORY_MIB
                    guest = Guest(kernels[method.series].folder, mib=mib, arguments=method.words, hotplug_mib=plugged)
                    stack.callback(guest.close)
                    found[method.guest] = guest
            yield found
        except GuestError as error:
            raise GuestFailed(str(error)) from None


def drain(method: Method, guest: Guest, mib: int) -> Drain:
    """Let it use that much, and look on as it leaves. Raises GuestError."""
    method.prepare(guest, mib)
    _settle(guest)
    before = guest.resident_mib()
    samples = [(0.0, 0.0)]
    began = moved = time.monotonic()
    method.start(guest, mib)
    while (now := time.monotonic()) - began < WINDOW and now - moved < QUIET:
        left = float((before - guest.resident_mib()) * MIB)
        if left > samples[-1][1]:
            moved = now
        samples.append((now - began, left))
        if left >= ENOUGH * mib * MIB:
            break
        time.sleep(EVERY)
    method.finish(guest, mib)
    return Drain(mib * MIB, tuple(samples))


def middle(drains: Sequence[Drain]) -> Drain:
    """The one whose time to 90 % is the median; of an even number the slower of the two in the middle."""
    return sorted(drains, key=lambda one: one.bound)[len(drains) // 2]


def ratio(drains: Sequence[Drain], others: Sequence[Drain]) -> float:
    """Median over the rounds of the time to 90 %, over that of the other in the same round."""
    return statistics.median(one.bound / max(other.bound, EVERY) for one, other in zip(drains, others, strict=True))


def curve(found: Drain) -> list[tuple[float, float]]:
    """Seconds, and MiB that had left; only where it bends."""
    points = [(round(at, 3), round(left / MIB, 1)) for at, left in found.left]
    return [
        point
        for number, point in enumerate(points)
        if number in (0, len(points) - 1) or not (points[number - 1][1] == point[1] == points[number + 1][1])
    ]


def _settle(guest: Guest) -> None:
    """Until QEMU's memory stands still."""
    looks: list[int] = []

    def still() -> bool:
        looks.append(guest.resident_mib())
        return len(looks) > 20 and max(looks[-20:]) - min(looks[-20:]) <= 1

    guest.wait_until(still, "QEMU's memory to stand still")
