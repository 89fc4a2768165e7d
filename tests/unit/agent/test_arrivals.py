"""VMs that start while levers are at work: levers hear of it at once, and passes say which of them they know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.agent import build as building
from memhint.agent.parts import Stores
from memhint.agent.reclaim_store import NoRequests
from memhint.agent.runners.host import HostRunner
from memhint.agent.runners.runner import LeverRunner
from memhint.conf.load import load
from memhint.levers.lever import HostLever, PassResult
from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Verdict
from memhint.virt.connection import DomainEvent, Event
from tests.unit.agent.fake_host import FakeHost

UUID = "6f1d3c2a-0000-4000-8000-000000000001"
WAIT_S = 60.0


class Told(HostLever[None]):
    """One that remembers what it was told."""

    name = LeverName.DEDUP

    def __init__(self) -> None:
        self.heard: list[object] = []

    def plan_of(self, planned, host):
        return None

    def reconcile(self, plan, domains, host, *, dry_run):
        self.heard.append("pass")
        return PassResult({}, Verdict(Answer.UNCHANGED))

    def arrived(self):
        self.heard.append("arrived")

    def knows(self, arrivals):
        self.heard.append(arrivals)

    def held(self, missing):
        return Verdict(Answer.UNCHANGED)

    def undo(self, domains, host):
        return Verdict(Answer.UNCHANGED)

    def states(self, domains, host, plan, policies, outcome):
        return ()

    def outcomes(self, plan, outcome):
        return ()


def test_a_pass_is_told_how_many_had_come_before_its_vms_were_listed(tmp_path: Path) -> None:
    lever = Told()
    runner = HostRunner(lever)
    host = FakeHost(tmp_path, more=lambda note: (runner,))
    come = 7
    observer = host.cycle._parts.observer
    observer._arrivals = lambda: come
    stats = observer._stats

    def list_them():
        nonlocal come
        come += 1  # one starts while libvirt makes the list
        return stats()

    observer._stats = list_them
    host.cycle.run()
    assert runner.settle(WAIT_S)
    assert lever.heard == [7, "pass"]


@pytest.mark.parametrize(("dry_run", "heard"), [(False, ["arrived"]), (True, [])])
def test_a_lever_hears_of_a_start_unless_nothing_is_to_be_done(dry_run: bool, heard: list[str]) -> None:
    lever = Told()
    HostRunner(lever, dry_run=dry_run).arrived()
    assert lever.heard == heard


class Nothing:
    """A store that keeps nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Heard(LeverRunner):
    """A runner that counts starts, and how often a cycle was wished for at once."""

    def __init__(self) -> None:
        self.starts = self.wakes = 0
        self.redefinitions: list[str] = []

    def wake(self) -> None:
        self.wakes += 1

    def pull(self, view, planned):
        raise AssertionError("no cycle was run")

    def arrived(self):
        self.starts += 1

    def redefined(self, uuid):
        self.redefinitions.append(uuid)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[building.Agent, Heard, list]]:
    """An agent whose libvirt is never asked, its lever, and what hears libvirt's events."""
    (tmp_path / "memhint.conf").write_text("[DEFAULT]\nhost_name = host-a\n[dedup]\nestimate_cpu_percent = 0\n")
    listeners: list[Callable[[Event], None]] = []
    real, runner, nothing = building.build_virt, Heard(), Nothing()

    def build_virt(conf, listen):
        listeners.append(listen)
        return real(conf, listen)

    monkeypatch.setattr(building, "build_virt", build_virt)
    monkeypatch.setattr(building, "build_levers", lambda context: (runner,))
    stores = Stores(nothing, MemoryLedger(), nothing, nothing, nothing, NoRequests())
    built = building.build(load([tmp_path / "memhint.conf"]), stores, "epoch", wake=runner.wake)
    yield built, runner, listeners
    built.close()


def test_what_starts_or_is_plugged_in_is_counted_and_told_at_once(agent) -> None:
    built, runner, (listen,) = agent
    for kind in (DomainEvent.STARTED, DomainEvent.PLUGGED):
        listen(Event(kind, UUID))
    listen(Event(DomainEvent.CONNECTED, ""))  # one may have started while there was no connection
    assert (built.arrivals.count, runner.starts) == (3, 3)
    assert runner.wakes == 2  # the cycle that made the connection goes on with it
    for kind in (DomainEvent.LIFECYCLE, DomainEvent.DEFINITION, DomainEvent.AGENT):
        listen(Event(kind, UUID))
    assert (built.arrivals.count, runner.starts) == (3, 3)
    assert runner.wakes == 5


def test_runners_hear_of_definitions_that_may_have_changed(agent) -> None:
    _, runner, (listen,) = agent
    for kind in (
        DomainEvent.PLUGGED,
        DomainEvent.DEFINITION,
        DomainEvent.AGENT,
    ):  # how it runs, and not what it starts as
        listen(Event(kind, UUID))
    assert runner.redefinitions == []
    for kind in (DomainEvent.LIFECYCLE, DomainEvent.STARTED):
        listen(Event(kind, UUID))
    listen(Event(DomainEvent.CONNECTED, ""))
    assert runner.redefinitions == [UUID, UUID, ""]
