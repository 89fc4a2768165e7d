"""The guest agent: its unit tests, what it answers over its socket, and a short fuzz run."""

import pytest

from tests.patches.passed import passes_once


@pytest.mark.parametrize("series", ["7.2", "10.0"])
def test_the_agent(series: str) -> None:
    reads = ("guest_agent", "qemu/qemubuild.py", "qemu/tests/guest.py")
    passes_once("guest_agent/check", "--series", series, reads=reads)
