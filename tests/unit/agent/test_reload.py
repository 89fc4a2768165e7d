"""What an agent that was put together anew takes over from the one before it in the same process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.agent import build as building
from memhint.agent.guest_reporting import GuestReporting
from memhint.agent.guests import Guests
from memhint.agent.parts import Stores
from memhint.agent.reclaim_store import NoRequests
from memhint.agent.runners.reporting import ReportingRunner
from memhint.conf.load import load
from memhint.objects.guest import GuestKernel
from memhint.objects.policy import Origin, effective
from memhint.objects.tuning import GUESTS_OWN, Tuning
from tests.unit import builders
from tests.unit.agent.fake_host import WAIT_S
from tests.unit.builders import NOW, WEB
from tests.unit.guest.fake_agent import FakeAgent
from tests.unit.levers.fakes import FakeNextBoot

ALLOW = effective({Origin.OPERATOR: {"guest_actions": "allow"}})
MEMINFO = "MemTotal: 4000000 kB\nMemFree: 3000000 kB\nMemAvailable: 3500000 kB\nCached: 9 kB\n"
Build = Callable[[], building.Agent]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Puts agents together whose libvirt is never asked, and which have no levers."""
    (tmp_path / "memhint.conf").write_text("[DEFAULT]\nhost_name = host-a\n[dedup]\nestimate_cpu_percent = 0\n")
    monkeypatch.setattr(building, "build_levers", lambda context: ())
    nothing = cast("Any", SimpleNamespace())
    stores = Stores(nothing, MemoryLedger(), nothing, nothing, nothing, NoRequests())
    built: list[building.Agent] = []

    def put_together() -> building.Agent:
        before = built[-1] if built else None
        built.append(building.build(load([tmp_path / "memhint.conf"]), stores, "epoch", before=before))
        if before is not None:
            built[-1].inherit(before)
        return built[-1]

    yield put_together
    for one in built:
        one.close()


def test_what_qemu_counted_and_what_came_of_it_is_known_after_it(build: Build) -> None:
    before = build()
    vm = builders.domain_observation(process=builders.process(), guest=None)
    before.discarded.join([vm])
    counted = before.counters._known[vm.uuid]
    before.counters._known[vm.uuid] = replace(counted, reading=builders.balloon_reporting(at=builders.NOW))
    before.counters._wall = lambda: builders.NOW
    (known,) = before.discarded.join([vm])
    assert known.reporting_check is not None
    after = build()
    after.counters._wall = lambda: builders.NOW
    assert after.discarded.join([vm]) == [known]


class SlowGuest:
    """One that can be tuned, and takes its time for the first setting or, if told so, for the first question."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, asked: bool = False) -> None:
        self.order, self.settings = 9, 0
        self.ledger = MemoryLedger()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._asked = asked
        monkeypatch.setattr("memhint.agent.guests.read_guest_kernel", self._read)
        monkeypatch.setattr("memhint.levers.reporting_tuning.set_page_reporting", self._set)

    def runner(self, before: ReportingRunner | None = None) -> ReportingRunner:
        """Of another agent of the same process."""
        guests = Guests(
            lambda uuid: nullcontext(FakeAgent(files={"/proc/meminfo": MEMINFO})),
            building.GuestTiming(),
        )
        built = ReportingRunner(guests, GuestReporting(self.ledger, lambda uuid: FakeNextBoot(), 9))
        if before is not None:
            built.inherit(before)
        return built

    @staticmethod
    def follow(runner: ReportingRunner, tuning: Tuning) -> None:
        domain = builders.domain_observation(process=builders.process())
        runner._guests.follow([domain], {WEB: ALLOW}, {WEB: tuning})

    def _wait(self) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(WAIT_S)

    def _read(self, *_: object) -> GuestKernel:
        if self._asked:
            self._wait()
        return GuestKernel(NOW, "6.12.1", "boot-1", self.order, "virtio3", True, True, ("enabled", "order"), True)

    def _set(self, agent: object, *, order: int) -> SimpleNamespace:
        self.settings += 1
        if not self._asked:
            self._wait()
        self.order = order
        return SimpleNamespace(order=order, delay_ms=None, flushed=0)


def ended(runner: ReportingRunner) -> bool:
    """Whether no conversation of it is under way."""
    return runner._guests._poller.close(WAIT_S)


def test_a_guest_that_an_earlier_agent_is_setting_is_looked_at_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = SlowGuest(monkeypatch)
    old = guest.runner()
    guest.follow(old, Tuning(order=4))
    assert guest.begun.wait(WAIT_S)
    old.close()
    new = guest.runner(old)
    guest.follow(new, GUESTS_OWN)
    new._guests._poller.close(0.2)  # were it not to wait, it would be done by then, and have dropped the mark
    guest.go_on.set()
    assert ended(old)
    assert ended(new)
    assert (guest.order, guest.settings) == (9, 2)
    assert guest.ledger.all() == ()


def test_what_an_earlier_agent_has_not_begun_to_set_it_does_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = SlowGuest(monkeypatch, asked=True)
    old = guest.runner()
    guest.follow(old, Tuning(order=4))
    assert guest.begun.wait(WAIT_S)
    old.close()
    guest.go_on.set()
    assert ended(old)
    assert (guest.order, guest.settings) == (9, 0)
    assert guest.ledger.all() == ()


def test_what_a_guest_said_counts_until_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = SlowGuest(monkeypatch)
    guest.go_on.set()
    old = guest.runner()
    guest.follow(old, Tuning(order=4))
    assert ended(old)
    said = old._guests.news(WEB)
    assert said.memory is not None
    assert said.kernel is not None
    assert guest.runner(old)._guests.news(WEB) == said
