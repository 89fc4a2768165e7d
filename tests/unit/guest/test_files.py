from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.guest.errors import (
    GuestAnswerMalformed,
    GuestCommandFailed,
    GuestCommandMissing,
    GuestError,
    GuestTimeout,
)
from memhint.guest.files import read_file, write_file
from memhint.guest.protocol import GuestAgent

from .fake_agent import FakeAgent
from .strategies import raw_answers

PATH = "/sys/module/page_reporting/parameters/page_reporting_order"


def test_a_file_is_read_and_its_handle_given_back() -> None:
    guest = FakeAgent({"/proc/x": "hello\n"})
    assert read_file(GuestAgent(guest), "/proc/x") == "hello\n"
    assert guest.handles == {}


def test_an_empty_file_is_an_empty_text() -> None:
    assert read_file(GuestAgent(FakeAgent({"/proc/x": ""})), "/proc/x") == ""


def test_a_file_that_comes_in_pieces_is_put_together() -> None:
    guest = FakeAgent({"/proc/x": "0123456789"}, read_max=3)
    assert read_file(GuestAgent(guest), "/proc/x") == "0123456789"
    assert guest.handles == {}


def test_a_file_as_long_as_the_limit_is_read_and_a_longer_one_is_not() -> None:
    guest = FakeAgent({"/proc/fits": "x" * 100, "/proc/long": "x" * 101})
    assert len(read_file(GuestAgent(guest), "/proc/fits", limit=100)) == 100
    with pytest.raises(GuestAnswerMalformed, match="longer than 100"):
        read_file(GuestAgent(guest), "/proc/long", limit=100)
    assert guest.handles == {}


def test_a_file_handed_out_byte_by_byte_ends_the_reading() -> None:
    guest = FakeAgent({"/proc/x": "x" * 1000}, read_max=1)
    with pytest.raises(GuestAnswerMalformed, match="no end"):
        read_file(GuestAgent(guest), "/proc/x")
    assert len(guest.calls) < 20
    assert guest.handles == {}


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        ({"count": 3, "eof": True, "buf-b64": "@@@@"}, "base64"),
        ({"count": 2, "eof": True, "buf-b64": "YWJj"}, "as many bytes"),
        ({"count": 1, "eof": True, "buf-b64": "YR=="}, "as many bytes"),  # stray bits behind the data
        ({"count": 1, "eof": True, "buf-b64": "YQ==YQ=="}, "base64"),
        ({"count": 3, "eof": True}, "as many bytes"),
        ({"count": 0, "eof": False}, "neither data nor"),
        ({"count": 0}, "eof"),
        ({"eof": True}, "count"),
        ({"count": 1, "eof": True, "buf-b64": "/w=="}, "UTF-8"),
        ({"count": 99999, "eof": True, "buf-b64": ""}, "outside"),
        ({"count": 0, "eof": True, "buf-b64": "A" * 90_000}, "longer"),
    ],
)
def test_answers_that_contradict_themselves_are_malformed_and_the_handle_is_given_back(
    read: dict[str, object], problem: str
) -> None:
    def mangle(command: str, answer: str) -> str:
        return json.dumps({"return": read}) if command == "guest-file-read" else answer

    guest = FakeAgent({"/proc/x": "hello"}, mangle=mangle)
    with pytest.raises(GuestAnswerMalformed, match=problem):
        read_file(GuestAgent(guest), "/proc/x")
    assert guest.handles == {}


def test_the_handle_is_given_back_when_reading_fails() -> None:
    guest = FakeAgent({"/proc/x": "hello"}, unreadable={"/proc/x"})
    with pytest.raises(GuestCommandFailed, match="Input/output error"):
        read_file(GuestAgent(guest), "/proc/x")
    assert guest.handles == {}


def test_what_was_read_counts_although_the_close_hangs() -> None:
    guest = FakeAgent({"/proc/x": "hello"}, hang_at={"guest-file-close"})
    assert read_file(GuestAgent(guest), "/proc/x") == "hello"


def test_a_file_that_is_not_there_failed_and_blocked_commands_are_missing() -> None:
    with pytest.raises(GuestCommandFailed):
        read_file(GuestAgent(FakeAgent()), "/proc/x")
    with pytest.raises(GuestCommandMissing):
        read_file(GuestAgent(FakeAgent({"/proc/x": ""}, blocked={"guest-file-open"})), "/proc/x")


def test_a_write_reaches_the_file() -> None:
    guest = FakeAgent({PATH: "9\n"})
    write_file(GuestAgent(guest), PATH, "11")
    assert guest.files[PATH] == "11"
    assert guest.commands() == ["guest-file-open", "guest-file-write", "guest-file-flush", "guest-file-close"]
    assert guest.handles == {}


def test_the_kernels_refusal_is_raised_and_the_handle_given_back() -> None:
    guest = FakeAgent({PATH: "9\n"}, refused_writes={PATH})
    with pytest.raises(GuestCommandFailed, match="Invalid argument"):
        write_file(GuestAgent(guest), PATH, "11")
    assert guest.files[PATH] == "9\n"
    assert guest.handles == {}
    assert guest.crimes == []


def test_no_handle_is_touched_after_its_close_failed() -> None:
    guest = FakeAgent({PATH: "9\n"}, refused_writes={PATH}, keeps_buffer=True)
    with pytest.raises(GuestCommandFailed, match="failed to flush"):
        write_file(GuestAgent(guest), PATH, "11")
    assert guest.commands().count("guest-file-close") == 1
    assert guest.commands()[-1] == "guest-file-close"
    assert guest.crimes == []


def test_a_flush_that_hangs_is_a_timeout_and_the_close_is_tried_once() -> None:
    guest = FakeAgent({PATH: "9\n"}, hang_at={"guest-file-flush", "guest-file-close"})
    with pytest.raises(GuestTimeout, match="flush"):
        write_file(GuestAgent(guest), PATH, "11")
    assert guest.commands().count("guest-file-close") == 1
    assert guest.timeouts[-1] == 1


def test_a_write_that_took_less_than_everything_is_not_a_success() -> None:
    def mangle(command: str, answer: str) -> str:
        return json.dumps({"return": {"count": 1, "eof": False}}) if command == "guest-file-write" else answer

    with pytest.raises(GuestAnswerMalformed, match="not everything"):
        write_file(GuestAgent(FakeAgent({PATH: "9"}, mangle=mangle)), PATH, "11")


@pytest.mark.parametrize("path", ["/etc/passwd", "/sys/../etc/passwd", "sys/x"])
def test_only_files_below_sys_are_written(path: str) -> None:
    guest = FakeAgent({path: ""})
    with pytest.raises(ValueError, match="below /sys"):
        write_file(GuestAgent(guest), path, "1")
    assert guest.calls == []


def test_a_text_that_needs_two_writes_is_not_sent() -> None:
    guest = FakeAgent({PATH: ""})
    with pytest.raises(ValueError, match="4096"):
        write_file(GuestAgent(guest), PATH, "x" * 4097)
    assert guest.calls == []


@settings(max_examples=300)
@given(st.lists(raw_answers, min_size=1, max_size=5))
def test_any_sequence_of_answers_gives_a_text_or_a_guest_error(answers: list[object]) -> None:
    left = list(answers)

    def transport(request: str, timeout: int) -> str:
        return left.pop(0) if len(left) > 1 else left[0]  # type: ignore[return-value]

    for conversation in (lambda agent: read_file(agent, "/proc/x"), lambda agent: write_file(agent, PATH, "9")):
        try:
            conversation(GuestAgent(transport))
        except GuestError:
            continue


@given(raw_answers)
def test_any_answer_to_the_read_gives_a_text_or_a_guest_error(raw: object) -> None:
    def mangle(command: str, answer: str) -> str:
        return raw if command == "guest-file-read" else answer  # type: ignore[return-value]

    guest = FakeAgent({"/proc/x": "hello"}, mangle=mangle)
    try:
        assert len(read_file(GuestAgent(guest), "/proc/x", limit=100)) <= 100
    except GuestError:
        pass
    finally:
        assert guest.handles == {}
