"""Programs that no AppArmor profile is attached to, on a machine that enforces them as Debian does.

The distribution's profile of libvirtd lets it start the distribution's QEMU, and none that is built in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ENABLED = Path("/sys/module/apparmor/parameters/enabled")
# What aa-exec does, by what every root has. It holds for the next program that is executed, and for its children.
_LEAVE = 'printf "exec unconfined" >/proc/self/attr/apparmor/exec; exec "$@"'


def unconfined(argv: Sequence[str], enabled: Path = ENABLED) -> list[str]:
    """The words that start `argv` without a profile; the same process becomes it. Where AppArmor is not, `argv`."""
    try:
        on = enabled.read_text().strip() == "Y"
    except OSError:
        on = False
    return ["/bin/sh", "-c", _LEAVE, "unconfined", *argv] if on else list(argv)
