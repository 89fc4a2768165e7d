"""The command as a process: policies beside each other in processes of their own, and nothing of it elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.functional.processes import ROOT


def test_a_small_fleet_under_every_policy(tmp_path: Path) -> None:
    drawn = tmp_path / "out.png"
    # The first process of a machine that draws looks for its fonts, and says so on stderr where that takes long.
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True, capture_output=True)
    command = [sys.executable, "-m", "memhint.cli.main", "simulate", "--hosts", "4", "--days", "1", "--processes", "2"]
    result = subprocess.run(
        [*command, "--plot", str(drawn), "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    found = {row["policy"]: row for row in json.loads(result.stdout)}
    assert list(found) == ["nominal", "static:1.5", "peak", "peak:24", "quantile", "n_sigma", "oracle"]
    assert found["nominal"]["assigned_mean"] < found["peak"]["assigned_mean"] < found["oracle"]["assigned_mean"]
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_a_bad_trace_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "use.csv"
    path.write_text("vm,time_s,assigned_mib,demand_mib\na,0,1024,2048\n")
    command = [sys.executable, "-m", "memhint.cli.main", "simulate", "--trace", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == f"{path}:2: more is used (2048 MiB) than there is (1024 MiB)\n"
