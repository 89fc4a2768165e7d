from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memhint.conf.errors import ConfigError
from memhint.conf.load import load
from memhint.conf.log import Once, set_up

pytestmark = pytest.mark.usefixtures("logs_as_before")

LOG = logging.getLogger("memhint.test")


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "memhint.conf"
    path.write_text(f"[DEFAULT]\n{text}\n")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("log_dir = /nowhere/to", "log_dir, log_file: /nowhere/to/"),
        ("log_file = /", "log_dir, log_file: /: Is a directory; make it"),
        ("log_config_append = /nowhere/to", "logging in [DEFAULT]: Error loading logging config /nowhere/to"),
        ("use_syslog = true\nsyslog_log_facility = nobody", "logging in [DEFAULT]: syslog facility must be one of"),
        ("default_log_levels = memhint=LOUD", "logging in [DEFAULT]: Unknown level: 'LOUD'"),
    ],
)
def test_a_log_that_cannot_be_written_is_a_wrong_configuration(tmp_path: Path, text: str, said: str) -> None:
    conf = load([_file(tmp_path, text)])
    with pytest.raises(ConfigError) as error:
        set_up(conf, "agent")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "memhint-api.log"),
        ("log_file =", "memhint-api.log"),
        ("log_file = mine.log", "mine.log"),
        ("logfile = mine.log", "mine.log"),
    ],
)
def test_a_directory_gets_a_file_of_the_service_unless_one_is_named(tmp_path: Path, text: str, name: str) -> None:
    conf = load([_file(tmp_path, f"log_dir = {tmp_path}\n{text}")])
    for _ in range(2):  # an agent sets up the old one again where a new one cannot be
        set_up(conf, "api")
    assert [path.name for path in tmp_path.glob("*.log")] == [name]


def test_without_a_directory_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    set_up(load([_file(tmp_path, "")]), "agent")
    assert list(tmp_path.glob("*.log")) == []


def test_a_file_of_the_command_line_is_where_the_command_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    set_up(load([_file(tmp_path, "log_dir = /nowhere/to\nlog_file = mine.log")]), "agent", "here.log")
    assert [path.name for path in tmp_path.glob("*.log")] == ["here.log"]


def test_an_error_is_told_once(tmp_path: Path) -> None:
    line = _logged(tmp_path, "working on: %s", OSError("the disk is full"), "the disk is full")
    assert line.count("the disk is full") == 1


def test_an_error_that_a_message_does_not_name_is_told(tmp_path: Path) -> None:
    assert "OSError: the disk is full" in _logged(tmp_path, "working on%s", OSError("the disk is full"), "")


def _logged(tmp_path: Path, message: str, error: Exception, told: str) -> str:
    target = tmp_path / "memhint.log"
    set_up(load([_file(tmp_path, f"log_file = {target}")]), "agent")
    assert isinstance(logging.getLogger().handlers[0].formatter, Once)
    try:
        raise error
    except OSError:
        LOG.error(message, told)
    return target.read_text()


@contextmanager
def _journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What a service logs where systemd has given it the journal as its output."""
    here, there = socket.socketpair()
    with here, there, there.makefile("w") as output:
        here.settimeout(10)
        seen = os.fstat(there.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{seen.st_dev}:{seen.st_ino}")
        monkeypatch.setattr(sys, "stdout", output)
        yield here
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.DEBUG, 7)],
)
def test_the_journal_is_told_the_priority_of_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: int, priority: int
) -> None:
    with _journal(monkeypatch) as journal:
        set_up(load([_file(tmp_path, "debug = true")]), "agent")
        LOG.log(level, "the guest said: a\n<0>b")
        first, second = journal.recv(4096).decode().splitlines()
    assert first.startswith(f"<{priority}>20")
    assert "the guest said: a" in first
    assert second.startswith(f"<{priority}><0>b")


def test_a_traceback_in_the_journal_has_the_priority_of_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _journal(monkeypatch) as journal:
        set_up(load([_file(tmp_path, "")]), "agent")
        try:
            raise OSError("the disk is full")
        except OSError:
            LOG.exception("the cycle failed")
        lines = journal.recv(65536).decode().splitlines()
    assert len(lines) > 2
    assert all(line.startswith("<3>") for line in lines)


def test_another_stream_and_a_file_get_no_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "memhint.log"
    with _journal(monkeypatch) as journal:
        set_up(load([_file(tmp_path, f"log_file = {target}")]), "agent")
        LOG.error("to a file")
        monkeypatch.setenv("JOURNAL_STREAM", "1:2")
        set_up(load([_file(tmp_path, "")]), "agent")
        LOG.error("to somebody else")
        assert journal.recv(4096).startswith(b"20")
    assert target.read_text().startswith("20")
