from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from memhint.api.bus_watch import KEEP, BusWatch
from memhint.conf import ConfigError


@pytest.fixture
def node() -> Iterator[tuple[socket.socket, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening, f"amqp://user:sesame@127.0.0.1:{listening.getsockname()[1]}/memhint"


def test_one_node_that_can_be_reached_is_enough(node: tuple[socket.socket, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"amqp://127.0.0.1:{closed.getsockname()[1]}/"
    assert BusWatch([])() == "off"
    assert BusWatch([gone])() == "away"
    assert BusWatch([gone, node[1]])() == "ok"


def test_an_answer_holds_for_a_while_and_not_longer(node: tuple[socket.socket, str]) -> None:
    listening, url = node
    now = [0.0]
    watch = BusWatch([url], lambda: now[0])
    assert watch() == "ok"
    listening.close()
    assert watch() == "ok"
    now[0] = KEEP + 1
    assert watch() == "away"


def test_nobody_else_waits_while_one_looks_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now, begun, end, looks = [0.0], threading.Event(), threading.Event(), []

    def slow(node: tuple[str, int]) -> bool:
        looks.append(node)
        begun.set()
        assert end.wait(30)
        now[0] += 10 * KEEP  # as long as a name takes that nobody resolves
        return False

    monkeypatch.setattr("memhint.api.bus_watch.PATIENCE", 0.01)
    monkeypatch.setattr("memhint.api.bus_watch._reached", slow)
    watch = BusWatch(["amqp://node-0/memhint"], lambda: now[0])
    looking = threading.Thread(target=watch)
    looking.start()
    assert begun.wait(30)
    assert watch() == "away"
    end.set()
    looking.join()
    assert watch() == "away"
    assert len(looks) == 1, "what was found holds from its end on"


@pytest.mark.parametrize("url", ["amqp://user:se/same@node:5672/v", "amqp://user:sesame@node:port/v", "amqp://[::1/v"])
def test_a_url_that_cannot_be_read_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"\[bus\] urls: URL 2 cannot be read") as caught:
        BusWatch(["amqp://node/v", url])
    assert "same" not in f"{caught.value!r}{caught.value.__cause__!r}"
