from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from memhint.agent import oneshot
from memhint.agent.build import build
from memhint.conf.load import load
from memhint.levers.balloon import BALLOON_KNOB
from memhint.objects.gap import Gap, GapReason
from memhint.objects.lever import LeverName
from memhint.objects.ownership import Mark
from memhint.objects.report import Report
from memhint.objects.units import GIB
from memhint.objects.verdict import Answer
from memhint.store.host_store import open_host_store
from memhint.virt.marks import DomainMarks
from tests.unit import builders
from tests.unit.agent.views import asking, view_of

WAIT_S = 60.0  # never reached unless the test fails

LATE = builders.report(domains=(), gaps=(Gap("bulk statistics", GapReason.TIMEOUT, "no answer in 2 s"),))


@dataclass
class LateAgent:
    """An agent that libvirt answers only after so many cycles."""

    late: int
    runs: int = 0
    closed: bool = False
    cycle: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.cycle = SimpleNamespace(run=self._run, state=None)

    def _run(self) -> Report:
        self.runs += 1
        return LATE if self.runs <= self.late else builders.report()

    def settle(self, timeout: float) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def looked(late: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[LateAgent, Report]:
    config = tmp_path / "memhint.conf"
    config.write_text(f"[DEFAULT]\nhost_name = host-a\n[store]\nurl = sqlite:///{tmp_path}/none.db\n")
    agent = LateAgent(late)
    monkeypatch.setattr(oneshot, "build", lambda *_, **__: agent)
    return agent, oneshot.dry_run(load([config]))


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_libvirt_that_is_late_is_asked_again(late: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, report = looked(late, tmp_path, monkeypatch)
    assert report.domains
    assert (agent.runs, agent.closed) == (late + 2, True)


def test_one_that_does_not_answer_is_given_up_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, report = looked(100, tmp_path, monkeypatch)
    assert [gap.what for gap in report.gaps] == ["bulk statistics"]
    assert (agent.runs, agent.closed) == (4, True)


def test_a_mark_of_a_process_that_ended_is_left_in_the_running_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent gives back what that one may not have taken, forgets the mark, and has the domain carry the others."""
    config = tmp_path / "memhint.conf"
    config.write_text(f"[DEFAULT]\nhost_name = host-a\n[store]\nurl = sqlite:///{tmp_path}/host.db\n")
    conf = load([config])
    mark = Mark(builders.WEB, BALLOON_KNOB, str(4 * GIB), str(2 * GIB), "1:1", 1.0)
    store = open_host_store(conf.store.url, host="host-a")
    store.marks.put(mark)
    written: list[str] = []
    monkeypatch.setattr(DomainMarks, "write", lambda self, uuid, marks: written.append(uuid))
    view = view_of([builders.domain_observation(uuid=builders.WEB)], {builders.WEB: builders.policy()})
    with oneshot.stores_of(conf) as (stores, _):
        agent = build(conf, stores, "", dry_run=True)
        try:
            (balloon,) = [one for one in agent.parts.runners if LeverName.BALLOON in one.names]
            balloon.pull(view, asking())
            assert balloon.settle(WAIT_S)
            assert [one.verdict.answer for one in balloon.states(view, asking())] == [Answer.PLANNED]
        finally:
            agent.close()
    assert written == []
    assert store.marks.all() == (mark,)
    store.close()
