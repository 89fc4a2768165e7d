"""Where the lab keeps things."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """What can be made again: packages, images, verdicts. Shared by every lab of this user."""
    explicit = os.environ.get("MEMHINT_CACHE")
    if explicit:
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "memhint"


def labs_dir() -> Path:
    """The directory with one directory per lab. Kept short: sockets live below it, and their paths end at 107 bytes."""
    return Path(os.environ.get("MEMHINT_LAB_DIR") or "/var/tmp/memhint-lab")
