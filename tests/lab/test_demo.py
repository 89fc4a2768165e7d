"""The demo, as `make demo` runs it: its report tells the whole main job."""

import json
import subprocess
import sys
from pathlib import Path

from lab.sizes import MIB


def test_the_main_job_on_real_guests(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.demo", "--out", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    report = json.loads((tmp_path / "demo.json").read_text())
    settings, result = report["settings"], report["result"]
    assert settings["guests"] >= 6
    assert settings["guests"] * settings["memory"] > settings["budget"]
    for guest in result["guests"]:
        assert guest["resident_before_free"] - guest["resident_after_free"] >= 0.9 * settings["work"]
    assert result["measured_vms_at_first_promise"] > result["nominal_vms"]
    assert result["running_vms"] == result["answering_vms"] >= result["measured_vms_at_first_promise"]
    assert result["highest_swap_used"] == 0
    assert result["oom_kills"] == 0
    assert result["highest_use"] <= settings["budget"]
    for guest in result["guests"]:
        if report["pieces"]["emulator"] == "stock":
            assert guest["discarded"] is None
        else:
            assert guest["discarded"] >= settings["work"] * 0.9
            assert guest["claim"] in ("pending", "agrees")
    for name in ("demo.png", "demo.svg"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert 0 < result["rounds"][0]["headroom"] < settings["budget"]
    assert settings["work"] >= 512 * MIB
