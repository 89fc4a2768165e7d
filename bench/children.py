"""Processes that several threads have started, and that end with the bench, however it ends."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Children:
    """Guests of a bench that runs some at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[Any]] = set()
        self._over = False

    @contextmanager
    def started(self, command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
        """A process that ends with the body. `how` is as for Popen."""
        with self._lock:
            if self._over:
                raise RuntimeError("the bench ends: nothing more begins")
            process = subprocess.Popen(command, **how)
            self._running.add(process)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            with self._lock:
                self._running.discard(process)

    @contextmanager
    def pool(self, threads: int | None) -> Iterator[ThreadPoolExecutor]:
        """Threads that may start some. Where the body fails nothing more begins, and what runs ends."""
        with ThreadPoolExecutor(threads) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.end()
                raise

    def end(self) -> None:
        """End all that runs, and let nothing more begin."""
        with self._lock:
            self._over = True
            for process in self._running:
                process.kill()


def end_when_told() -> None:
    """Let SIGTERM and SIGHUP end this program as an exception does: what it changed is put back, what it began ends."""
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    for one in (*_ENDS, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)  # it is on its way
    raise SystemExit(128 + number)
