from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest.errors import (
    GuestAgentAbsent,
    GuestAnswerMalformed,
    GuestCommandFailed,
    GuestCommandMissing,
    GuestError,
    GuestTimeout,
)
from memhint.guest.protocol import GuestAgent, parse_answer, refusal
from memhint.objects.gap import GapReason
from memhint.objects.verdict import Reason
from tests.clock import Clock

from .strategies import raw_answers


def answering(answer: object) -> GuestAgent:
    return GuestAgent(lambda request, timeout: answer)  # type: ignore[arg-type]


def test_the_request_has_the_command_and_qapi_argument_names() -> None:
    sent: list[str] = []

    def transport(request: str, timeout: int) -> str:
        sent.append(request)
        return '{"return": {}}'

    agent = GuestAgent(transport)
    agent.call("guest-file-write", handle=3, buf_b64="YQ==")
    agent.call("guest-info")
    assert [json.loads(request) for request in sent] == [
        {"execute": "guest-file-write", "arguments": {"handle": 3, "buf-b64": "YQ=="}},
        {"execute": "guest-info"},
    ]


def test_the_returned_value_is_handed_on() -> None:
    assert answering('{"return": [1, {"a": "b"}]}').call("guest-info") == [1, {"a": "b"}]


@given(raw_answers)
def test_any_answer_is_a_value_or_a_guest_error(answer: object) -> None:
    caught: GuestError | None = None
    try:
        answering(answer).call("guest-info")
    except GuestError as error:
        caught = error
    assert caught is None or (len(caught.detail) <= 310 and caught.detail.isprintable())


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("[" * 100_000, "deep"),
        ("[" * 1_000_000, "longer"),
        ('{"return": ' + "9" * 5_000 + "}", "5000 digits"),
        ('{"return": NaN}', "NaN"),
        ('{"return": Infinity}', "Infinity"),
        ('{"return": 1e999}', "bounds"),
        ('{"return": 0.' + "1" * 200_000 + "}", "characters"),
        ("not json", "JSON"),
        ("", "JSON"),
        (b'{"return": 1}', "not text"),
        (None, "not text"),
        ("[]", "neither"),
        ("{}", "neither"),
        ('{"return": 1, "error": {"class": "GenericError", "desc": "x"}}', "neither"),
        ('{"error": "random error"}', "neither"),
        ('{"error": {"class": 1, "desc": "x"}}', "neither"),
    ],
)
def test_what_the_protocol_does_not_allow_is_malformed(answer: object, problem: str) -> None:
    with pytest.raises(GuestAnswerMalformed, match=problem):
        answering(answer).call("guest-info")


def test_the_largest_answer_is_set_per_call() -> None:
    answer = json.dumps({"return": "x" * 1000})
    assert answering(answer).call("guest-info", max_answer=len(answer)) == "x" * 1000
    with pytest.raises(GuestAnswerMalformed, match="longer"):
        answering(answer).call("guest-info", max_answer=len(answer) - 1)


def test_duplicate_keys_do_no_harm() -> None:
    assert parse_answer('{"return": 1, "return": 2}') == {"return": 2}


@pytest.mark.parametrize(
    ("error_class", "desc", "reason"),
    [
        ("CommandNotFound", "The command guest-x has not been found", Reason.GUEST_COMMAND),
        ("GenericError", "The command guest-x has been disabled for this instance", Reason.GUEST_BLOCKED),
        ("CommandNotFound", "Command guest-x has been disabled", Reason.GUEST_BLOCKED),
        ("CommandNotFound", "Command guest-x has been disabled: the command is not allowed", Reason.GUEST_BLOCKED),
        (
            "",
            "unable to execute QEMU agent command 'guest-x': The command guest-x has not been found",
            Reason.GUEST_COMMAND,
        ),
        (
            "",
            "unable to execute QEMU agent command 'guest-x': Command guest-x has been disabled: not allowed",
            Reason.GUEST_BLOCKED,
        ),
    ],
)
def test_a_command_that_is_unknown_or_blocked_is_unsupported(error_class: str, desc: str, reason: Reason) -> None:
    error = refusal("guest agent", error_class, desc)
    assert isinstance(error, GuestCommandMissing)
    assert error.gap("guest").reason is GapReason.UNSUPPORTED
    assert error.verdict is reason
    # what to allow is in the agent's words only: libvirt does not say again what was asked
    assert ("allow guest-x in the agent's configuration" in error.detail) == (reason is Reason.GUEST_BLOCKED)


@pytest.mark.parametrize(
    ("error_class", "desc"),
    [
        ("GenericError", "failed to flush file: Invalid argument"),
        ("", "unable to execute QEMU agent command 'guest-file-read': handle '1000' has not been found"),
        ("CommandNotFound", "Command guest-file-open has been disabled: the agent is in frozen state"),
    ],
)
def test_a_command_that_failed_or_will_work_again_is_not_unsupported(error_class: str, desc: str) -> None:
    error = refusal("guest-file-read", error_class, desc)
    assert isinstance(error, GuestCommandFailed)
    assert error.gap("guest").reason is GapReason.UNREADABLE


def test_an_error_answer_raises_with_the_agents_words() -> None:
    with pytest.raises(GuestCommandFailed, match="guest-x: no such luck"):
        answering('{"error": {"class": "GenericError", "desc": "no such luck"}}').call("guest-x")


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_a_refusal_in_any_words_is_fit_for_a_log_line(error_class: str, desc: str) -> None:
    error = refusal("guest-x", error_class, desc)
    assert error.detail.isprintable()
    assert len(error.detail) <= 310


def test_every_call_waits_for_no_longer_than_what_is_left_of_the_budget() -> None:
    clock = Clock(100.0)
    waits: list[int] = []

    def transport(request: str, timeout: int) -> str:
        waits.append(timeout)
        clock.now += 4.0
        return '{"return": 1}'

    agent = GuestAgent(transport, timeout_s=5, deadline_s=9.5, clock=clock)
    for _ in range(3):
        agent.call("guest-info")
    with pytest.raises(GuestTimeout, match=r"9\.5 s are used up"):
        agent.call("guest-info")
    assert waits == [5, 5, 2]


def test_what_was_taken_is_released_past_the_deadline_and_in_one_second() -> None:
    clock = Clock(100.0)
    waits: list[int] = []

    def transport(request: str, timeout: int) -> str:
        waits.append(timeout)
        return '{"error": {"class": "GenericError", "desc": "no"}}'

    agent = GuestAgent(transport, deadline_s=1, clock=clock)
    clock.now += 2
    agent.release("guest-file-close", handle=1)
    assert waits == [1]


def test_nothing_is_released_at_an_agent_that_is_gone() -> None:
    calls: list[str] = []

    def transport(request: str, timeout: int) -> str:
        calls.append(request)
        raise GuestAgentAbsent("not connected")

    agent = GuestAgent(transport)
    with pytest.raises(GuestAgentAbsent):
        agent.call("guest-file-read", handle=1, count=1)
    agent.release("guest-file-close", handle=1)
    assert len(calls) == 1
