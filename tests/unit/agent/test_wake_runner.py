"""Whose wakes are watched, and that one wake is read ahead once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from memhint.agent.runners.wake import AT_ONCE, REST, Processes, WakeRunner
from memhint.kernel.errors import InterfaceMissing
from memhint.levers.read_ahead import ReadAhead
from memhint.objects.policy import Origin, Policy, effective
from tests.unit import builders
from tests.unit.agent.views import asking, view_of
from tests.waiting import until

WAIT_S = 20.0


class Host:
    """VMs that wake when told to."""

    def __init__(self, enabled: bool = True) -> None:
        self.now = 100.0
        self.wanted: Processes = {}
        self.awake: list[str] = []
        self.looks = 0
        self.blind = False
        self.read: list[str] = []
        self.go = threading.Event()
        self.go.set()
        self.runner = WakeRunner(self, self.ahead, enabled=enabled, clock=lambda: self.now, every=0.001)

    def want(self, processes: Processes) -> None:
        self.wanted = processes

    def look(self) -> list[str]:
        self.looks += 1
        if self.blind:
            raise InterfaceMissing("proc/vmstat", "no pswpin")
        awake, self.awake = self.awake, []
        return awake

    def ahead(self, instance: str, stop: Callable[[], bool]) -> ReadAhead:
        self.read.append(instance)
        while not (self.go.wait(0.005) or stop()):
            pass
        return ReadAhead(0, "")

    def wakes(self, *instances: str) -> None:
        self.awake = list(instances)
        until(lambda: not self.awake)

    def looked(self) -> None:
        """Wait until what a look saw has been begun."""
        before = self.looks
        until(lambda: self.looks >= before + 2)

    def pull(self, swap: dict[int, int], allowed: bool = True) -> None:
        domains = [
            builders.domain_observation(uuid=f"vm-{pid}", process=builders.process(pid=pid, start_ticks=1, swap=size))
            for pid, size in swap.items()
        ]
        policy: Policy = effective({Origin.OPERATOR: {"swap_out": "allow" if allowed else "deny"}})
        self.runner.pull(view_of(domains, {one.uuid: policy for one in domains}), asking())


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.go.set()
    host.runner.close()
    if host.runner._thread is not None:
        host.runner._thread.join(WAIT_S)
        assert not host.runner._thread.is_alive()


def test_a_vm_that_wakes_is_read_ahead_once_and_again_after_a_rest(host: Host) -> None:
    host.pull({1: 4096, 2: 4096})
    host.wakes("1:1")
    until(lambda: "1:1" in host.runner._rests)
    assert host.runner.settle(WAIT_S)
    host.now += REST - 1
    host.wakes("1:1", "2:1")
    until(lambda: "2:1" in host.read)
    assert host.read == ["1:1", "2:1"]
    host.now += 2
    host.wakes("1:1")
    until(lambda: host.read.count("1:1") == 2)


def test_who_has_nothing_in_swap_or_may_not_have_is_not_watched(host: Host) -> None:
    host.pull({1: 0, 2: 4096}, allowed=False)
    assert host.runner._thread is None
    host.pull({1: 0, 2: 4096})
    until(lambda: list(host.wanted) == ["2:1"])
    assert host.wanted["2:1"][1] == 4096


def test_while_nobody_has_anything_in_swap_nothing_is_looked_at(host: Host) -> None:
    host.pull({1: 4096})
    until(lambda: host.looks > 0)
    host.pull({1: 0})
    assert not host.runner._some.is_set()
    host.pull({1: 4096})
    assert host.runner._some.is_set()
    host.looked()


def test_a_kernel_that_does_not_count_is_asked_again(host: Host) -> None:
    host.blind = True
    host.pull({1: 4096})
    host.looked()
    host.blind = False
    host.wakes("1:1")
    until(lambda: host.read == ["1:1"])


def test_a_vm_that_is_read_for_long_holds_no_other_and_only_so_many_are_read_at_once(host: Host) -> None:
    host.go.clear()
    everybody = [f"{pid}:1" for pid in range(1, AT_ONCE + 2)]
    host.pull(dict.fromkeys(range(1, AT_ONCE + 2), 4096))
    host.wakes(*everybody)
    until(lambda: len(host.read) == AT_ONCE)
    host.wakes(everybody[-1])
    host.looked()
    assert host.read == everybody[:-1]
    assert not host.runner.settle(0.05)
    host.runner.close()
    assert host.runner.settle(WAIT_S)


@pytest.mark.parametrize("name", ["wakes", "read-ahead"])
def test_where_there_is_no_thread_it_is_begun_later(host: Host, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refused = threading.Thread.start, []

    def start(self: threading.Thread) -> None:
        if self.name == name and not refused:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    host.pull({1: 4096})
    assert host.runner.settle(0.0)
    host.pull({1: 4096})
    host.wakes("1:1")
    host.looked()
    assert host.runner.settle(WAIT_S)
    host.wakes("1:1")
    until(lambda: host.read == ["1:1"])
    assert refused == [name]


def test_one_that_is_switched_off_or_closed_watches_nobody() -> None:
    host = Host(enabled=False)
    host.pull({1: 4096})
    assert host.runner._thread is None
    host = Host()
    host.runner.close()
    host.pull({1: 4096})
    assert host.runner._thread is None
