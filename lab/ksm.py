"""What this machine's KSM was before a run steered it, on disk: the successor of a killed run puts it back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.paths import cache_dir
from lab.process import Process

FOLDER = Path("sys/kernel/mm/ksm")

# The kernel takes pages_to_scan only while no advisor has it: the advisor comes last.
SETTINGS = (
    "pages_to_scan",
    "sleep_millisecs",
    "use_zero_pages",
    "smart_scan",
    "advisor_target_scan_time",
    "advisor_max_cpu",
    "advisor_mode",
)


def read(root: Path = Path("/")) -> dict[str, str]:
    """`run` and every setting that this kernel has; nothing where it has no KSM."""
    return {name: _chosen(path) for name in ("run", *SETTINGS) if (path := root / FOLDER / name).exists()}


def write(before: dict[str, str], root: Path = Path("/")) -> None:
    """Separate what is merged, unless it merged before too, and put back every setting."""
    if not before:
        return
    folder = root / FOLDER
    if before["run"] != "1":
        (folder / "run").write_text("2")
    if "advisor_mode" in before:
        (folder / "advisor_mode").write_text("none")
    for name in SETTINGS:
        if name in before:
            (folder / name).write_text(before[name])
    (folder / "run").write_text(before["run"])


@contextmanager
def written_down(root: Path = Path("/")) -> Iterator[dict[str, str]]:
    """What it is before the body, kept on disk meanwhile. A note that a killed run has left is carried out first.

    A body that is interrupted while it puts KSM back leaves that to the end of this one, or to the next run.
    """
    note = _note(root)
    put_back_left(root)
    before = read(root)
    own = Process.of(os.getpid())
    assert own is not None
    outermost = bool(before) and not note.exists()
    if outermost:
        note.parent.mkdir(parents=True, exist_ok=True)
        fresh = note.with_suffix(".new")
        fresh.write_text(json.dumps({"pid": own.pid, "started": own.started, "ksm": before}))
        fresh.rename(note)
    try:
        yield before
    finally:
        if outermost:
            if read(root) != before:
                write(before, root)
            note.unlink(missing_ok=True)


def put_back_left(root: Path = Path("/")) -> bool:
    """Put KSM back as a run found it that was killed; False where none has left it otherwise."""
    note = _note(root)
    try:
        left = json.loads(note.read_text())
        owner, before = Process(left["pid"], left["started"]), left["ksm"]
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        note.unlink(missing_ok=True)  # cut off while it was written: nothing had been changed yet
        return False
    if owner.alive:
        return False
    write(before, root)
    note.unlink(missing_ok=True)
    return True


def _note(root: Path) -> Path:
    return cache_dir() / "lab" / "ksm.json" if root == Path("/") else root / "ksm.json"


def _chosen(path: Path) -> str:
    """The word in brackets where there are several, or the whole."""
    text = path.read_text().strip()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text
