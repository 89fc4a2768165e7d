"""Which command lines run the agent by itself, and how it ends then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memhint.agent.lock import AlreadyRunning
from memhint.cli import agent_run
from memhint.cli.agent_run import config_files, run_agent
from memhint.cli.exits import CliError
from memhint.conf.errors import ConfigError
from memhint.store.errors import StoreError


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["agent"], []),
        (["agent", "--config-file", "a"], ["a"]),
        (["--config-file=a", "agent", "--config-file", "b"], ["a", "b"]),
        (["agent", "--config-file"], None),
        (["agent", "--help"], None),
        (["--debug", "agent"], None),
        (["agent", "agent"], None),
        (["status"], None),
        (["status", "--config-file", "agent"], None),
        ([], None),
    ],
)
def test_only_a_plain_command_line_is_read_here(words: list[str], files: list[str] | None) -> None:
    assert config_files(words) == files


@pytest.mark.parametrize("more", [[], ["-v"]], ids=["alone", "by the command line's own parser"])
def test_a_wrong_configuration_is_named_alike(more: list[str], tmp_path: Path) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text("[planner]\npsi_enter = 200\n")
    words = [sys.executable, "-m", "memhint.cli.main", *more, "agent", "--config-file", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"{file}: [planner] psi_enter: '200' is not accepted: use a number from 0 to 100\n"


def test_a_signal_before_it_heeds_signals_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(files: list[str]) -> int:
        raise KeyboardInterrupt

    for name in ("heap.keep_heap_small", "unused.leave_unloaded"):
        monkeypatch.setattr(f"memhint.agent.{name}", lambda: None)
    monkeypatch.setattr(agent_run, "run_agent", interrupted)
    assert agent_run.run_alone([]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("error", [StoreError("it is damaged"), AlreadyRunning("it lives"), ValueError("a defect")])
def test_ksm_rests_where_an_agent_ends_by_an_error_unless_that_is_another_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fails(*_: object) -> int:
        raise error

    rested: list[object] = []
    monkeypatch.setattr("memhint.agent.rest_ksm.say_rest", rested.append)
    monkeypatch.setattr("memhint.agent.service.run", fails)
    monkeypatch.setattr("memhint.conf.log.set_up", lambda *_: None)
    file = tmp_path / "memhint.conf"
    file.write_text("[DEFAULT]\n")
    lives = isinstance(error, AlreadyRunning)
    with pytest.raises(CliError if lives else type(error)):
        run_agent([str(file)])
    assert len(rested) == (0 if lives else 1)


def test_ksm_rests_where_the_configuration_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rested: list[object] = []
    monkeypatch.setattr("memhint.agent.rest_ksm.say_rest", rested.append)
    file = tmp_path / "memhint.conf"
    file.write_text("[planner]\npsi_enter = 200\n")
    with pytest.raises(ConfigError):
        run_agent([str(file)])
    assert len(rested) == 1
