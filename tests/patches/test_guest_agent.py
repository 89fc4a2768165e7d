"""The guest agent: its unit tests, what it answers over its socket, and a short fuzz run."""

import pytest

from tests.patches.command import passes


@pytest.mark.parametrize("series", ["7.2", "10.0"])
def test_the_agent(series: str) -> None:
    passes("guest_agent/check", "--series", series)
