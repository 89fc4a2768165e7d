"""What a controller says at its start."""

from __future__ import annotations

import pytest

from memhint.controller.service import tell_of_disk


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite:////var/lib/memhint/memhint.db", True),
        ("postgresql+psycopg://memhint@db/memhint", False),
        ("mysql+pymysql://memhint@db/memhint", False),
    ],
)
def test_a_store_that_no_other_controller_can_have_is_told_of(
    url: str, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tell_of_disk(url)
    assert ("keeps the fleet on this disk; a second controller needs a database server" in caplog.text) is told
