"""Calls to libvirt with a deadline, on a connection that is given up where nothing comes back on it any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import libvirt

from memhint.virt.bounded import Bounded
from memhint.virt.connection import KEEPALIVE_COUNT, KEEPALIVE_S, Connection, translated
from memhint.virt.errors import CallTimeout

T = TypeVar("T")
# A connection that does not even answer libvirt itself is closed by then.
SILENT_S = KEEPALIVE_S * (KEEPALIVE_COUNT + 1)
# Of connections on which calls may hang. Each such call keeps a thread here, and one of libvirtd's 20 workers, which
# are there for all its clients; an agent has three callers.
COUNTS = 2


class Caller:
    """One connection's calls. libvirt's errors become ours.

    A call that takes too long says nothing of its connection: others are answered beside it. A new connection would
    have all be read again that events had kept up to date, by a libvirtd that is too slow already. Only one on which
    nothing came back for long is given up, for an answer can wait behind a call that hangs. What hangs on that takes no
    place of libvirtd's on the next one, whose calls are counted anew.
    """

    def __init__(
        self,
        connection: Connection,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        bounded: Callable[[], Bounded] = Bounded,
    ) -> None:
        """:param timeout: seconds that a call may take unless it says otherwise
        :param bounded: makes what counts the calls that hang on one connection
        """
        self._connection = connection
        self._timeout = timeout
        self._clock = clock
        self._new_bounded = bounded
        self._bounded = bounded()
        self._before: list[Bounded] = []  # of connections that were given up, on which calls hang still
        self._given_up = False  # the connection of the present count
        self._lock = threading.Lock()
        self._answered = float("-inf")  # when a call last came back, late or not
        self._left = float("-inf")  # when the first call began that was left behind since

    def call(self, what: str, function: Callable[[libvirt.virConnect], T]) -> T:
        """The function's value; it gets the open connection.

        :raises LibvirtUnavailable: without a connection
        :raises CallTimeout: when it does not return in time. What it still returns is thrown away: events may have told
            of something newer meanwhile
        :raises VirtError: what libvirt says
        """

        def ask() -> T:
            try:
                return function(self._connection.get())
            except libvirt.libvirtError as error:
                raise translated(error) from error
            finally:
                self._answered = self._clock()

        began = self._clock()
        self._leave_silent(began)
        try:
            return self._counted().call(what, ask, self._timeout)
        except CallTimeout:
            with self._lock:
                if self._left <= self._answered:
                    self._left = began
            raise

    def _leave_silent(self, now: float) -> None:
        """Give the connection up where a call was left behind on it long ago, and nothing came back since."""
        with self._lock:
            silent = self._left > self._answered and now - self._left >= max(SILENT_S, 2 * self._timeout)
            if silent:
                self._left = self._answered = float("-inf")  # of the next one nothing is known yet
                self._given_up = True
        if silent:
            self._connection.abandon()

    def _counted(self) -> Bounded:
        """What counts a call from now on: anew once the connection was given up, and not while calls hang on too many.

        The last count goes on until then, so that there is an end to the threads.
        """
        with self._lock:
            if self._given_up:
                hanging = [one for one in (*self._before, self._bounded) if one.hanging]
                if len(hanging) < COUNTS:
                    self._before, self._bounded, self._given_up = hanging, self._new_bounded(), False
            return self._bounded
