"""Whose wakes are watched, and that one wake is read ahead once."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from memhint.agent.runners.wake import AT_ONCE, REST, WakeRunner
from memhint.kernel.errors import InterfaceMissing
from memhint.levers.read_ahead import ReadAhead
from memhint.objects.policy import Origin, Policy, effective
from tests.unit import builders
from tests.unit.agent.views import asking, view_of

WAIT_S = 20.0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Host:
    """VMs whose triggers are sockets: urgent data polls with POLLPRI, as the kernel's pressure does."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ends: dict[str, socket.socket] = {}
        self.read: list[str] = []
        self.go = threading.Event()
        self.go.set()
        self.missing: set[str] = set()
        self.runner = WakeRunner(self.trigger, self.ahead, clock=lambda: self.now)

    def trigger(self, instance: str) -> int:
        if instance in self.missing:
            raise InterfaceMissing("memory.pressure", "none")
        server = socket.create_server(("127.0.0.1", 0))
        self.ends[instance] = socket.create_connection(server.getsockname())
        fd = server.accept()[0].detach()
        server.close()
        return fd

    def ahead(self, instance: str, stop: Callable[[], bool]) -> ReadAhead:
        self.read.append(instance)
        while not (self.go.wait(0.005) or stop()):
            pass
        return ReadAhead(0, "")

    def wakes(self, instance: str) -> None:
        until(lambda: instance in self.ends)
        self.ends[instance].send(b"!", socket.MSG_OOB)

    def pull(self, swap: dict[int, int], allowed: bool = True) -> None:
        domains = [
            builders.domain_observation(uuid=f"vm-{pid}", process=builders.process(pid=pid, start_ticks=1, swap=size))
            for pid, size in swap.items()
        ]
        policy: Policy = effective({Origin.OPERATOR: {"swap_out": "allow" if allowed else "deny"}})
        self.runner.pull(view_of(domains, {one.uuid: policy for one in domains}), asking())

    def closed(self, instance: str) -> bool:
        """Whether nobody watches it any more."""
        self.ends[instance].settimeout(0.01)
        try:
            return self.ends[instance].recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.go.set()
    host.runner.close()
    if host.runner._thread is not None:
        host.runner._thread.join(WAIT_S)
        assert not host.runner._thread.is_alive()
    for one in host.ends.values():
        one.close()


def test_a_vm_that_wakes_is_read_ahead_once_and_again_after_a_rest(host: Host) -> None:
    host.pull({1: 4096})
    host.wakes("1:1")
    until(lambda: host.read == ["1:1"])
    until(lambda: "1:1" in host.runner._rests)
    assert host.runner.settle(WAIT_S)
    time_before = host.now
    host.now += REST - 1
    host.wakes("1:1")
    host.pull({1: 4096, 2: 4096})
    host.wakes("2:1")  # after it, so that the wake before was seen
    until(lambda: "2:1" in host.read)
    assert host.read.count("1:1") == 1 or host.now - time_before > REST
    host.now += 2
    host.wakes("1:1")
    until(lambda: host.read.count("1:1") == 2)


def test_who_has_nothing_in_swap_or_may_not_have_is_not_watched(host: Host) -> None:
    host.pull({1: 0, 2: 4096}, allowed=False)
    assert host.runner._thread is None
    host.pull({1: 0, 2: 4096})
    until(lambda: list(host.ends) == ["2:1"])
    host.pull({1: 0, 2: 0})
    until(lambda: host.closed("2:1"))


def test_one_that_cannot_be_watched_keeps_nobody_else_from_it(host: Host) -> None:
    host.missing.add("1:1")
    host.pull({1: 4096, 2: 4096})
    host.wakes("2:1")
    until(lambda: host.read == ["2:1"])


def test_a_vm_that_is_read_for_long_holds_no_other_and_only_so_many_are_read_at_once(host: Host) -> None:
    host.go.clear()
    host.pull(dict.fromkeys(range(1, AT_ONCE + 2), 4096))
    for pid in range(1, AT_ONCE + 1):
        host.wakes(f"{pid}:1")
    until(lambda: len(host.read) == AT_ONCE)
    host.wakes(f"{AT_ONCE + 1}:1")
    assert not host.runner.settle(0.05)
    assert len(host.read) == AT_ONCE
    host.runner.close()
    assert host.runner.settle(WAIT_S)


def test_closing_lets_go_of_every_descriptor_whether_somebody_was_watched_or_not() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for watched in (True, False):
        host = Host()
        if watched:
            host.pull({1: 4096})
            until(lambda host=host: "1:1" in host.ends)
        host.runner.close()
        if watched:
            host.runner._thread.join(WAIT_S)
            assert host.closed("1:1")
            host.ends["1:1"].close()
        host.pull({2: 4096})
        host.runner.close()
        assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_is_switched_off_watches_nobody() -> None:
    host = Host()
    host.runner = WakeRunner(host.trigger, host.ahead, enabled=False)
    host.pull({1: 4096})
    assert host.runner._thread is None
