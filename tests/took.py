"""What each group of tests took when it last ran on this machine: where several processes share them, the longest begin
first, for whoever begins a long one last keeps all others waiting."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from lab.paths import cache_dir


def took_before(file: Path | None = None) -> dict[str, float]:
    """Seconds by group; empty where nothing was kept that can be read."""
    try:
        kept = json.loads((file or _file()).read_text())
        return {str(name): float(seconds) for name, seconds in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def keep(seconds: Mapping[str, float], file: Path | None = None) -> None:
    """Keep what groups took. One of which only a part ran, or quickly for once, loses half of what it had at most."""
    file = file or _file()
    before = took_before(file)
    now = {name: round(max(one, before.get(name, 0.0) / 2), 1) for name, one in seconds.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps({**before, **now}, indent=1, sort_keys=True))
    scratch.replace(file)


def _file() -> Path:
    return cache_dir() / "tests" / "took.json"
