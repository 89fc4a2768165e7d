"""Reading ahead: what a VM that wakes has in swap, while there is room for it and the VM uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.kernel.guest_advice import Mapped, Swapped
from memhint.levers.read_ahead import ReadAhead, ReadAheadSettings, read_ahead
from memhint.objects.units import GIB, MIB

BLOCK = 2 * MIB
PAGE = 4096
SHIPPED = ReadAheadSettings()


LEFT = 32  # one page in so many is left to the guest where the others are mapped


class Guest:
    """A guest that has blocks in swap and uses a part of what was read, and some MiB a second besides.

    ``quick``: it uses that part of a block before the rest is mapped; else afterwards.
    """

    def __init__(
        self,
        blocks: int,
        size: int = BLOCK,
        uses: float = 1.0,
        touches: float = 0.0,
        maps: bool = True,
        quick: bool = False,
    ) -> None:
        self.blocks = [Swapped(place * BLOCK, BLOCK, size) for place in range(blocks)]
        self.all = sum(one.size for one in self.blocks)
        self.read: list[Swapped] = []
        self.mapped: list[Swapped] = []
        self.size = 0
        self.away = 0  # mapped for it
        self.took = 0  # from swap itself, of what was read
        self.read_used = 0
        self.uses = uses
        self.touches = touches
        self.maps = maps
        self.quick = quick
        self.looks = 0
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
        if self.quick or not self.maps:
            self._take(block.size)

    def map(self, block: Swapped) -> Mapped:
        assert block in self.read
        self.mapped.append(block)
        rest = block.size - (int(self.uses * block.size) if self.quick else 0)
        left = rest // PAGE // LEFT
        if not self.maps or not left:
            return Mapped(block.start, block.length, 0, ())
        size = rest - left * PAGE
        self.away += size
        if not self.quick:
            self._take(left * PAGE)
            self.read_used += int(self.uses * size)
        return Mapped(block.start, block.length, size, tuple(range(left)))

    def untouched(self, block: Mapped) -> int:
        self.looks += 1
        left = len(block.left)
        return left if self.quick else left - int(self.uses * left)

    def _take(self, size: int) -> None:
        self.took += int(self.uses * size)
        self.read_used += int(self.uses * size)

    @property
    def besides(self) -> int:
        return int(self.touches * (self.now - self.began))

    @property
    def used(self) -> int:
        return self.read_used + self.besides

    def in_swap(self) -> int:
        return max(0, self.all - self.away - self.took - self.besides)

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
    assert guest.ahead() == ReadAhead(200 * MIB, "", 200 * MIB * 31 // 32)
    assert guest.read == guest.mapped == guest.blocks


def test_a_kernel_that_lets_nobody_map_is_read_ahead_all_the_same() -> None:
    guest = Guest(100, maps=False)
    assert guest.ahead() == ReadAhead(200 * MIB, "")
    assert guest.looks == 0


def test_a_block_is_mapped_once_the_next_is_being_read_or_nothing_more_may_be() -> None:
    guest = Guest(100, uses=0.0)
    behind: list[int] = []
    read = guest.will_need

    def will_need(block: Swapped) -> None:
        behind.append(len(guest.read) - len(guest.mapped))
        read(block)

    guest.will_need = will_need  # type: ignore[method-assign]
    assert guest.ahead(per_second=1 << 90).mapped == SHIPPED.first * 31 // 32
    assert behind == [0, 1, 1, 1]
    assert guest.mapped == guest.read


@pytest.mark.parametrize("uses", [0.25, 0.5])
def test_a_part_of_it_that_a_vm_uses_is_seen_by_the_pages_that_were_left(uses: float) -> None:
    guest = Guest(1000, uses=uses)
    assert guest.ahead().ended == ""
    guest = Guest(1000, uses=0.1)  # an eighth would do
    found = guest.ahead()
    assert "uses little" in found.ended
    assert found.size <= SHIPPED.first + SHIPPED.times * guest.used


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
    assert (found.size, found.ended) == (SHIPPED.first, "the VM uses little of what was read")
    assert guest.now - guest.began <= SHIPPED.doubt + 0.1


@given(st.floats(0.0, 1.0), st.floats(0.0, 300.0), st.booleans())
def test_never_more_is_read_than_what_it_uses_allows(uses: float, touches: float, quick: bool) -> None:
    guest = Guest(400, uses=uses, touches=touches * MIB, quick=quick)
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
    assert guest.ahead() == ReadAhead(2 * MIB, "")  # of a page nothing can be left
