"""What a lab has logged, kept when it failed: its own directory is gone before anybody reads the message."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from lab.errors import LabError

_LOGS = ("keeper.log", "*/log/**/*", "*/console/*", "*/memhint/*.log")
"""Of the lab, of libvirt, QEMUs and a stack's services, of guests' kernels, of memhint's agents and API."""


def keep(lab: Path, folder: Path) -> Path | None:
    """Copy the logs of the lab in `lab` to a directory of its name below `folder`, by their paths in the lab; None
    where there is nothing of it. What cannot be copied, for want of room, is left out."""
    kept = folder / lab.name
    found = False
    for log in (one for pattern in _LOGS for one in lab.glob(pattern) if one.is_file()):
        with suppress(OSError):
            target = kept / log.relative_to(lab)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)
            found = True
    return kept if found else None


def retell(error: LabError, lab: Path, kept: Path) -> None:
    """Have the message of a failure name the logs where they are kept."""
    said = str(error).replace(str(lab), str(kept))
    error.args = (f"{said}\nWhat hosts, guests and agents logged is kept in {kept}",)
