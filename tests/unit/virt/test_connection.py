"""A connection is let go of as a whole, and nobody waits for a libvirtd that hangs."""

from __future__ import annotations

import gc
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import libvirt
import pytest

from memhint.virt.connection import Connection, DomainEvent, Event
from memhint.virt.errors import LibvirtUnavailable

URI = "test:///default"


class Held:
    """A connection of libvirt's: as long as it calls back, libvirt itself holds it."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def registerCloseCallback(self, callback: Callable[..., None], _opaque: object) -> None:
        self._library.calls[id(self), "close"] = self, callback

    def unregisterCloseCallback(self) -> None:
        self._library.calls.pop((id(self), "close"))

    def setKeepAlive(self, _seconds: int, _count: int) -> None:
        """Nobody has to be asked."""

    def domainEventRegisterAny(self, _domain: None, number: int, callback: Callable[..., None], _opaque: None) -> int:
        if self._library.refuses:
            raise libvirt.libvirtError("no such event")
        self._library.calls[id(self), number] = self, callback
        return number

    def domainEventDeregisterAny(self, number: int) -> None:
        self._library.calls.pop((id(self), number))
        if self._library.gone:
            raise libvirt.libvirtError("client socket is closed")


class Library:
    """libvirt, as far as it opens connections and holds them."""

    def __init__(self) -> None:
        self.calls: dict[tuple[int, object], object] = {}
        self.opened: list[weakref.ref[Held]] = []
        self.refuses = self.gone = False
        self.meanwhile: Callable[[], None] = lambda: None

    def open(self, _uri: str) -> Held:
        made = Held(self)
        self.opened.append(weakref.ref(made))
        self.meanwhile()
        return made

    def held(self) -> int:
        """How many connections there are."""
        return sum(one() is not None for one in self.opened)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(libvirt, "open", made.open)
    return made


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        gc.collect()
        time.sleep(0.02)


@pytest.mark.parametrize("gone", [False, True])
def test_a_connection_that_was_abandoned_or_lost_is_let_go_of(library: Library, gone: bool) -> None:
    told: list[Event] = []
    connection = Connection(URI, told.append)
    connection.get()
    library.gone = gone
    for _ in range(3):
        connection.abandon()
        connection.get()
    until(lambda: library.held() == 1)
    assert [one.kind for one in told] == [DomainEvent.CONNECTED] * 4
    connection.close()
    until(lambda: library.held() == 0)
    assert library.calls == {}


def test_a_call_that_hangs_keeps_the_connection_that_it_hangs_on(library: Library) -> None:
    connection = Connection(URI, lambda _: None)
    hanging = connection.get()
    connection.abandon()
    assert connection.get() is not hanging
    connection.close()
    until(lambda: library.calls == {})
    assert library.held() == 1  # by this test: whoever hangs has it until he returns
    del hanging
    until(lambda: library.held() == 0)


def test_one_that_cannot_be_watched_is_let_go_of(library: Library) -> None:
    library.refuses = True
    with pytest.raises(LibvirtUnavailable):
        Connection(URI, lambda _: None).get()
    until(lambda: library.held() == 0)


@pytest.fixture
def mute(tmp_path: Path) -> Iterator[tuple[str, list[socket.socket]]]:
    """The URI of a libvirtd that takes connections and never says anything, and those that it took."""
    path = tmp_path / "sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        taken: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=take)
        thread.start()
        yield f"test+unix:///default?socket={path}", taken
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in taken:
            one.close()


def test_who_closes_does_not_wait_for_who_is_connecting(mute: tuple[str, list[socket.socket]]) -> None:
    uri, taken = mute
    connection = Connection(uri)
    errors: list[Exception] = []

    def get() -> None:
        try:
            connection.get()
        except LibvirtUnavailable as error:
            errors.append(error)

    hanging = threading.Thread(target=get, daemon=True)
    hanging.start()
    until(lambda: bool(taken))
    began = time.monotonic()
    connection.close()
    assert time.monotonic() - began < 5
    assert hanging.is_alive()


def test_one_that_opens_while_it_is_closed_is_let_go_of(library: Library) -> None:
    connection = Connection(URI, lambda _: None)
    library.meanwhile = connection.close
    with pytest.raises(LibvirtUnavailable, match="closed meanwhile"):
        connection.get()
    until(lambda: library.held() == 0)


def test_who_goes_on_after_the_close_is_served_and_leaves_no_connection_behind(library: Library) -> None:
    told: list[Event] = []
    connection = Connection(URI, told.append)
    connection.get()
    connection.close()
    until(lambda: library.held() == 0)
    late = connection.get()
    assert library.held() == 1
    assert library.calls == {}
    assert len(told) == 1
    del late
    until(lambda: library.held() == 0)
