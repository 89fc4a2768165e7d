from __future__ import annotations

import io

import pytest

from memhint.cli.wait import wait_for
from tests.clock import Clock


class Terminal(io.StringIO):
    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def wait(until: float, seconds: float, *, tty: bool, piped: bool = False) -> tuple[str | None, str]:
    clock, terminal = Clock(), Terminal(tty)
    found = wait_for(
        lambda: "found" if clock.now >= until else None,
        seconds,
        clock=clock,
        sleep=clock.sleep,
        terminal=terminal,
        text="waiting",
        piped=piped,
    )
    return found, terminal.getvalue()


def test_what_is_there_already_is_not_waited_for() -> None:
    assert wait(0, 0, tty=True) == ("found", "")


def test_a_short_wait_says_nothing() -> None:
    assert wait(1.5, 10, tty=True) == ("found", "")


def test_a_long_wait_says_so_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # on a dumb one nothing can be drawn
    found, text = wait(5, 10, tty=True)
    assert found == "found"
    assert "waiting" in text


def test_a_long_wait_says_nothing_into_a_file() -> None:
    assert wait(5, 10, tty=False) == ("found", "")


def test_what_may_take_a_minute_says_so_once_into_a_file_too() -> None:
    assert wait(1.5, 10, tty=False, piped=True) == ("found", "")
    assert wait(5, 10, tty=False, piped=True) == ("found", "waiting\n")


@pytest.mark.parametrize("tty", [True, False])
def test_the_deadline_ends_it(tty: bool) -> None:
    assert wait(50, 10, tty=tty)[0] is None
