"""The guest kernel 7.3: style of each patch, and what the series promises, in a running guest."""

import sys

import pytest

from tests.patches.passed import passes_once


def test_style_of_each_patch() -> None:
    passes_once("kernel/check", "--style", "--version", "7.3")


@pytest.mark.usefixtures("beside_others")
def test_a_guest_has_what_the_series_promises() -> None:
    passes_once(sys.executable, "kernel/tests/run", "--version", "7.3", "--series", "stats")
