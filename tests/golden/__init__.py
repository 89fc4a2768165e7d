"""Answers kept word for word: a change of structure shows here what it changes for those who ask.

`MEMHINT_GOLDEN=write` has the tests write their files again; `git diff` then shows what became of the answers.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

WRITE = os.environ.get("MEMHINT_GOLDEN") == "write"
_SHOWN = 40  # lines of what differs


def check(path: Path, text: str) -> None:
    """The file holds this text."""
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    kept = path.read_text() if path.is_file() else ""
    if text != kept:
        lines = islice(unified_diff(kept.splitlines(), text.splitlines(), "kept", "answered", lineterm=""), _SHOWN)
        pytest.fail("\n".join([f"{path.name} differs; if it is meant to: MEMHINT_GOLDEN=write", *lines]), pytrace=False)
