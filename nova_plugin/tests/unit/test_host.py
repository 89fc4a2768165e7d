"""What the API tells of a host is read strictly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memhint_nova.host import FIELDS, BadHost, host

from tests.told import GIB, provider, told


def test_a_host_in_the_terms_of_a_placement() -> None:
    read = host(told(3, provider=provider(3).upper(), at=995.0), wall=1000.0, monotonic=50.0)
    assert (read.provider, read.headroom, read.domains, read.mark) == (provider(3), 10240.0, 2, ("e1", 7))
    assert (read.expires, read.period) == (75.0, 10.0)


def test_only_what_is_asked_for_is_read() -> None:
    assert set(told()) == set(FIELDS)
    assert host({**told(), "more": 1}, 1000.0, 50.0) == host(told(), 1000.0, 50.0)


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_is_refused_but_for_what_may_be_unknown(name) -> None:
    some = told()
    del some[name]
    if name in ("provider", "psi"):
        host(some, 1000.0, 50.0)
    else:
        with pytest.raises(BadHost):
            host(some, 1000.0, 50.0)


@pytest.mark.parametrize(
    "change",
    [
        {"headroom": -1},
        {"headroom": True},
        {"headroom": 1.5},
        {"headroom": 1 << 60},
        {"headroom": None},
        {"assigned": "4"},
        {"admitting": 1},
        {"at": math.nan},
        {"at": math.inf},
        {"period": 0},
        {"period": -1.0},
        {"period": 1e9},
        {"psi": 200.0},
        {"provider": "not-a-uuid"},
        {"provider": 4},
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 256},
        {"domains": -1},
    ],
)
def test_what_is_no_such_value_is_refused(change) -> None:
    with pytest.raises(BadHost):
        host(told(**change), 1000.0, 50.0)


def test_details_are_fit_for_one_line_of_a_log() -> None:
    read = host(told(detail="bad\nline\x1b[31m" + "x" * 1000), 1000.0, 50.0)
    assert read.detail.isprintable()
    assert len(read.detail) == 200


def test_stale_by_the_servers_word_is_of_no_use() -> None:
    assert host(told(state="stale", headroom=GIB), 1000.0, 50.0).expires == -math.inf


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4)


@given(st.sampled_from(FIELDS), JSON)
def test_arbitrary_values_are_read_or_refused(name, value) -> None:
    try:
        read = host(told(**{name: value}), 1000.0, 50.0)
    except BadHost:
        return
    assert read.headroom >= 0
    assert not math.isnan(read.expires)
    assert read.expires <= 50.0 + 3 * 3600
