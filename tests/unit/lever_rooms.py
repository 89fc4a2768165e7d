"""Which files name a lever outside of its own room: ``python -m tests.unit.lever_rooms`` prints them.

A lever's room is each file that bears its name, and what is listed in `ALSO`; and where all levers are declared. A file
names a lever by its word, its rung, its options, its part of a plan, or by an import from its room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from memhint.objects.lever import LeverName

ROOT = Path(__file__).parents[2]
DECLARED = ("memhint/objects/lever.py", "memhint/objects/levers.py", "memhint/objects/ladder.py")
LISTED = {"memhint/agent/build_levers.py", "memhint/planner/levers/__init__.py"}
"""Where each lever has its line."""
ALSO: Mapping[LeverName, str] = {
    LeverName.DEDUP: r"pages/|merging|ksm",
    LeverName.CACHE: r"reclaims?\b",
    LeverName.KHUGEPAGED: r"huge_host",
    LeverName.REPORTING: r"relief/tuning",
    LeverName.SWAP_OUT: r"runners/wake|planner/cold",
    LeverName.MIGRATION: r"runners/ladder|shedder",
}
"""More of a lever's room: where its parts have names of their own."""


def named_by(lever: LeverName) -> dict[str, int]:
    """The files of memhint outside the lever's room that name it, and in how many lines."""
    name = str(lever)
    camel = "".join(part.capitalize() for part in name.split("_"))
    rooms = rf"(/|_){name}(_\w+)?\.py$" + (f"|{ALSO[lever]}" if lever in ALSO else "")
    words = (
        rf"\b(LeverName|Rung)\.{name.upper()}\b",
        rf"\b(conf|relief|planned|plan)\.{name}\b",
        rf"\b(levers|runners|relief|planner|conf)\.{name}(_\w+)? import\b",
        rf"\bagent\.(build_|guest_)?{name}(_metrics)? import\b",
        rf"\b{camel}(Lever|Runner|Settings|Plan)\b",
    )
    found = {}
    for file in sorted((ROOT / "memhint").rglob("*.py")):
        path = str(file.relative_to(ROOT))
        if path in DECLARED or re.search(rooms, path):
            continue
        lines = sum(bool(re.search("|".join(words), line)) for line in file.read_text().splitlines())
        if lines or (path in LISTED and re.search(rf"\b{name}\.build\b", file.read_text())):
            found[path] = max(1, lines)
    return found


def table(levers: Sequence[LeverName] = tuple(LeverName)) -> str:
    """The files of each lever, one a line."""
    rows = []
    for lever in levers:
        files = named_by(lever)
        rows.append(f"{lever}: {len(files.keys() - LISTED)} besides {len(files.keys() & LISTED)} of the lists")
        rows += [f"    {path}: {lines}" for path, lines in files.items()]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
