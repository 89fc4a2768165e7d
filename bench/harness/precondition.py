"""What has to hold for a figure to mean anything. A bench refuses rather than to report one that does not."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ANYWAY = "MEMHINT_BENCH_ANYWAY"
"""Set in the environment, other guests beside are let pass, and the result says so."""
_SHOWN = 100  # characters of a command line, of thousands
_GUESTS = ("qemu-system", "qemu-kvm")  # the latter on Red Hat and SUSE


class PreconditionFailed(Exception):
    """The bench cannot be run here and now; the text says what to change."""


def require(holds: bool, what: str) -> None:
    """Raise PreconditionFailed, with `what` is wrong and what to do, unless it holds."""
    if not holds:
        raise PreconditionFailed(what)


def ksm_is_off(root: Path = Path("/")) -> None:
    """Nobody else may merge pages meanwhile: KSM is one for the whole machine."""
    run = root / "sys/kernel/mm/ksm/run"
    require(
        run.exists() and run.read_text().strip() in ("0", "2"),
        "KSM runs on this machine already, or its kernel has none: stop what uses it (echo 2 > /sys/kernel/mm/ksm/run)",
    )


def no_other_guests(commands: Iterable[str] | None = None) -> None:
    """No QEMU that this bench did not start: it would take CPU and memory from what is measured.

    `commands` are the command lines of all processes; those of this machine unless given.
    """
    if ANYWAY in os.environ:
        return
    programs = [(one, one.split(" ", 1)[0]) for one in (_commands() if commands is None else commands)]
    found = [one for one, program in programs if any(name in program for name in _GUESTS)]
    require(
        not found,
        f"{len(found)} other guests run on this machine, such as `{found[0][:_SHOWN] if found else ''} …`: "
        f"end them, or set {ANYWAY}=1",
    )


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has just ended
    return found
