from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest.errors import GuestAnswerMalformed
from memhint.guest.proc import MemInfo, parse_buddyinfo, parse_meminfo
from memhint.objects.units import KIB, MIB

from .texts import BUDDYINFO, MEMINFO


def test_meminfo_is_read_in_bytes_and_shared_memory_is_no_cache() -> None:
    assert parse_meminfo(MEMINFO) == MemInfo(
        total=2015984 * KIB, free=512000 * KIB, available=1500000 * KIB, cached=(900000 + 1000 - 5000) * KIB
    )


def test_what_meminfo_does_not_have_is_absent() -> None:
    assert parse_meminfo("MemTotal: 10 kB\nMemFree: 5 kB\n") == MemInfo(10 * KIB, 5 * KIB, None, None)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "MemTotal"),
        ("MemTotal: 1 kB", "MemFree"),
        ("MemTotal: 1 kB\nMemFree: 1 kB\nMemFree: 2 kB", "MemFree"),
        ("MemTotal: 1\nMemFree: 1 kB", "MemTotal"),
        ("MemTotal: -1 kB\nMemFree: 1 kB", "MemTotal"),
        ("MemTotal: ١ kB\nMemFree: 1 kB", "MemTotal"),
        ("MemTotal: " + "9" * 17 + " kB\nMemFree: 1 kB", "MemTotal"),
        ("\n" * 300, "lines"),
    ],
)
def test_meminfo_without_sense_is_malformed(text: str, where: str) -> None:
    with pytest.raises(GuestAnswerMalformed, match=where):
        parse_meminfo(text)


def test_buddyinfo_is_summed_over_zones_by_order() -> None:
    by_order = parse_buddyinfo(BUDDYINFO)
    assert len(by_order) == 11
    assert by_order[0] == 11 * 4 * KIB
    assert by_order[1] == 4 * 8 * KIB
    assert by_order[10] == 103 * 4 * MIB


def test_buddyinfo_counts_pages_of_the_guests_size() -> None:
    assert parse_buddyinfo("Node 0, zone Normal 1 1", page_size=64 * KIB) == (64 * KIB, 128 * KIB)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node 0, zone Normal",
        "Node 0, zone Normal 1 -2",
        "Node 0, zone Normal 1 x",
        "Node 0, zone Normal 1\nNode 0, zone DMA 1 2",
        "Node 0, zone Normal" + " 1" * 17,
        "Node 0, zone Normal " + "1" * 400 + "x",
        "Node 0, zone Normal 1\n" * 1025,
        "Node 0, zone Normal " + "9" * 13,
    ],
)
def test_buddyinfo_without_sense_is_malformed(text: str) -> None:
    with pytest.raises(GuestAnswerMalformed, match="buddyinfo"):
        parse_buddyinfo(text)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_or_malformed(text: str) -> None:
    for parse in (parse_meminfo, parse_buddyinfo):
        try:
            parse(text)
        except GuestAnswerMalformed:
            continue


@given(st.lists(st.integers(0, 10**12 - 1), min_size=1, max_size=20))
def test_any_row_of_counts_is_a_bounded_number_of_orders_or_malformed(counts: list[int]) -> None:
    text = "Node 0, zone Normal " + " ".join(str(count) for count in counts)
    try:
        by_order = parse_buddyinfo(text)
    except GuestAnswerMalformed:
        assert len(counts) > 16
    else:
        assert by_order == tuple((count << order) * 4096 for order, count in enumerate(counts))
