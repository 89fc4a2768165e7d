"""What the kernel tells of sockets with names, on the kernel at hand, and answers that are none."""

from __future__ import annotations

import errno
import os
import socket
import struct
import uuid
from collections.abc import Callable

import pytest

from memhint.kernel import socket_owners as module
from memhint.kernel.socket_owners import socket_owners

ENTRY = bytes(16)


def message(kind: int, body: bytes, length: int | None = None) -> bytes:
    head = struct.pack("=IHHII", 16 + len(body) if length is None else length, kind, 0, 1, 0)
    return head + body + bytes(-len(body) % 4)


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Answers with these datagrams."""

    def answers(*datagrams: bytes) -> None:
        left = list(datagrams)

        class Netlink:
            def __init__(self, *_: int) -> None:
                """Nothing is opened."""

            def __enter__(self) -> Netlink:
                return self

            def __exit__(self, *_: object) -> None:
                """Nothing is open."""

            def settimeout(self, _: float) -> None:
                """It answers at once."""

            def send(self, _: bytes) -> None:
                """It knows."""

            def recv(self, _: int) -> bytes:
                return left.pop(0)

        monkeypatch.setattr(module.socket, "socket", Netlink)

    return answers


def test_a_name_is_that_of_who_made_the_socket() -> None:
    name = f"\0memhint-test-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        held.bind(name)
        assert socket_owners()[os.fsencode(name)] == os.geteuid()
    assert os.fsencode(name) not in socket_owners()


def test_many_answers_and_sockets_without_a_name(kernel: Callable[..., None]) -> None:
    first = message(20, ENTRY + attribute(0, b"\0a") + attribute(7, struct.pack("=I", 1000)))
    nameless = message(20, ENTRY + attribute(7, struct.pack("=I", 0)))
    old = message(20, ENTRY + attribute(0, b"/run/b"))
    kernel(first + nameless, old + message(3, bytes(4)))
    assert socket_owners() == {b"\0a": 1000, b"/run/b": None}


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (message(2, struct.pack("=i", -errno.ENOENT)), errno.ENOENT),
        (b"short", errno.EBADMSG),
        (message(20, ENTRY, length=8), errno.EBADMSG),
        (message(20, ENTRY, length=4096), errno.EBADMSG),
        (message(20, ENTRY + struct.pack("=HH", 0, 0)), errno.EBADMSG),
    ],
    ids=["refused", "short", "no length", "too long", "an attribute of nothing"],
)
def test_what_is_no_answer_is_an_error(kernel: Callable[..., None], answer: bytes, number: int) -> None:
    kernel(answer)
    with pytest.raises(OSError, match=r".*") as told:
        socket_owners()
    assert told.value.errno == number
