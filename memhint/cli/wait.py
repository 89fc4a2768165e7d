"""Waiting for something with a deadline, and saying so when it takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO, TypeVar

from memhint.cli.table import clean

T = TypeVar("T")

SLOW = 2.0  # seconds after which a person wonders
STEP = 0.25  # seconds between two looks


def wait_for(
    look: Callable[[], T | None],
    seconds: float,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    terminal: TextIO,
    text: str,
    step: float = STEP,
    piped: bool = False,
) -> T | None:
    """What ``look`` finds at last; None when it found nothing in so many seconds.

    :param piped: whether to say that it takes a while where no terminal is, too
    """
    start = clock()
    with ExitStack() as stack:
        told = False
        while (found := look()) is None:
            waited = clock() - start
            if waited >= seconds:
                return None
            if waited >= SLOW and not told and terminal.isatty():
                from rich.console import Console

                stack.enter_context(Console(file=terminal).status(text))
                told = True
            elif waited >= SLOW and not told and piped:
                terminal.write(f"{text}\n")
                terminal.flush()
                told = True
            sleep(step)
        return found


@contextmanager
def going_on(terminal: TextIO, text: str) -> Iterator[None]:
    """Tell who interrupts the waiting that what they wait for goes on without them."""
    try:
        yield
    except KeyboardInterrupt:
        terminal.write(f"\n{clean(text)}\n")
        raise
