"""Whether the host itself is going down, and not only one of its services."""

from __future__ import annotations

import subprocess

_ASK = ("systemctl", "is-system-running")
_PATIENCE = 2.0  # seconds


def host_stops() -> bool:
    """True where systemd says that it is shutting down; False where it does not, or cannot be asked."""
    try:
        told = subprocess.run(_ASK, capture_output=True, timeout=_PATIENCE, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return told.strip() == b"stopping"
