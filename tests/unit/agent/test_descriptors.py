"""The limit of open files is raised where the agent starts, and never lowered."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace

import pytest

from memhint.agent import descriptors
from memhint.agent.descriptors import MOST, allow_many_descriptors
from memhint.cli.agent_run import run_agent

NO_BOUND = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [
        (1024, 4096, 4096),
        (1024, 1 << 30, MOST),
        (1024, NO_BOUND, MOST),
        (1 << 20, 1 << 20, None),
        (NO_BOUND, NO_BOUND, None),
        (4096, 4096, None),
    ],
)
def test_it_is_raised_as_far_as_the_process_may(
    soft: int, hard: int, after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    allow_many_descriptors()
    assert made == ([] if after is None else [(after, hard)])


def test_a_limit_that_cannot_be_raised_is_said_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    allow_many_descriptors()
    assert "not here" in caplog.text


def test_it_is_raised_before_the_agent_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("memhint.conf.load", lambda _: SimpleNamespace())
    monkeypatch.setattr("memhint.conf.log.set_up", lambda *_: None)
    monkeypatch.setattr(descriptors, "allow_many_descriptors", lambda: said.append("raised"))
    monkeypatch.setattr("memhint.agent.service.run", lambda *_: said.append("runs") or 0)
    assert run_agent(None) == 0
    assert said == ["raised", "runs"]


def test_the_unit_says_the_same() -> None:
    unit = Path(__file__).parents[3] / "etc" / "systemd" / "memhint-agent.service"
    assert f"\nLimitNOFILE={MOST}\n" in unit.read_text()
