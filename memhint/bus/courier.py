"""Sends commands without waiting for an answer. One that gets lost is sent again with the host's next report."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memhint.bus.commands import Commander
from memhint.bus.errors import BusError, HostAway
from memhint.bus.link import LOST, LinkSettings, Reconnects

LOG = logging.getLogger(__name__)

_MOST = 10_000  # commands that wait; those beyond are asked for again by the next report
_TICK = 1.0  # seconds between two looks after the connection


@dataclass(frozen=True, slots=True)
class Command:
    """One command to one host. ``about`` names what it is about: a newer one takes the place of an older one."""

    host: str
    name: str
    about: str
    arguments: Mapping[str, Any]
    epoch: str | None = None


class Courier:
    """A thread with a connection of its own. ``send`` neither waits nor raises."""

    def __init__(self, settings: LinkSettings, deadline: float) -> None:
        """:param deadline: seconds after which an agent shall not begin what it was sent."""
        self._settings = settings
        self._deadline = deadline
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str, str], Command] = {}
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def send(self, command: Command) -> None:
        """Send it when the broker is there."""
        key = (command.host, command.name, command.about)
        with self._lock:
            if key in self._waiting or len(self._waiting) < _MOST:
                self._waiting[key] = command
        self._news.set()

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def close(self, patience: float = 2.0) -> None:
        """End; what waits is not sent."""
        self._stop.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def _run(self) -> None:
        reconnects = Reconnects(self._settings.backoff_max)
        while not self._stop.is_set():
            self._news.wait()  # no connection before there is something to say
            if self._stop.is_set():
                return
            try:
                commander = Commander(self._settings)
                try:
                    self._serve(commander, reconnects)
                finally:
                    with suppress(*LOST):
                        commander.close()
            except (BusError, *LOST) as error:
                LOG.warning("no broker for commands, %d wait: %s", len(self._waiting), error or repr(error))
            except Exception:
                LOG.exception("commands failed")
            self._stop.wait(reconnects.wait())

    def _serve(self, commander: Commander, reconnects: Reconnects) -> None:
        while not self._stop.is_set():
            command = self._next()
            if command is None:
                commander.rest()
                reconnects.reset()
                self._news.wait(_TICK)
                continue
            try:
                commander.tell(
                    command.host, command.name, command.arguments, deadline=self._deadline, epoch=command.epoch
                )
            except HostAway:
                LOG.info("%s does not listen: %s is sent again when it reports", command.host, command.name)

    def _next(self) -> Command | None:
        with self._lock:
            self._news.clear()
            for key in self._waiting:
                return self._waiting.pop(key)
        return None
