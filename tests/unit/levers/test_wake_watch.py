"""Whose wakes are seen, and that a host that reads nothing from swap has no process looked at."""

from __future__ import annotations

from memhint.kernel.errors import ProcessGone
from memhint.levers.wake_watch import WakeWatch
from memhint.objects.units import GIB, MIB


class Host:
    """Processes with memory in swap."""

    def __init__(self) -> None:
        self.read = 0
        self.swap = {1: 100 * MIB, 2: 100 * MIB}
        self.looks = 0
        self.now = 0.0
        self.watch = WakeWatch(self, lambda: self.now)

    def total(self) -> int:
        return self.read

    def of(self, pid: int) -> int:
        self.looks += 1
        if pid not in self.swap:
            raise ProcessGone(f"proc/{pid}", "the process ended")
        return self.swap[pid]

    def want(self) -> None:
        self.watch.want({f"{pid}:7": (GIB, size) for pid, size in self.swap.items()})

    def back(self, pid: int, size: int) -> None:
        self.swap[pid] -= size
        self.read += size
        self.now += 0.1


def test_who_uses_what_was_in_swap_wakes_and_nobody_else() -> None:
    host = Host()
    host.want()
    assert host.watch.look() == []
    host.back(2, 3 * MIB)
    assert host.watch.look() == ["2:7"]
    assert host.watch.look() == []
    host.back(2, 3 * MIB)
    assert host.watch.look() == ["2:7"]


def test_while_nothing_is_read_from_swap_no_process_is_looked_at() -> None:
    host = Host()
    host.want()
    host.watch.look()
    before = host.looks
    for _ in range(100):
        assert host.watch.look() == []
    assert host.looks == before


def test_one_that_ended_keeps_no_other_from_being_seen() -> None:
    host = Host()
    host.want()
    del host.swap[1]
    host.back(2, 3 * MIB)
    assert host.watch.look() == ["2:7"]


def test_a_cycle_in_between_does_not_begin_a_window() -> None:
    host = Host()
    host.want()
    host.watch.look()
    host.back(1, MIB // 2)
    assert host.watch.look() == []
    host.want()
    host.back(1, MIB // 2)
    assert host.watch.look() == ["1:7"]


def test_who_is_not_wanted_any_more_is_not_looked_at() -> None:
    host = Host()
    host.want()
    host.watch.want({})
    host.back(1, 3 * MIB)
    assert host.watch.look() == []
    assert host.looks == 0
