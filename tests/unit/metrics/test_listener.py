from __future__ import annotations

import contextlib
import logging
import socket
import threading
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Gauge

from memhint.metrics.listener import THREADS, WAITING_MOST, Listener
from tests.waiting import until


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("memhint_test_answer", "The answer", registry=made).set(42)
    return made


def scraped(listener: Listener, address: str = "127.0.0.1") -> bytes:
    with urllib.request.urlopen(f"http://{address}:{listener.port}/metrics", timeout=30) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_what_is_registered_is_served_on_an_address_of_either_kind(registry: CollectorRegistry, address: str) -> None:
    listener = Listener(f"{address}:0", registry)
    listener.start()
    try:
        assert b"memhint_test_answer 42.0" in scraped(listener, address)
    finally:
        listener.close()


def test_an_address_that_is_taken_is_logged_and_ends_nothing(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    first = Listener("127.0.0.1:0", registry)
    first.start()
    try:
        second = Listener(f"127.0.0.1:{first.port}", registry)
        with caplog.at_level(logging.ERROR):
            second.start()
        assert "no metrics, [metrics] listen" in caplog.text
        assert second.port == 0
        second.close()
    finally:
        first.close()


def test_who_asks_for_nothing_is_hung_up_on_and_others_are_served(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.metrics.listener.PATIENCE", 0.2)
    listener = Listener("127.0.0.1:0", registry)
    listener.start()
    silent = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(10)]
    try:
        assert b"memhint_test_answer 42.0" in scraped(listener)
        for one in silent:
            one.settimeout(30)
            while one.recv(1000):  # what it is told before the end
                pass
    finally:
        for one in silent:
            one.close()
        listener.close()


class Dripping:
    """Clients that send a byte of a request now and then."""

    def __init__(self, port: int, number: int) -> None:
        self._port, self._over = port, threading.Event()
        self._threads = [threading.Thread(target=self._drip, daemon=True) for _ in range(number)]

    def __enter__(self) -> None:
        for one in self._threads:
            one.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join()

    def _drip(self) -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as found:
            found.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            while not self._over.wait(0.05):
                found.sendall(b"x")


def test_who_sends_a_byte_now_and_then_is_hung_up_on(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.metrics.listener.WHOLE", 0.5)
    listener = Listener("127.0.0.1:0", registry)
    listener.start()
    try:
        with Dripping(listener.port, 2 * THREADS):
            assert b"memhint_test_answer 42.0" in scraped(listener)
    finally:
        listener.close()


def test_who_sends_a_byte_now_and_then_delays_no_end(registry: CollectorRegistry) -> None:
    listener = Listener("127.0.0.1:0", registry)
    listener.start()
    with Dripping(listener.port, THREADS + WAITING_MOST + 4):
        until(lambda: len(listener._server.served) == THREADS)
        ending = threading.Thread(target=listener.close, daemon=True)
        ending.start()
        ending.join(30)
        assert not ending.is_alive()
