"""Makes or upgrades the tables in a process of its own: what that loads, a daemon would keep for all its life."""

from __future__ import annotations

import logging
import subprocess
import sys

LOG = logging.getLogger(__name__)
PATIENCE = 300.0  # seconds


def upgrade_apart(url: str) -> None:
    """Have it done. Whatever goes wrong is found out, and said, by who opens the store after it."""
    try:
        # Not as an argument, which every user of the machine could read: it may hold a password.
        command = [sys.executable, "-m", "memhint.store.upgrade_now"]
        subprocess.run(command, input=url.encode(), capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        LOG.warning("the tables are not upgraded in a process of their own: %s", error)
