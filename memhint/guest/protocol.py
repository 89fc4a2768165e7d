"""One conversation with one guest's agent: requests out, answers in, nothing in them believed before it is checked."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from typing import Protocol

from memhint.guest.errors import (
    GuestAgentAbsent,
    GuestAnswerMalformed,
    GuestCommandBlocked,
    GuestCommandFailed,
    GuestCommandMissing,
    GuestError,
    GuestTimeout,
    blocked,
)

DEFAULT_MAX_ANSWER = 256 * 1024
_INTEGER_DIGITS = 20  # holds every 64-bit number; without a bound, reading digits costs the square of their number
_FLOAT_LENGTH = 64
_REFUSAL_LENGTH = 1000
_RELEASE_TIMEOUT_S = 1
_NOT_FOUND = re.compile(r"\bcommand\s+['\"]?[\w-]+['\"]?\s+has not been found", re.IGNORECASE)
_DISABLED = re.compile(r"\bcommand\s+['\"]?([\w-]{1,64})['\"]?\s+has been disabled", re.IGNORECASE)


class AgentTransport(Protocol):
    """Carries one request to one guest's agent and brings the raw answer back.

    In production this is libvirt's virDomainQemuAgentCommand. It must keep the timeout: a conversation that never ends
    would hold its place in the poller for ever. libvirt turns ``{"error": …}`` answers into its own exception; such a
    transport raises :func:`refusal` of the text.
    """

    def __call__(self, request: str, timeout: int) -> str:
        """The answer to a JSON request, waiting for at most ``timeout`` seconds.

        :raises GuestError: a subclass that tells why there is no answer
        """
        ...


class GuestAgent:
    """One conversation, made for one sequence of calls and then thrown away.

    ``timeout_s`` bounds each call, ``deadline_s`` all of them together, counted from the making of this object.
    """

    def __init__(
        self,
        transport: AgentTransport,
        *,
        timeout_s: int = 5,
        deadline_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._clock = clock
        self._until = clock() + deadline_s
        self._absent = False

    def call(self, command: str, /, *, max_answer: int = DEFAULT_MAX_ANSWER, **arguments: object) -> object:
        """What the agent returned, as JSON values. ``max_answer`` bounds the raw answer, in characters.

        Arguments are named as QAPI names them, with underscores for its hyphens: ``buf_b64`` is sent as "buf-b64".

        :raises GuestTimeout: no answer in time, or the conversation's budget is used up
        :raises GuestAgentAbsent: no agent listens
        :raises GuestCommandMissing: the agent does not know the command
        :raises GuestCommandBlocked: it knows and blocks it
        :raises GuestCommandFailed: the agent answered with an error
        :raises GuestAnswerMalformed: the answer is not what the protocol allows
        """
        remaining = self._until - self._clock()
        if remaining <= 0:
            raise GuestTimeout(f"{command}: the conversation's {self._deadline_s:g} s are used up")
        return self._ask(command, arguments, max(1, min(self._timeout_s, math.ceil(remaining))), max_answer)

    def release(self, command: str, /, **arguments: object) -> None:
        """Give back what an earlier call took in the guest: one attempt of one second, past the deadline too.

        It never raises: the outcome of the conversation is known by then, and nothing may be tried a second time.
        """
        if self._absent:
            return
        try:
            self._ask(command, arguments, _RELEASE_TIMEOUT_S, DEFAULT_MAX_ANSWER)
        except GuestError:
            return

    def _ask(self, command: str, arguments: dict[str, object], timeout: int, max_answer: int) -> object:
        request: dict[str, object] = {"execute": command}
        if arguments:
            request["arguments"] = {name.replace("_", "-"): value for name, value in arguments.items()}
        try:
            answer = self._transport(json.dumps(request), timeout)
        except GuestAgentAbsent:
            self._absent = True
            raise
        return _returned(command, parse_answer(answer, max_answer))


def parse_answer(answer: object, max_answer: int = DEFAULT_MAX_ANSWER) -> object:
    """The JSON value of an answer of at most ``max_answer`` characters.

    :raises GuestAnswerMalformed: not text, too large, too deep, or not JSON
    """
    if not isinstance(answer, str):
        raise GuestAnswerMalformed("the answer is not text")
    if len(answer) > max_answer:
        raise GuestAnswerMalformed(f"the answer is longer than {max_answer} characters")
    try:
        return json.loads(answer, parse_int=_bounded_int, parse_float=_finite_float, parse_constant=_no_constant)
    except RecursionError:
        raise GuestAnswerMalformed("the answer is nested too deeply") from None
    except ValueError as error:
        raise GuestAnswerMalformed(f"the answer is not JSON: {error}") from None


def refusal(command: str, error_class: str, desc: str) -> GuestError:
    """The typed error for an agent that said no, from its error class (may be empty) and its words."""
    desc = desc[:_REFUSAL_LENGTH]
    detail = f"{command}: {desc}"
    # While its file systems are frozen an agent disables nearly everything: that passes, so it is not "unsupported".
    if "frozen" in desc.lower():
        return GuestCommandFailed(detail, error_class)
    # Its class is CommandNotFound for both; only the words tell what is missing from what is blocked.
    disabled = _DISABLED.search(desc)
    if disabled is not None:
        return GuestCommandBlocked(f"{blocked({disabled[1]})} ({desc})")
    if error_class == "CommandNotFound" or _NOT_FOUND.search(desc) or re.search(r"\bdisabled\b", desc):
        return GuestCommandMissing(detail)
    return GuestCommandFailed(detail, error_class)


def _returned(command: str, answer: object) -> object:
    if isinstance(answer, dict) and answer.keys() == {"return"}:
        return answer["return"]
    if isinstance(answer, dict) and answer.keys() == {"error"}:
        error = answer["error"]
        if isinstance(error, dict):
            error_class, desc = error.get("class"), error.get("desc")
            if isinstance(error_class, str) and isinstance(desc, str):
                raise refusal(command, error_class, desc)
    raise GuestAnswerMalformed(f"{command}: the answer is neither a return nor an error")


def _bounded_int(digits: str) -> int:
    if len(digits) > _INTEGER_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _finite_float(digits: str) -> float:
    if len(digits) > _FLOAT_LENGTH:
        raise ValueError(f"a number of {len(digits)} characters")
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number beyond all bounds")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
