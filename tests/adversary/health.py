"""What an attack costs everybody else: how long /healthz takes while it lasts.

Among other tests it is not the clock that is looked at, for it counts what all of them do: it is what the server itself
works between the question and its answer, against what it works for an answer when nobody attacks.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from bench.cpu import cpu_seconds
from tests.adversary.scale import HEALTHY_WITHIN, HEALTHY_WORK, WHOLE
from tests.functional.api_server import ApiServer

ALONE = 50  # answers before the attack: the kernel counts a process's work in hundredths of a second


class Health:
    """Asks again and again, over a connection of its own each time, while its block runs."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._alone = 0.0
        self.took: list[float] = []
        self.work: list[float] = []
        self.wrong: list[object] = []

    def __enter__(self) -> Health:
        before = cpu_seconds(self._server.process.pid)
        for _ in range(ALONE):
            assert self._ask() == 200
        self._alone = (cpu_seconds(self._server.process.pid) - before) / ALONE
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(60)
        if kind is None:
            assert not self.wrong, self.wrong[:3]
            assert self.took
            took, work = max(self.took), max(self.work)
            said = f"/healthz took {took:.2f} s, in which the server worked {work:.2f} s; alone {self._alone:.4f} s"
            assert took < HEALTHY_WITHIN if WHOLE else work < HEALTHY_WORK * self._alone, said

    def more(self, times: int) -> None:
        """Until it was asked so many times more."""
        wanted, end = len(self.took) + times, time.monotonic() + 120
        while len(self.took) < wanted:
            assert not self.wrong, self.wrong[:3]
            assert time.monotonic() < end, "/healthz does not answer"
            self._stop.wait(0.02)

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            began, work = time.monotonic(), cpu_seconds(self._server.process.pid)
            try:
                if (status := self._ask()) != 200:
                    self.wrong.append(status)
            except OSError as error:
                self.wrong.append(error)
            self.work.append(cpu_seconds(self._server.process.pid) - work)
            self.took.append(time.monotonic() - began)

    def _ask(self) -> int:
        connection = self._server.connection(60)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status
        finally:
            connection.close()
