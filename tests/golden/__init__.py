"""Answers kept word for word: a change of structure shows here what it changes for those who ask.

`MEMHINT_GOLDEN=write` has the tests write their files again; `git diff` then shows what became of the answers.
"""

from __future__ import annotations

import os
import textwrap
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

WRITE = os.environ.get("MEMHINT_GOLDEN") == "write"
_SHOWN = 40  # lines of what differs
_LONGEST = 200  # characters of one


def check(path: Path, text: str) -> None:
    """The file holds this text."""
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    kept = path.read_text() if path.is_file() else ""
    if text != kept:
        differs = unified_diff(kept.splitlines(), text.splitlines(), "kept", "answered", n=0, lineterm="")
        lines = [textwrap.shorten(line, _LONGEST, placeholder=" …") for line in islice(differs, _SHOWN)]
        pytest.fail("\n".join([f"{path.name} differs; if it is meant to: MEMHINT_GOLDEN=write", *lines]), pytrace=False)
