"""A lever takes a file and a line: with those alone it is pulled, shown, recorded, given back and undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from lab.memory_ledger import MemoryLedger
from memhint.agent.metrics import AgentMetrics
from memhint.objects.lever import LeverState, Observed
from memhint.objects.policy import Origin
from memhint.objects.report import Report
from memhint.objects.verdict import Answer, Reason
from memhint.store.codec import dump, parse
from tests.unit.agent.fake_host import WAIT_S, FakeHost
from tests.unit.agent.toy_lever import TOY_KNOB, ToyLever, toy

WEB, DB = "uuid-web", "uuid-db"


class ToyHost(FakeHost):
    """A host that has the toy besides its other levers."""

    def __init__(self, path: Path) -> None:
        self.device: dict[str, int] = {}
        self.wishes: dict[str, int] = {}
        self.kept = MemoryLedger()
        super().__init__(path, more=lambda note: (toy(self.kept, self.device, lambda _: self.wishes, note),))
        self.recorder.wishes = {WEB: {Origin.OPERATOR: {"guest_actions": "allow"}}}

    def settle(self) -> None:
        super().settle()
        assert self.cycle._parts.runners[-1].settle(WAIT_S)


@pytest.fixture
def host(tmp_path: Path) -> ToyHost:
    return ToyHost(tmp_path)


def states(report: Report) -> dict[str, LeverState]:
    return {state.subject: state for one in report.domains for state in one.levers if state.lever == ToyLever.name}


def told(host: ToyHost) -> list[tuple[str, Answer]]:
    return [(one.subject, one.verdict.answer) for one in host.recorder.events if one.lever == ToyLever.name]


def test_it_is_pulled_shown_and_recorded_once(host: ToyHost) -> None:
    host.wishes = {WEB: 4096, DB: 4096}
    host.run_cycles()
    found = states(host.run_cycles())
    assert (found[WEB].observed, found[WEB].desired) == (Observed.ON, "4096 B")
    assert (found[DB].verdict.answer, found[DB].verdict.reason) == (Answer.REFUSED, Reason.CONSENT)
    host.run_cycles(3)
    assert told(host).count((WEB, Answer.APPLIED)) == 1
    assert told(host).count((DB, Answer.REFUSED)) == 1
    assert host.device == {WEB: 4096}


def test_what_is_wished_no_more_is_given_back_also_by_a_successor(host: ToyHost, tmp_path: Path) -> None:
    host.wishes = {WEB: 4096}
    host.run_cycles(2)
    (tmp_path / "after").mkdir()
    after = ToyHost(tmp_path / "after")
    after.kept.marks.update(host.kept.marks)
    after.device.update(host.device)
    after.run_cycles(2)
    assert (after.device, after.kept.all()) == ({}, ())
    assert (WEB, Answer.APPLIED) in told(after)


def test_in_the_end_it_is_undone(host: ToyHost) -> None:
    host.wishes = {WEB: 4096}
    host.run_cycles(2)
    assert host.kept.get(WEB, TOY_KNOB) is not None
    assert host.cycle.undo(WAIT_S) == []
    assert (host.device, host.kept.all()) == ({}, ())


def test_a_vm_of_which_nothing_is_known_is_let_be(host: ToyHost) -> None:
    host.wishes = {WEB: 4096}
    host.definitions.missing = {WEB}
    host.run_cycles(3)
    assert host.device == {}


def test_reports_and_metrics_take_it_as_any_other(host: ToyHost) -> None:
    host.wishes = {WEB: 4096}
    report = host.run_cycles(2)
    assert states(parse(dump(report))).keys() == states(report).keys()
    metrics = AgentMetrics(CollectorRegistry())
    metrics.record("host-1", 1.0, states(report).values())
