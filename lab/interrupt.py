"""Ctrl-C in a program that has hosts up: it says at once that it was heard, for ending them takes a while."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

STATUS = 130  # what a shell expects of a program that ctrl-c ended


def say_when_interrupted() -> None:
    """From here on the first SIGINT prints a line and raises KeyboardInterrupt; who is to ignore it goes on doing so.

    Further ones say nothing: they cut the ending short, and the lab's keeper does the rest.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    signal.signal(signal.SIGINT, _heard)


def _heard(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Past Python's buffers: they may be in use just now.
    os.write(sys.stderr.fileno(), b"\nInterrupted: ending what was started, which takes up to half a minute\n")
    raise KeyboardInterrupt
