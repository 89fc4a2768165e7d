"""Asks agents on behalf of several threads, over a few connections that are made when they are needed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from memhint.bus.commands import Commander, Reply
from memhint.bus.courier import Command
from memhint.bus.errors import BusError, CommandTimeout, HostAway
from memhint.bus.link import LOST, LinkSettings

_CONNECTIONS = 8
_OF_ONE_HOST = 2  # questions that wait for the same host: one that does not answer keeps none from asking others


class Asker:
    """Only for commands that may be done twice: after a broken connection it asks again."""

    def __init__(self, settings: LinkSettings, deadline: float) -> None:
        """:param deadline: seconds in which an agent must answer."""
        # Who asks waits for the answer to a request of his own, and not for the broker's disk to be emptied.
        self._settings = replace(settings, blocked=min(deadline, float(settings.heartbeat)))
        self._deadline = deadline
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        self._idle: list[Commander] = []
        self._asked: Counter[str] = Counter()
        self._closed = False

    def ask(self, command: Command) -> Reply:
        """The answer of one host's agent.

        :raises HostAway: when no agent listens; nothing was done
        :raises CommandTimeout: when it does not answer; whether it was done is not known
        :raises BusError: when the broker fails, or the host has not answered earlier questions yet
        """
        with self._turn(command.host):
            commander = self._taken()
            if commander is not None:
                try:
                    return self._ask(commander, command)
                except (HostAway, CommandTimeout):
                    raise
                except BusError:
                    pass  # the broker ends connections that were idle for long
            return self._ask(Commander(self._settings), command)

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            _close(one)

    @contextmanager
    def _turn(self, host: str) -> Iterator[None]:
        with self._lock:
            if self._asked[host] >= _OF_ONE_HOST:
                raise BusError(f"{host} has not answered {self._asked[host]} earlier questions yet")
            self._asked[host] += 1
        try:
            if not self._free.acquire(timeout=self._deadline):
                raise BusError("too many questions are under way")
            try:
                yield
            finally:
                self._free.release()
        finally:
            with self._lock:
                self._asked[host] -= 1
                if not self._asked[host]:
                    del self._asked[host]

    def _taken(self) -> Commander | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _ask(self, commander: Commander, command: Command) -> Reply:
        try:
            reply = commander.ask(
                command.host, command.name, command.arguments, deadline=self._deadline, epoch=command.epoch
            )
        except (HostAway, CommandTimeout):
            self._put_back(commander)
            raise
        except BaseException:
            _close(commander)
            raise
        self._put_back(commander)
        return reply

    def _put_back(self, commander: Commander) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(commander)
                return
        _close(commander)


def _close(commander: Commander) -> None:
    with suppress(*LOST):
        commander.close()
