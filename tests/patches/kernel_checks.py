"""What is checked of each kernel's series: the style of its patches, and what it promises, in a running kernel.

A change of one version's patches, or of one series', has only that one checked again.
"""

from __future__ import annotations

import sys

from tests.patches.passed import passes_once, patches

BUILD = ("kernel/build", "kernel/source.py", "kernel/config")


def style_passes(version: str) -> None:
    """Each patch of a version is as its reviewers want it."""
    reads = ("kernel/check", "kernel/source.py", f"kernel/patches/{version}")
    passes_once("kernel/check", "--style", "--version", version, reads=reads)


def series_passes(version: str, series: str, *lists: str, also: tuple[str, ...] = ()) -> None:
    """A kernel with a series has what it promises.

    :param lists: the files that name the series' patches
    :param also: what else its tests read
    """
    reads = (*BUILD, "kernel/tests", *patches(version, *lists), *also)
    passes_once(sys.executable, "kernel/tests/run", "--version", version, "--series", series, reads=reads)
