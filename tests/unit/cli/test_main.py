from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
from oslo_config import cfg
from sqlalchemy import text

from memhint.agent import lock, service
from memhint.cli.errors import Exit
from memhint.cli.main import main
from tests.unit import builders
from tests.unit.cli.conftest import Bench

READERS = [["status"], ["domains"], ["explain"], ["plan"], ["set", "web-1", "reporting=off"]]


def test_exit_codes_are_those_that_the_help_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for code in Exit:
        assert f"\n  {code.value}  " in out
    for command in ("agent", "domains", "explain", "plan", "set", "status"):
        assert f"\n  {command} " in out


@pytest.mark.parametrize("command", ["agent", "domains", "explain", "plan", "set", "status"])
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: memhint {command}")
    assert f"\n  memhint {command}" in out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("memhint ")


def test_no_command_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: memhint")


def test_an_unknown_command_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statsu"]) == 2
    assert capsys.readouterr().err == "'statsu' is not a command of memhint: use status\n"


@pytest.mark.parametrize("words", [["frob"], ["help", "frob"]])
def test_a_word_that_is_like_no_command_names_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "'frob' is not a command of memhint: see memhint --help\n")


def test_help_for_a_misspelt_command_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "statsu"]) == 2
    assert capsys.readouterr().err == "'statsu' is not a command of memhint: use status\n"
    assert main(["help", "host", "show"]) == 0
    assert capsys.readouterr().out.startswith("usage: memhint host show")


def test_an_option_of_a_command_goes_behind_it(bench: Bench) -> None:
    result = bench.run("--json", "status")
    assert (result.code, result.out) == (2, "")
    assert result.err == "--json is no option before the command: write memhint COMMAND --json …\n"


def test_a_log_file_that_cannot_be_is_wrong_usage(bench: Bench) -> None:
    result = bench.run("--log-file", "/nowhere/to", "status")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].endswith("error: argument --log-file: /nowhere/to: No such file or directory")


def test_an_unknown_option_is_wrong_usage(bench: Bench) -> None:
    assert bench.run("status", "--colour").code == 2


@pytest.mark.parametrize("words", READERS)
def test_a_wrong_configuration_is_named(bench: Bench, words: list[str]) -> None:
    bench.config.write_text("[planner]\npsi_enter = 200\n")
    result = bench.run(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"{bench.config}: [planner] psi_enter: '200' is not accepted: use a number from 0 to 100\n"


@pytest.mark.parametrize("words", READERS)
def test_a_store_without_a_report_means_no_agent(bench: Bench, words: list[str]) -> None:
    result = bench.run(*words)
    assert (result.code, result.out) == (4, "")
    assert result.err == "no report of host-a: the agent is not running, start it with: memhint agent\n"


@pytest.mark.parametrize("words", READERS)
def test_a_report_of_another_host_is_not_taken_for_this_one(bench: Bench, words: list[str]) -> None:
    bench.store.reports.save(builders.report(host="host-b"))
    result = bench.run(*words)
    assert result.code == 4
    assert "the store has those of host-b, see host_name" in result.err


@pytest.mark.parametrize("words", READERS[:3])
def test_a_stale_report_counts_for_nothing(bench: Bench, words: list[str]) -> None:
    bench.store.reports.save(builders.report())
    bench.now = builders.NOW + 30
    assert bench.run(*words).code == 0
    bench.now = builders.NOW + 31
    result = bench.run(*words)
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith(
        "the newest report of host-a is 31 s old and comes every 10 s: the agent is not running"
    )


@pytest.mark.parametrize("words", READERS[:3])
def test_a_report_of_a_clock_that_was_set_back_is_not_taken_for_fresh(bench: Bench, words: list[str]) -> None:
    bench.store.reports.save(builders.report())
    bench.now = builders.NOW - 30
    assert bench.run(*words).code == 0
    bench.now = builders.NOW - 31
    result = bench.run(*words)
    assert (result.code, result.out) == (4, "")
    assert "is 31 s ahead of this host's clock, which was set back since: the agent is not running" in result.err


def test_of_an_agent_that_runs_and_reports_nothing_its_log_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "is_held", lambda host: host == "host-a")
    none = bench.run("status")
    bench.store.reports.save(builders.report())
    bench.now = builders.NOW + 31
    for result in (none, bench.run("status")):
        assert result.code == 4
        assert "the agent runs, but makes no plan or cannot keep it, its log says why" in result.err


def test_a_terminal_without_a_sign_shows_the_rest() -> None:
    script = "from memhint.cli.main import main\nimport sys\nmain(['--help'])\nprint('\\u03a3 of all')"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "? of all"


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_fault(bench: Bench, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    bench.store.reports.save(builders.report())
    monkeypatch.setattr(sys, closed, None)
    result = bench.run("status")
    assert (result.code, result.err) == (0, "")
    assert (result.out == "") == (closed == "stdout")


@pytest.mark.parametrize("words", READERS)
def test_a_missing_store_means_no_agent(bench: Bench, words: list[str]) -> None:
    bench.config.write_text(bench.config.read_text().replace("memhint.db", "none.db"))
    result = bench.run(*words)
    assert (result.code, result.out) == (4, "")
    assert "there is no store at" in result.err
    assert not (bench.config.parent / "none.db").exists()


def test_a_damaged_store_fails_in_one_line(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    with bench.store.database.write() as connection:
        connection.execute(text("UPDATE report SET document = '{}'"))
    result = bench.run("status")
    assert result.code == 1
    assert "restart the agent" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["status"], ["domains"], ["domains", "web-1"], ["plan"], ["explain"], ["explain", "web-1"]]
)
@pytest.mark.parametrize("columns", [["nope"], ["host", "name", "nope"]])
def test_a_column_that_there_is_not_is_wrong_usage(bench: Bench, words: list[str], columns: list[str]) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run(*words, *(word for one in columns for word in ("-c", one)), "--json")
    assert (result.code, result.out) == (2, "")
    assert "is no column here: use " in result.err


def test_debug_shows_the_traceback(bench: Bench) -> None:
    result = bench.run("--debug", "status")
    assert result.code == 4
    assert "Traceback" in result.err


def test_nor_does_a_traceback_steer_a_terminal(bench: Bench) -> None:
    result = bench.run("--debug", "domains", "a\x1b[2Jx")
    assert "Traceback" in result.err
    assert "\x1b" not in result.err


def test_a_run_leaves_no_log_handler_behind(bench: Bench) -> None:
    before = list(logging.getLogger().handlers)
    bench.run("status")
    assert logging.getLogger().handlers == before


def test_the_agent_gets_the_configuration_and_gives_the_exit_code(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr("memhint.conf.log.set_up", lambda conf, service, log_file: seen.append("log"))

    def run(conf: cfg.ConfigOpts, log_file: str | None) -> int:
        seen.append(conf.host_name)
        return 1

    monkeypatch.setattr(service, "run", run)
    assert bench.run("agent").code == 1
    assert seen == ["log", "host-a"]


def test_a_command_imports_no_other() -> None:
    """An agent would otherwise carry a client of the API in its memory for as long as it runs."""
    script = (
        "import sys; from memhint.cli.main import main; main(['agent', '--help'])\nprint('requests' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("before", [[], ["--config-file", "/nowhere"]])
@pytest.mark.parametrize(
    "words",
    [
        ["host", "show", "\udcff"],
        ["set", "web-1", "reporting=\udcff"],
        ["status", "--colour=\udcff"],
        ["\udcff"],
        ["agent", "--config-file", "\udcff"],
        ["reclaim", "create", "web-1", "--reason", "\udcff"],
    ],
)
def test_a_word_that_is_no_text_is_wrong_usage(
    words: list[str], before: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*before, *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    assert r"\xff: this is not UTF-8" in told.err


def test_such_a_word_does_nothing_and_steers_no_terminal(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("set", "web-1", "reporting=off", "--no-wait", "\x1b[2J\n\udcff")
    assert result.code == 2
    assert result.err == "\N{REPLACEMENT CHARACTER}[2J \\xff: this is not UTF-8\n"
    assert bench.store.policies.inputs() == {}
