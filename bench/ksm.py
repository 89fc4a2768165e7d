"""The host's KSM as a bench uses it: set and put back, and the CPU time of its one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.cpu import cpu_seconds
from bench.harness.precondition import require
from memhint.levers.dedup import SLOW

_FOLDER = Path("sys/kernel/mm/ksm")
FLAT_OUT: Mapping[str, str] = {
    "use_zero_pages": "1",
    "advisor_mode": "none",
    "pages_to_scan": "5000",
    "sleep_millisecs": "20",
}
"""memhint's fast pace: about 38 % of a core at 2.5 µs for a page."""


@contextmanager
def kept(root: Path = Path("/")) -> Iterator[None]:
    """What is merged in the body is separated after it, and every setting that can be written is as it was."""
    folder = root / _FOLDER
    before = {path.name: _chosen(path) for path in folder.iterdir() if path.name in _SETTINGS}
    try:
        yield
    finally:
        (folder / "run").write_text("2")
        (folder / "run").write_text("0")
        if "advisor_mode" in before:
            (folder / "advisor_mode").write_text("none")
        for name in sorted(before, key=_SETTINGS.index):
            (folder / name).write_text(before[name])


@contextmanager
def scanning(settings: Mapping[str, str] = FLAT_OUT, root: Path = Path("/")) -> Iterator[None]:
    """KSM runs so in the body. Raises PreconditionFailed where this kernel has none, or not what is to be set."""
    folder = root / _FOLDER
    missing = [name for name in ("run", *settings) if not (folder / name).exists()]
    require(not missing, f"KSM of this kernel has no {', '.join(missing)}: it takes Linux 6.8 with CONFIG_KSM")
    with kept(root):
        for name, value in settings.items():
            (folder / name).write_text(value)
        (folder / "run").write_text("1")
        yield


# The kernel takes pages_to_scan only while no advisor has it: the advisor comes last.
_SETTINGS = (
    "pages_to_scan",
    "sleep_millisecs",
    "use_zero_pages",
    "smart_scan",
    "advisor_target_scan_time",
    "advisor_max_cpu",
    "advisor_mode",
)


def _chosen(path: Path) -> str:
    """The word in brackets where there are several, or the whole."""
    text = path.read_text().strip()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text


def running(root: Path = Path("/")) -> bool:
    """Whether it scans now, at more than the slow pace at which memhint lets it rest."""
    folder = root / _FOLDER
    if not (folder / "run").exists() or (folder / "run").read_text().strip() != "1":
        return False
    return tuple(int((folder / name).read_text()) for name in ("pages_to_scan", "sleep_millisecs")) != SLOW


def full_scans(root: Path = Path("/")) -> int:
    """How often it has been over everything so far; 0 where this kernel has none."""
    path = root / _FOLDER / "full_scans"
    return int(path.read_text()) if path.exists() else 0


def ksmd_seconds(root: Path = Path("/")) -> float:
    """CPU time of KSM's thread so far; 0 where there is none."""
    for path in (root / "proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == "ksmd":
                return cpu_seconds(int(path.parent.name), root)
        except OSError:
            continue  # it has just ended
    return 0.0
