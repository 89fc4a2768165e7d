"""QEMU's counters: taken exactly, or refused with a type."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.discarded import Ranges
from memhint.objects.gap import GapReason
from memhint.virt.balloon_reporting import parse_balloon_reporting
from memhint.virt.errors import DeviceAbsent, LibvirtCallFailed, MonitorAnswerMalformed, MonitorCommandUnknown
from memhint.virt.monitor import Monitor

ANSWER = {
    "enabled": True,
    "negotiated": True,
    "reported": {"ranges": 507, "bytes": 2118123520},
    "discarded": {"ranges": 506, "bytes": 2116026368},
    "skipped-inhibited": {"ranges": 1, "bytes": 2097152},
    "skipped-poison": {"ranges": 0, "bytes": 0},
    "skipped-unaligned": {"ranges": 0, "bytes": 0},
    "skipped-invalid": {"ranges": 0, "bytes": 0},
    "failed": {"ranges": 0, "bytes": 0},
    "last-report": 1358529861,
}


def test_every_counter_is_taken() -> None:
    found = parse_balloon_reporting(ANSWER, 7.0)
    assert found.at == 7.0
    assert found.reported == Ranges(507, 2118123520)
    assert found.discarded == Ranges(506, 2116026368)
    assert found.skipped_inhibited == Ranges(1, 2097152)
    assert found.skipped == 2097152
    assert found.last_report == 1358529861.0


def test_a_guest_that_never_reported_has_no_last_report() -> None:
    answer = dict(ANSWER)
    del answer["last-report"]
    assert parse_balloon_reporting(answer, 7.0).last_report is None


def test_a_qemu_that_says_0_means_that_there_was_no_report() -> None:
    assert parse_balloon_reporting({**ANSWER, "last-report": 0}, 7.0).last_report is None


@pytest.mark.parametrize("name", sorted(ANSWER))
@pytest.mark.parametrize("value", [None, "1", -1, 1.5, [], {}, 1 << 64])
def test_a_member_of_another_kind_is_refused(name: str, value: object) -> None:
    answer = {**copy.deepcopy(ANSWER), name: value}
    with pytest.raises(MonitorAnswerMalformed):
        parse_balloon_reporting(answer, 7.0)


@pytest.mark.parametrize("name", sorted(ANSWER.keys() - {"last-report"}))
def test_a_member_that_is_missing_is_refused(name: str) -> None:
    answer = copy.deepcopy(ANSWER)
    del answer[name]
    with pytest.raises(MonitorAnswerMalformed):
        parse_balloon_reporting(answer, 7.0)


def test_parts_that_do_not_make_up_the_sum_are_refused() -> None:
    answer = {**ANSWER, "failed": {"ranges": 1, "bytes": 4096}}
    with pytest.raises(MonitorAnswerMalformed, match="make up"):
        parse_balloon_reporting(answer, 7.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(ANSWER)), inner, max_size=10),
    max_leaves=20,
)


@given(JSON)
def test_any_other_answer_is_refused_with_a_type(answer: object) -> None:
    with pytest.raises(MonitorAnswerMalformed):
        parse_balloon_reporting(answer, 7.0)


class Canned:
    """A connection's calls, answered with one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    def call(self, what: str, function: object) -> str:
        self.asked.append(what)
        return self.text


def test_the_monitor_asks_once_and_reads_the_answer() -> None:
    caller = Canned(json.dumps({"return": ANSWER, "id": "libvirt-1"}))
    assert Monitor(caller, "uuid").balloon_reporting(7.0).discarded.ranges == 506  # type: ignore[arg-type]
    assert caller.asked == ["query-balloon-reporting"]


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ({"error": {"class": "CommandNotFound", "desc": "no"}}, MonitorCommandUnknown, GapReason.UNSUPPORTED),
        ({"error": {"class": "DeviceNotActive", "desc": "no"}}, DeviceAbsent, GapReason.UNSUPPORTED),
        ({"error": {"class": "GenericError", "desc": "no"}}, LibvirtCallFailed, GapReason.UNREADABLE),
        ({"error": "no"}, LibvirtCallFailed, GapReason.UNREADABLE),
        ({}, MonitorAnswerMalformed, GapReason.MALFORMED),
        ([], MonitorAnswerMalformed, GapReason.MALFORMED),
    ],
)
def test_an_error_of_qemus_has_its_type(answer: object, kind: type[LibvirtCallFailed], reason: GapReason) -> None:
    with pytest.raises(LibvirtCallFailed) as caught:
        Monitor(Canned(json.dumps(answer)), "uuid").balloon_reporting(7.0)  # type: ignore[arg-type]
    assert type(caught.value) is kind
    assert caught.value.gap("balloon reporting").reason is reason
