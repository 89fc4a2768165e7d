"""The checks of the patch series are programs of their own: anybody can run them without these tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import leftovers
from tests.side_by_side import guests_on_this_machine

ROOT = Path(__file__).parents[2]
TAIL = 12_000  # characters of what a failed check said


def passes(*words: str) -> None:
    """Run a program of the checkout; what it said last when it fails."""
    folder = leftovers.scratch("patches", "/tmp")
    folder.chmod(0o711)  # some tests go on as nobody
    try:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        pytest.fail(f"{' '.join(words)} ended with {done.returncode}:\n{text[-TAIL:]}", pytrace=False)
    print(text)


@pytest.fixture(scope="module")
def beside_others() -> Iterator[None]:
    """For checks that boot guests."""
    with guests_on_this_machine(alone=False):
        yield
