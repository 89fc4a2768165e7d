"""The kernel for hosts: what its series promises. The style of its patches is checked with the others of 6.12."""

import sys

import pytest

from tests.patches.passed import passes_once


@pytest.mark.usefixtures("beside_others")
def test_a_host_has_what_the_series_promises() -> None:
    passes_once(sys.executable, "kernel/tests/run", "--version", "6.12", "--series", "host")
