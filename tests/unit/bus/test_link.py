from __future__ import annotations

import socket
import struct
import threading

import pika
import pytest

from memhint.bus.errors import BusError
from memhint.bus.link import LinkSettings, Reconnects, connect, parameters, user_of
from tests.hostile_header import DEEP, LATE, Forged, Headed


def test_waits_double_up_to_a_limit_and_begin_anew() -> None:
    reconnects = Reconnects(3.0, draw=lambda: 1.0)
    assert [reconnects.wait() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    reconnects.reset()
    assert reconnects.wait() == 0.5
    assert Reconnects(3.0, draw=lambda: 0.0).wait() == 0.25


def test_the_user_is_that_of_the_urls() -> None:
    urls = tuple(f"amqp://host-a:x@node-{number}/memhint" for number in range(3))
    assert user_of(LinkSettings(urls)) == "host-a"
    assert {one.host for one in parameters(LinkSettings(urls))} == {"node-0", "node-1", "node-2"}
    with pytest.raises(BusError, match="several users"):
        user_of(LinkSettings((*urls, "amqp://host-b:x@node-3/memhint")))


def test_a_url_that_cannot_be_used_is_refused_without_its_password() -> None:
    with pytest.raises(BusError, match="URL 1") as caught:
        parameters(LinkSettings(("amqp://u:secret@h:port/v",)))
    assert "secret" not in str(caught.value)


def test_a_broker_that_takes_a_connection_and_says_nothing_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(BusError, match=f"cannot be reached at 127.0.0.1:{port}: .*; see \\[bus\\] urls") as caught:
            connect(LinkSettings((f"amqp://a:sesame@127.0.0.1:{port}/v",), timeout=0.2))
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("error", [ValueError("Expected connected socket"), AssertionError("no transport"), OSError()])
def test_whatever_pika_says_of_a_node_that_hangs_up_it_cannot_be_reached(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs_up(_nodes: object) -> None:
        raise error

    monkeypatch.setattr("pika.BlockingConnection", hangs_up)
    with pytest.raises(BusError, match="cannot be reached"):
        connect(LinkSettings(("amqp://host-a:x@node-0/memhint",)))


def test_a_node_that_hangs_up_at_once_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as node:

        def hang_up() -> None:
            while True:
                try:
                    client, _ = node.accept()
                except OSError:
                    return
                # a reset in place of an orderly end, as of a node that is killed
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        try:
            for _ in range(20):
                with pytest.raises(BusError, match="cannot be reached"):
                    connect(LinkSettings((f"amqp://host-a:x@127.0.0.1:{node.getsockname()[1]}/memhint",)))
        finally:
            node.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("table", [LATE, DEEP, b"\x01a?", b"\x01aS\0\0\0\x09x"], ids=["late", "deep", "kind", "cut"])
def test_a_header_table_that_cannot_be_read_hides_nothing_else_of_a_message(table: bytes) -> None:
    frame = pika.frame.Header(1, 7, Headed(table, user_id="host-a", content_encoding="zstd")).marshal()
    length, read = pika.frame.decode_frame(frame)
    assert length == len(frame)
    assert (read.properties.user_id, read.properties.content_encoding) == ("host-a", "zstd")


def test_a_header_table_that_can_be_read_is() -> None:
    frame = pika.frame.Header(1, 7, pika.BasicProperties(headers={"a": {"b": [1, "c"]}}, user_id="host-a")).marshal()
    assert pika.frame.decode_frame(frame)[1].properties.headers == {"a": {"b": [1, "c"]}}


def test_who_sent_a_message_is_whom_the_broker_has_found_in_it() -> None:
    frame = pika.frame.Header(1, 7, Forged("host-a", another="host-b")).marshal()
    assert pika.frame.decode_frame(frame)[1].properties.user_id == "host-a"


@pytest.mark.parametrize("properties", [{}, {"user_id": "host-a"}, {"content_type": "x", "cluster_id": "y"}])
def test_other_properties_are_read_as_ever(properties: dict[str, str]) -> None:
    wanted = pika.BasicProperties(**properties)
    assert pika.frame.decode_frame(pika.frame.Header(1, 7, wanted).marshal())[1].properties == wanted
