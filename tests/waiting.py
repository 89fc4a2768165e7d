"""Waiting for what a test has set going."""

from __future__ import annotations

from collections.abc import Callable

from lab.waiting import wait_for


def until(true: Callable[[], object], seconds: float = 300.0, seen: Callable[[], str] | None = None) -> None:
    """For so long at most: a test that passes does not take as much.

    :param seen: says what there was instead
    """
    wait_for(true, seconds, "it to come to that", interval=0.02, seen=seen)
