"""The extended agent's answers: counters of a patched kernel, a walk over page flags, and nonsense."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest.capabilities import Capabilities
from memhint.guest.commands import GET_MEMINFO, GET_PAGE_REPORTING, SET_PAGE_REPORTING
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed, GuestError
from memhint.guest.page_reporting import read_page_reporting, read_settings, set_page_reporting
from memhint.guest.protocol import GuestAgent
from memhint.guest.reporting_knob import read_guest_kernel
from memhint.guest.source_extended import ExtendedSource
from memhint.guest.sources import read_memory
from memhint.objects.guest import GuestSource
from memhint.objects.units import MIB

KERNEL = {
    "source": "kernel",
    "negotiated": True,
    "settable": ["enabled", "order", "delay-ms", "flush"],
    "enabled": True,
    "order": 9,
    "max-order": 10,
    "delay-ms": 2000,
    "free": 700 * MIB,
    "reportable": 690 * MIB,
    "reported": 600 * MIB,
    "unreported": 90 * MIB,
    "total-reported": 5000 * MIB,
    "zones": [],
    "more": False,
}
MEMINFO = {"page-size": 4096, "total": 960 * MIB, "free": 700 * MIB, "cached": 90 * MIB, "shmem": 10 * MIB}


class Turns(list):
    """Answers that are given one after the other."""


class Refused(str):
    """The words of an agent that answers with an error."""


UNEXPECTED = Refused("Parameter 'max-scan-ms' is unexpected")  # an agent of the series that scanned unasked


class Agent:
    """Answers from a table. What was asked is kept."""

    def __init__(self, **answers: object) -> None:
        self.answers = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.asked: list[dict[str, object]] = []

    def __call__(self, request: str, timeout: int) -> str:
        message = json.loads(request)
        self.asked.append(message)
        answer = self.answers[message["execute"]]
        if isinstance(answer, Turns):
            answer = answer.pop(0)
        if isinstance(answer, Refused):
            return json.dumps({"error": {"class": "GenericError", "desc": str(answer)}})
        return json.dumps({"return": answer})


def conversation(**answers: object) -> tuple[GuestAgent, Agent]:
    agent = Agent(**answers)
    return GuestAgent(agent), agent


def capabilities(*commands: str) -> Capabilities:
    return Capabilities("10.0", frozenset(commands), "6.12.1", None)


def test_the_counters_of_a_patched_kernel() -> None:
    agent, _ = conversation(guest_get_page_reporting=KERNEL, guest_get_meminfo=MEMINFO)
    found = read_memory(agent, capabilities(GET_PAGE_REPORTING, GET_MEMINFO), 1.0, 1024 * MIB)
    assert (found.source, found.reported, found.unreported) == (GuestSource.KERNEL, 600 * MIB, 90 * MIB)
    assert (found.total, found.cached, found.lifetime_reported) == (960 * MIB, 80 * MIB, 5000 * MIB)
    assert found.clamped == ()


def walk(reported: int, following: int, more: bool) -> dict[str, object]:
    scan = {"first-pfn": 0, "next-pfn": following, "end-pfn": 300, "bytes-read": 1, "elapsed-ms": 1}
    rest = {name: KERNEL[name] for name in ("negotiated", "max-order", "free", "reportable", "zones")}
    return {**rest, "source": "kpageflags", "settable": [], "reported": reported, "scan": scan, "more": more}


def test_a_walk_over_page_flags_is_added_up() -> None:
    steps = Turns([walk(100 * MIB, 100, True), walk(50 * MIB, 200, True), walk(7 * MIB, 300, False)])
    agent, asked = conversation(guest_get_page_reporting=steps)
    found = read_page_reporting(agent)
    assert (found.reported, found.unreported) == (157 * MIB, 533 * MIB)
    assert [one.get("arguments") for one in asked.asked] == [
        {"max-scan-ms": 500},
        {"cursor": 100, "max-scan-ms": 500},
        {"cursor": 200, "max-scan-ms": 500},
    ]


def test_an_agent_that_scans_unasked_is_walked_as_it_wants() -> None:
    steps = Turns([UNEXPECTED, walk(100 * MIB, 100, True), walk(57 * MIB, 300, False)])
    agent, asked = conversation(guest_get_page_reporting=steps)
    found = read_page_reporting(agent)
    assert (found.reported, found.unreported) == (157 * MIB, 533 * MIB)
    assert [one.get("arguments") for one in asked.asked] == [{"max-scan-ms": 500}, None, {"cursor": 100}]


def test_settings_are_read_without_a_scan() -> None:
    agent, asked = conversation(guest_get_page_reporting=KERNEL)
    assert read_settings(agent).order == 9
    assert [one.get("arguments") for one in asked.asked] == [{"max-scan-ms": 0}]


def test_settings_of_an_agent_that_scans_unasked_cost_it_a_millisecond() -> None:
    agent, asked = conversation(guest_get_page_reporting=Turns([UNEXPECTED, walk(1 * MIB, 100, True)]))
    assert read_settings(agent).source == "kpageflags"
    assert [one.get("arguments") for one in asked.asked] == [{"max-scan-ms": 0}, {"time-limit-ms": 1}]


@pytest.mark.parametrize("read", [read_page_reporting, read_settings])
def test_any_other_refusal_is_not_asked_again(read: Callable[[GuestAgent], object]) -> None:
    agent, asked = conversation(guest_get_page_reporting=Refused("no zones in '/proc/buddyinfo'"))
    with pytest.raises(GuestCommandFailed, match="no zones"):
        read(agent)
    assert len(asked.asked) == 1


def test_a_walk_that_gets_nowhere_is_ended() -> None:
    agent, _ = conversation(guest_get_page_reporting=Turns([walk(1, 100, True), walk(1, 100, True)]))
    with pytest.raises(GuestAnswerMalformed, match="advance"):
        read_page_reporting(agent)


def test_a_kernel_that_tells_nothing_leaves_it_to_the_next_source() -> None:
    agent, _ = conversation(guest_get_page_reporting={**KERNEL, "source": "none"})
    with pytest.raises(GuestCommandFailed):
        ExtendedSource().read(agent, 1.0, 1024 * MIB)


def test_a_guest_that_claims_too_much_is_clamped() -> None:
    agent, _ = conversation(
        guest_get_page_reporting={**KERNEL, "free": 1 << 50, "reported": 1 << 50, "unreported": 1 << 50},
        guest_get_meminfo=MEMINFO,
    )
    found = ExtendedSource().read(agent, 1.0, 1024 * MIB)
    assert found.free <= 960 * MIB
    assert found.reported + found.unreported <= found.free
    assert {"free", "reported", "unreported"} <= set(found.clamped)


def test_the_switch_of_a_patched_kernel_is_read_without_any_file() -> None:
    agent, asked = conversation(guest_get_page_reporting={**KERNEL, "enabled": False})
    found = read_guest_kernel(agent, 1.0, capabilities(GET_PAGE_REPORTING, SET_PAGE_REPORTING))
    assert (found.enabled, found.order, found.delay_ms, found.reporting_offered) == (False, 9, 2000, True)
    assert found.settable == ("delay-ms", "enabled", "flush", "order")
    assert len(asked.asked) == 1


def test_a_change_is_sent_under_the_agents_own_names() -> None:
    answer = {"enabled": True, "order": 9, "delay-ms": 200, "flushed": 4096, "more": False}
    agent, asked = conversation(guest_set_page_reporting=answer)
    found = set_page_reporting(agent, delay_ms=200, flush=1 * MIB)
    assert (found.delay_ms, found.flushed, found.more) == (200, 4096, False)
    assert asked.asked[0]["arguments"] == {"delay-ms": 200, "flush": 1 * MIB}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(KERNEL)), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from([*sorted(KERNEL), "scan"]), json_values), json_values)
def test_any_answer_is_a_reading_within_bounds_or_a_typed_error(changes: dict[str, object], info: object) -> None:
    agent, _ = conversation(guest_get_page_reporting={**KERNEL, **changes}, guest_get_meminfo=info)
    try:
        found = ExtendedSource().read(agent, 1.0, 1024 * MIB)
    except GuestError:
        return
    for value in (found.total, found.free, found.reported, found.unreported, found.cached, found.available):
        assert value is None or 0 <= value <= 1024 * MIB
