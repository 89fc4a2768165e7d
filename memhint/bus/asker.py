"""Asks agents on behalf of several threads, over one connection that is made when it is needed."""

from __future__ import annotations

import threading
from contextlib import suppress

from memhint.bus.commands import Commander, Reply
from memhint.bus.courier import Command
from memhint.bus.errors import BusError, CommandTimeout, HostAway
from memhint.bus.link import LOST, LinkSettings


class Asker:
    """One question at a time. Only for commands that may be done twice: after a broken connection it asks again."""

    def __init__(self, settings: LinkSettings, deadline: float) -> None:
        """:param deadline: seconds in which an agent must answer."""
        self._settings = settings
        self._deadline = deadline
        self._lock = threading.Lock()
        self._commander: Commander | None = None

    def ask(self, command: Command) -> Reply:
        """The answer of one host's agent.

        :raises HostAway: when no agent listens; nothing was done
        :raises CommandTimeout: when it does not answer; whether it was done is not known
        :raises BusError: when the broker fails
        """
        with self._lock:
            fresh = self._commander is None
            try:
                return self._ask(command)
            except (HostAway, CommandTimeout):
                raise
            except BusError:
                self._drop()
                if fresh:
                    raise
            return self._ask(command)  # the broker ends connections that were idle for long

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._drop()

    def _ask(self, command: Command) -> Reply:
        if self._commander is None:
            self._commander = Commander(self._settings)
        return self._commander.ask(
            command.host, command.name, command.arguments, deadline=self._deadline, epoch=command.epoch
        )

    def _drop(self) -> None:
        commander, self._commander = self._commander, None
        if commander is not None:
            with suppress(*LOST):
                commander.close()
