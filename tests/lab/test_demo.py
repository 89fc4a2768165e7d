"""The demo, as `make demo` runs it: its report tells the whole main job."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

from lab.sizes import MIB
from lab.waiting import wait_for

_KEPT = re.compile(r"stay until ctrl-c: (\S+)\s")  # with its end: the line may be half written yet


def _kept(log: Path) -> re.Match[str] | None:
    """The line that says where the dashboard is. The log may end within a letter just now."""
    return _KEPT.search(log.read_text(errors="replace"))


def test_the_main_job_on_real_guests_and_its_dashboard(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as said:
        demo = subprocess.Popen(
            [sys.executable, "-m", "lab.demo", "--keep", "--out", str(tmp_path)],
            cwd=Path(__file__).parents[2],
            stdout=said,
            stderr=said,
        )
    try:
        wait_for(lambda: _kept(log) or demo.poll() is not None, 900, "the demo to end")
        kept = _kept(log)
        assert kept, log.read_text()[-4000:]
        with urlopen(kept[1], timeout=30) as page:
            assert b"memhint" in page.read()
        with urlopen(urljoin(kept[1], "../v1/domains"), timeout=30) as listed:
            domains = json.load(listed)["domains"]
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            code = demo.wait(120)
        except subprocess.TimeoutExpired:
            demo.kill()  # the lab's keeper ends the rest
            raise
    assert code == 0, log.read_text()[-4000:]
    report = json.loads((tmp_path / "demo.json").read_text())
    settings, result = report["settings"], report["result"]
    assert settings["guests"] >= 6
    assert settings["guests"] * settings["memory"] > settings["budget"]
    assert len(domains) == result["running_vms"]
    for guest in result["guests"]:
        # a guest's CPUs keep some of what was freed on lists of their own, up to an eighth of its memory
        assert guest["freed"] >= settings["work"] - guest["assigned"] / 8
        assert guest["resident_before_free"] - guest["resident_idle"] >= 0.9 * settings["work"]
        assert guest["resident_before_free"] - guest["resident_after_free"] >= 0.5 * guest["freed"]
    assert result["measured_vms_at_first_promise"] > result["nominal_vms"]
    assert result["running_vms"] == result["answering_vms"] >= result["measured_vms_at_first_promise"]
    assert result["highest_swap_used"] == 0
    assert result["oom_kills"] == 0
    assert result["highest_use"] <= settings["budget"]
    for guest in result["guests"]:
        if report["pieces"]["emulator"] == "stock":
            assert guest["discarded"] is None
        else:
            returned = guest["resident_before_free"] - guest["resident_after_free"]
            assert guest["discarded"] >= 0.9 * returned  # what was reported before counts, too
            assert guest["claim"] in ("pending", "agrees")
    for name in ("demo.png", "demo.svg"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert 0 < result["rounds"][0]["headroom"] < settings["budget"]
    assert settings["work"] >= 512 * MIB
