"""Calls with a deadline. A libvirt call cannot be cancelled: one that hangs is left behind on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from memhint.virt.errors import CallTimeout, LibvirtCallFailed

T = TypeVar("T")


class _Call(Generic[T]):
    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.done = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self.function()
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            self.error = error
        self.done.set()


class Bounded:
    """Runs calls with a deadline, and stops starting new ones while too many hang. One for each connection.

    libvirtd works on five requests of one client at a time: what hangs there takes one of these places, so at most
    ``limit`` may.
    """

    def __init__(self, limit: int = 3) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._hanging: set[_Call[Any]] = set()

    @property
    def hanging(self) -> int:
        """How many calls have been left behind and have not returned."""
        with self._lock:
            self._hanging = {call for call in self._hanging if not call.done.is_set()}
            return len(self._hanging)

    def call(self, what: str, function: Callable[[], T], timeout: float) -> T:
        """The function's value.

        :param timeout: seconds
        :raises CallTimeout: when it does not return in time, or too many others hang already
        :raises LibvirtCallFailed: when there is no thread to be had
        """
        if self.hanging >= self._limit:
            raise CallTimeout(f"{what} was not asked for: {self._limit} calls to libvirt hang already")
        call: _Call[T] = _Call(function)
        # A daemon thread: a call that never returns must not keep the agent from ending.
        try:
            threading.Thread(target=call.run, name=f"libvirt-{what}", daemon=True).start()
        except RuntimeError as lack:  # no host has threads without end
            raise LibvirtCallFailed(f"{what} was not asked for: {lack}") from lack
        if not call.done.wait(timeout):
            with self._lock:
                self._hanging.add(call)
            raise CallTimeout(f"{what} did not return within {timeout:g} s")
        error, call.error = call.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it knows this frame: a circle of the two would keep connections until it is collected
        return call.value  # type: ignore[return-value]
