"""What a command on this host loads: SQLAlchemy would be two fifths of its start."""

from __future__ import annotations

import subprocess
import sys

from tests.functional.processes import ROOT
from tests.unit import builders
from tests.unit.builders import NOW
from tests.unit.cli.conftest import Bench

COMMANDS = (
    ("status",),
    ("domains",),
    ("plan",),
    ("explain",),
    ("dedup", "estimate"),
    ("set", "web-1", "reporting=off", "--no-wait"),
    ("reclaim", "web-1", "--no-wait"),
)
# One process for all: each says whether it is there by its end.
CODE = f"""
import sys
from memhint.cli.main import main
for words in {COMMANDS!r}:
    code = main(["--config-file", sys.argv[1], *words], clock=lambda: {NOW + 4})
    print("ENDED", code, "sqlalchemy" in sys.modules)
"""


def ends(bench: Bench) -> list[str]:
    """Exit code, and whether SQLAlchemy was loaded, after each command."""
    bench.store.reports.save(builders.report(dedup=builders.dedup_estimate()))
    command = [sys.executable, "-c", CODE, str(bench.config)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("ENDED")]


def test_commands_on_a_plain_file_do_without_sqlalchemy(bench: Bench) -> None:
    assert ends(bench) == ["ENDED 0 False"] * len(COMMANDS)


def test_they_do_the_same_with_it_where_the_url_is_not_plain(bench: Bench) -> None:
    bench.config.write_text(bench.config.read_text().rstrip() + "?timeout=5\n")
    assert ends(bench) == ["ENDED 0 True"] * len(COMMANDS)
