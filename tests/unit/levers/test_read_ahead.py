"""Reading ahead: what a VM that wakes has in swap, while there is room for it and the VM uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memhint.kernel.guest_advice import Swapped
from memhint.levers.read_ahead import ReadAhead, ReadAheadSettings, read_ahead
from memhint.objects.units import GIB, MIB

BLOCK = 2 * MIB
SHIPPED = ReadAheadSettings()


class Guest:
    """A guest that has blocks in swap and uses a part of what was read, and some MiB a second besides."""

    def __init__(self, blocks: int, size: int = BLOCK, uses: float = 1.0, touches: float = 0.0) -> None:
        self.blocks = [Swapped(place * BLOCK, BLOCK, size) for place in range(blocks)]
        self.all = sum(one.size for one in self.blocks)
        self.read: list[Swapped] = []
        self.size = 0
        self.uses = uses
        self.touches = touches
        self.now = self.began = 100.0
        self.free = 4 * GIB
        self.waiting: Callable[[], int] = lambda: 0
        self.stopping = False

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def swapped(self) -> Iterator[Swapped]:
        yield from self.blocks

    def will_need(self, block: Swapped) -> None:
        self.read.append(block)
        self.free -= block.size
        self.size += block.size

    @property
    def used(self) -> int:
        return int(self.uses * self.size) + int(self.touches * (self.now - self.began))

    def in_swap(self) -> int:
        return max(0, self.all - self.used)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def ahead(self, **settings: Any) -> ReadAhead:
        return read_ahead(
            self,
            self.in_swap,
            lambda: self.free,
            lambda: self.waiting(),
            ReadAheadSettings(**settings),
            clock=lambda: self.now,
            sleep=self.sleep,
            stop=lambda: self.stopping,
        )


def test_all_that_is_in_swap_is_read_and_no_block_twice() -> None:
    guest = Guest(100)
    assert guest.ahead() == ReadAhead(200 * MIB, "")
    assert guest.read == guest.blocks


def test_nothing_in_swap_is_nothing_to_read() -> None:
    assert Guest(0).ahead() == ReadAhead(0, "")


def test_it_keeps_its_pace() -> None:
    guest = Guest(100)
    guest.ahead(per_second=50 * MIB)
    assert 103.9 <= guest.now <= 104.1


def test_it_ends_before_the_host_s_reserve_is_touched() -> None:
    guest = Guest(100)
    guest.free = 33 * MIB
    found = guest.ahead()
    assert (found.size, guest.free) == (32 * MIB, MIB)
    assert "reserve" in found.ended


def test_of_a_vm_that_uses_nothing_only_the_first_is_read() -> None:
    guest = Guest(1000, uses=0.0)
    found = guest.ahead()
    assert found == ReadAhead(SHIPPED.first, "the VM uses little of what was read")
    assert guest.now - guest.began <= SHIPPED.doubt + 0.1


@given(st.floats(0.0, 1.0), st.floats(0.0, 300.0))
def test_never_more_is_read_than_what_it_uses_allows(uses: float, touches: float) -> None:
    guest = Guest(400, uses=uses, touches=touches * MIB)
    found = guest.ahead()
    assert found.size <= SHIPPED.first + SHIPPED.times * guest.used
    assert found.ended or found.size == 800 * MIB


def test_a_heartbeat_has_a_few_times_its_own_read() -> None:
    guest = Guest(10_000, uses=0.0, touches=2 * MIB)
    found = guest.ahead()
    assert "60 s are over" in found.ended
    assert found.size <= SHIPPED.first + 60 * 2 * SHIPPED.times * MIB


def test_what_the_vm_waits_for_itself_does_not_come_behind_all_that_is_read_ahead() -> None:
    guest = Guest(100)
    answered_at = 0.0
    most = 0

    def waiting() -> int:
        """A disk that answers a block in 0.1 s, a page each."""
        nonlocal answered_at, most
        left = max(0.0, len(guest.read) * 0.1 - (guest.now - guest.began))
        most = max(most, int(left / 0.1 * 512))
        return int(left / 0.1 * 512)

    guest.waiting = waiting
    assert guest.ahead().size == 200 * MIB
    assert most <= 512 + SHIPPED.waiting


def test_one_wake_has_its_time_and_ends_when_told() -> None:
    guest = Guest(1000)
    assert "60 s are over" in guest.ahead(per_second=10 * MIB).ended
    assert guest.now < 162.0
    guest = Guest(1000)
    guest.stopping = True
    assert guest.ahead() == ReadAhead(0, "told to stop")
    guest = Guest(1000)
    guest.waiting = lambda: 1000  # a disk that hangs
    assert "60 s are over" in guest.ahead().ended


def test_blocks_of_which_little_is_in_swap_are_counted_by_that() -> None:
    guest = Guest(512, size=4096)
    guest.free = 17 * MIB
    assert guest.ahead() == ReadAhead(2 * MIB, "")
