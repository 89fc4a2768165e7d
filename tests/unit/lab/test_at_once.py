"""Ctrl-C and a failure are told at once, however long what runs side by side would still take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab import host as lab_host
from lab.at_once import at_once, over
from lab.demo.scenario import Scenario, Settings
from lab.errors import BootError
from lab.host import Host, add_all
from lab.openstack.errors import ServiceFailed
from lab.openstack.stack import Stack

HANGS = 20.0  # seconds that each thing would take, were it waited for
SOON = 10.0


class Slow:
    """What hangs, and who has begun to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.over = threading.Event()

    def boot(self, name: str, *_: object, **__: object) -> str:
        self.begun.append(name)
        if name == "fails":
            raise BootError("it did not come up")
        if name != "quick":
            self.over.wait(HANGS)
        return name


class FakeHost(Slow):
    """A lab host whose guests hang as they boot; looking at it is when ctrl-c is pressed."""

    guests: tuple[str, ...] = ()

    def add_guest(self, name: str, *given: object, **more: object) -> str:
        return self.boot(name, *given, **more)

    def usage(self) -> int:
        raise KeyboardInterrupt


class Nobody:
    """An audience that is not there, and an agent that says nothing."""

    def phase(self, text: str) -> None:
        pass

    def newest(self) -> None:
        pass


@pytest.fixture
def host() -> Iterator[FakeHost]:
    one = FakeHost()
    yield one
    one.over.set()  # for threads that hang still: Python waits for them as it ends


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON


def wanted(host: FakeHost, *names: str) -> list[tuple[Host, dict[str, Any]]]:
    return [(cast(Host, host), {"name": name}) for name in names]


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_what_has_not_begun_never_begins(host: FakeHost) -> None:
    with pytest.raises(KeyboardInterrupt), at_once(1) as pool:  # noqa: PT012
        pool.submit(host.boot, "hangs")
        pool.submit(host.boot, "queued")
        raise KeyboardInterrupt
    host.over.set()
    assert "queued" not in host.begun


def test_all_is_done_behind_a_block_that_did_not_fail(host: FakeHost) -> None:
    with at_once(1) as pool:
        done = [pool.submit(host.boot, "quick") for _ in range(3)]
    assert [one.done() for one in done] == [True] * 3


@pytest.mark.parametrize(("name", "expected"), [("quick", False), ("fails", True)])
def test_it_is_over_where_one_has_failed(host: FakeHost, name: str, expected: bool) -> None:
    with at_once(2) as pool:
        first, second = pool.submit(host.boot, "hangs"), pool.submit(host.boot, name)
        while not second.done():
            time.sleep(0.01)
        assert over([first, second]) is expected
        host.over.set()
        first.result()
        assert over([first, second])


@pytest.mark.parametrize(("first", "error"), [("quick", KeyboardInterrupt), ("fails", BootError)])
def test_guests_that_boot_are_not_waited_for(
    host: FakeHost, first: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_host, "BOOTING_AT_ONCE", 2)
    with pytest.raises(error):
        add_all(wanted(host, first, "hangs", "also hangs", "queued"), interrupt)
    host.over.set()
    assert "queued" not in host.begun


def test_a_demo_does_not_wait_for_what_its_guests_do(host: FakeHost) -> None:
    scenario = Scenario(cast(Any, host), cast(Any, Nobody()), Settings(), cast(Any, Nobody()))
    with pytest.raises(KeyboardInterrupt):
        scenario._together(cast(Any, ["hangs"]), cast(Any, host.boot))


def test_a_demo_does_not_wait_for_vms_that_it_starts(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scenario, "_places", lambda *_: 9)
    monkeypatch.setattr("lab.demo.scenario.BOOTING_AT_ONCE", 2)
    scenario = Scenario(cast(Any, host), cast(Any, Nobody()), Settings(most=9), cast(Any, Nobody()))
    report = SimpleNamespace(plan=SimpleNamespace(capacity=SimpleNamespace(headroom=0)))
    with pytest.raises(KeyboardInterrupt):
        scenario._start(cast(Any, report))
    host.over.set()
    assert "guest-9" not in host.begun


def test_a_service_that_fails_is_told_before_the_others_answer(host: FakeHost) -> None:
    def start(name: str) -> None:
        if name == "fails":
            raise ServiceFailed("it has ended")
        host.boot(name)

    with pytest.raises(ServiceFailed):
        Stack._each(start, ["fails", "hangs"])
