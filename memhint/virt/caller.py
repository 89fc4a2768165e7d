"""Calls to libvirt with a deadline, on a connection that is given up when one of them hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import libvirt

from memhint.virt.bounded import Bounded
from memhint.virt.connection import Connection, translated
from memhint.virt.errors import CallTimeout

T = TypeVar("T")


class Caller:
    """One connection's calls. libvirt's errors become ours."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        """:param timeout: seconds that a call may take unless it says otherwise."""
        self._connection = connection
        self._timeout = timeout
        self._bounded = Bounded()

    def call(self, what: str, function: Callable[[libvirt.virConnect], T]) -> T:
        """The function's value; it gets the open connection.

        :raises LibvirtUnavailable: without a connection
        :raises CallTimeout: when it does not return in time; the next call gets a connection of its own, for libvirt
            lets answers wait behind a hanging call of the same connection
        :raises VirtError: what libvirt says
        """

        def ask() -> T:
            try:
                return function(self._connection.get())
            except libvirt.libvirtError as error:
                raise translated(error) from error

        try:
            return self._bounded.call(what, ask, self._timeout)
        except CallTimeout:
            self._connection.abandon()
            raise
