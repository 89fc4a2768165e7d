"""The host's KSM as a bench uses it: set and put back, and the CPU time of its one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.cpu import exact_seconds
from bench.harness.precondition import require
from lab.ksm import FOLDER, write, written_down
from memhint.kernel.root import KernelRoot
from memhint.levers.dedup import SLOW, DedupSettings
from memhint.levers.ksm_flag import KsmFlag

FLAT_OUT: Mapping[str, str] = {
    "use_zero_pages": "1",
    "advisor_mode": "none",
    "pages_to_scan": "5000",
    "sleep_millisecs": "20",
}
"""memhint's fast pace: about 38 % of a core at 2.5 µs for a page."""

NO_PACE = DedupSettings(
    allow_monitor_commands=True,
    advisor="none",
    target_scan_time=None,
    max_cpu=None,
    pages_to_scan=1_000_000,
    sleep_millisecs=0,
)
"""memhint says who merges, and KSM scans as fast as it can."""


@contextmanager
def kept(root: Path = Path("/")) -> Iterator[None]:
    """What is merged in the body is separated after it, and every setting that can be written is as it was."""
    with written_down(root) as before:
        try:
            yield
        finally:
            write(before, root)
            KsmFlag(KernelRoot(root), "").take_down()  # a lever that ends here undoes nothing


@contextmanager
def scanning(settings: Mapping[str, str] = FLAT_OUT, root: Path = Path("/")) -> Iterator[None]:
    """KSM runs so in the body. Raises PreconditionFailed where this kernel has none, or not what is to be set."""
    folder = root / FOLDER
    missing = [name for name in ("run", *settings) if not (folder / name).exists()]
    require(not missing, f"KSM of this kernel has no {', '.join(missing)}: it takes Linux 6.8 with CONFIG_KSM")
    with kept(root):
        for name, value in settings.items():
            (folder / name).write_text(value)
        (folder / "run").write_text("1")
        yield


def running(root: Path = Path("/")) -> bool:
    """Whether it scans now, at more than the slow pace at which memhint lets it rest."""
    folder = root / FOLDER
    if not (folder / "run").exists() or (folder / "run").read_text().strip() != "1":
        return False
    return tuple(int((folder / name).read_text()) for name in ("pages_to_scan", "sleep_millisecs")) != SLOW


def full_scans(root: Path = Path("/")) -> int:
    """How often it has been over everything so far; 0 where this kernel has none."""
    path = root / FOLDER / "full_scans"
    return int(path.read_text()) if path.exists() else 0


def ksmd_seconds(root: Path = Path("/")) -> float:
    """CPU time of KSM's thread so far; 0 where there is none."""
    for path in (root / "proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == "ksmd":
                return exact_seconds(path.parent)
        except OSError:
            continue  # it has just ended
    return 0.0
