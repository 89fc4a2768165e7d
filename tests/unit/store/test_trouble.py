from __future__ import annotations

import pytest

from memhint.store.database import open_store
from memhint.store.errors import StoreError
from memhint.store.trouble import trouble


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("database or disk is full", "make room on that disk"),
        ("disk I/O error", "make room on that disk"),
        ("database is locked", "another process keeps it"),
        ("unable to open database file", "run as root"),
        ("no such table: report", "restart the agent or the controller"),
        ("connection refused", "see [store] url"),
    ],
)
def test_what_to_do_next_is_said(what: str, said: str) -> None:
    assert str(trouble("sqlite:///x", what, refused=False)).startswith(f"sqlite:///x: {what}; {said}")


def test_a_port_that_is_none_is_no_url() -> None:
    with pytest.raises(StoreError, match="is not a database URL"):
        open_store("postgresql+psycopg://memhint@127.0.0.1:xx/memhint")
