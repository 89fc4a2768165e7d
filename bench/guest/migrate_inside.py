"""Runs inside a virtual host: the program migrate, and what it prints."""

from __future__ import annotations

import os
import subprocess

PROGRAM = "/inside/migrate"


def run(rounds: int, small: int, huge: int, arms: list[str]) -> list[tuple[str, int, int]]:
    """Arm, bytes and nanoseconds of each arm in each round, by turns.

    :param small: MiB in pages of 4 KiB
    :param huge: MiB in huge pages
    :raises RuntimeError: when a page was not moved, or does not hold what was written to it
    """
    os.chmod(PROGRAM, 0o755)
    done = subprocess.run(
        [PROGRAM, str(rounds), str(small), str(huge), *arms], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    rows = (line.split() for line in done.stdout.splitlines())
    return [(arm, int(size), int(took)) for arm, size, took in rows]
