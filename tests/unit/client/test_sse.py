from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.client import sse
from memhint.client.sse import Message, TooLong, messages

STREAM = (
    "retry: 3000\n\n"
    "id: 7-1-2\n\n"
    ": still here\n\n"
    'id: 8-1-2\nevent: hosts\ndata: {"a":\ndata: "ü"}\n\n'
    "data:bare\n\n"
    "event: nothing\n\n"
    "id: 9\nevent: event\ndata: end"
)
TOLD = [
    Message("7-1-2"),
    Message("8-1-2", "hosts", '{"a":\n"ü"}'),
    Message("8-1-2", "message", "bare"),
]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


@given(st.lists(st.integers(0, 500), max_size=30), st.sampled_from(["\n", "\r\n", "\r"]))
def test_messages_do_not_depend_on_how_the_bytes_are_cut(places: list[int], end: str) -> None:
    data = STREAM.replace("\n", end).encode()
    assert list(messages(cut(data, places))) == TOLD


def test_a_message_that_has_not_ended_is_not_told() -> None:
    assert [one.data for one in messages([b"data: a\n\ndata: b\n"])] == ["a"]


def test_an_id_with_a_zero_byte_is_ignored() -> None:
    assert list(messages([b"id: 1\n\nid: 2\0\ndata: x\n\n"])) == [Message("1"), Message("1", "message", "x")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 50, b"data: x\n" * 8])
def test_a_message_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    monkeypatch.setattr(sse, "LARGEST", 40)
    with pytest.raises(TooLong):
        list(messages([piece]))


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    list(messages([data]))
