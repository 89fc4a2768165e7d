from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from memhint.agent import oneshot
from memhint.conf.load import load
from memhint.objects.gap import Gap, GapReason
from memhint.objects.report import Report
from tests.unit import builders

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
