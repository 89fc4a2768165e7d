"""The guest kernel 6.12: style of each patch, and what the series promises, in a running guest."""

import sys

import pytest

from tests.patches.passed import passes_once


def test_style_of_each_patch() -> None:
    passes_once("kernel/check", "--style", "--version", "6.12")


@pytest.mark.usefixtures("beside_others")
def test_a_guest_has_what_the_series_promises() -> None:
    passes_once(sys.executable, "kernel/tests/run", "--version", "6.12", "--series", "stats")


@pytest.mark.usefixtures("beside_others")
def test_a_guest_recycles_pages_and_none_is_lost() -> None:
    passes_once(sys.executable, "kernel/tests/run", "--version", "6.12", "--series", "recycler")
