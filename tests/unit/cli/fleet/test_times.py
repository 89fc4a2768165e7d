from __future__ import annotations

import argparse

import pytest

from memhint.cli.fleet.times import moment, span, unix


@pytest.mark.parametrize(("words", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21600), ("2 d", 172800)])
def test_spans(words: str, seconds: int) -> None:
    assert span(words) == seconds


@pytest.mark.parametrize("words", ["", "0", "90", "0s", "h", "-1h", "1y", "1.5h"])
def test_what_is_no_span(words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        span(words)


def test_moments_are_ago_or_dates_in_utc() -> None:
    assert unix(moment("1h"), 10_000.0) == 6_400.0
    assert unix(moment("1970-01-02"), 0.0) == 86_400.0
    assert unix(moment("1970-01-01T02:00+02:00"), 99.0) == 0.0
    assert unix(moment("3w"), 1.0) == 0.0
    assert unix(None, 1.0) is None


def test_moments_are_taken_as_machines_are_told_them() -> None:
    assert unix(moment("1795276800.25"), 1.0) == 1795276800.25
    assert unix(moment("999999999"), 1.0) == 999_999_999.0
    assert unix(moment("20260131"), 1.0) == unix(moment("2026-01-31"), 1.0)


@pytest.mark.parametrize("words", ["yesterday", "", "90", "179527", "123456789012", "2026-13-01"])
def test_what_is_no_moment(words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        moment(words)
