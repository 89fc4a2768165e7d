"""What an attack costs everybody else: how long /healthz takes while it lasts.

Among other tests it is not the clock that is looked at, for it counts what all of them do: it is what the server itself
works between the question and its answer.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from bench.cpu import cpu_seconds
from tests.adversary.scale import HEALTHY_WITHIN, HEALTHY_WORK, WHOLE
from tests.functional.api_server import ApiServer


class Health:
    """Asks again and again, over a connection of its own each time, while its block runs."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.took: list[float] = []
        self.work: list[float] = []
        self.wrong: list[object] = []

    def __enter__(self) -> Health:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(60)
        if kind is None:
            assert not self.wrong, self.wrong[:3]
            assert self.took
            took, work = max(self.took), max(self.work)
            said = f"/healthz took {took:.2f} s, in which the server worked {work:.2f} s"
            assert took < HEALTHY_WITHIN if WHOLE else work < HEALTHY_WORK, said

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
            connection = self._server.connection(60)
            try:
                connection.request("GET", "/healthz")
                status = connection.getresponse().status
                if status != 200:
                    self.wrong.append(status)
            except OSError as error:
                self.wrong.append(error)
            finally:
                connection.close()
            self.work.append(cpu_seconds(self._server.process.pid) - work)
            self.took.append(time.monotonic() - began)
