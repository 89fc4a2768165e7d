"""What the levers do on real guests with stock kernels: how far resident memory falls, and what merging saves.

python -m bench.levers [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.objects.units import GIB, MIB, mib

WORK = 900 * MIB
SAME = 192 * MIB
WINDOW = 30.0  # seconds that resident memory gets to fall
FAST_KSM: dict[str, dict[str, Any]] = {
    "virt": {"allow_monitor_commands": True},
    "dedup": {"advisor": "none", "pages_to_scan": 20000, "sleep_millisecs": 10},
}


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    figures = {"dedup": _dedup(), "reporting": [_reporting(kernel) for kernel in ("6.1", "6.12")]}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _reporting(kernel: str) -> dict[str, Any]:
    """One guest that fills and frees, with reporting on, off and on again."""
    with Lab(guests=1, memory=1280 * MIB, budget=4 * GIB, kernel=kernel) as lab, AgentProcess(lab.hosts[0]) as agent:
        guest = lab.hosts[0].guests[0]
        on = _fall(guest)
        agent.memhint("set", guest.name, "guest_actions=allow", "guest_unbind=allow")
        agent.memhint("set", guest.name, "reporting=off")
        off = _fall(guest)
        before = guest.resident()
        agent.memhint("set", guest.name, "reporting=on")
        if kernel == "6.1":
            guest.alloc("spark", 64 * MIB)
            guest.free("spark")
        again = _watch(guest, before)
    row: dict[str, Any] = {"kernel": kernel, "on": on, "off": off, "on_again": again}
    for name in ("on", "off", "on_again"):
        found = row[name]
        spent = (
            "" if found["seconds_to_90_percent"] is None else f", 90 % of it in {found['seconds_to_90_percent']:.1f} s"
        )
        print(f"{kernel}, {name.replace('_', ' ')}: resident falls by {mib(found['bytes'])} MiB of {mib(WORK)}{spent}")
    return row


def _fall(guest: Guest) -> dict[str, Any]:
    guest.alloc("work", WORK, content="random")
    before = guest.resident()
    guest.free("work")
    return _watch(guest, before)


def _watch(guest: Guest, before: int) -> dict[str, Any]:
    """How far resident memory falls within the window, and when it had come 90 % of the way."""
    began, series = time.monotonic(), []
    while (at := time.monotonic() - began) < WINDOW:
        series.append((at, before - guest.resident()))
        time.sleep(0.1)
    fallen = max(fall for _, fall in series)
    reached = next((at for at, fall in series if fall >= 0.9 * fallen), None)
    return {"bytes": fallen, "seconds_to_90_percent": reached if fallen > WORK / 2 else None}


def _dedup() -> dict[str, Any]:
    """Two guests of one project with the same data: PSS apart, merged, apart again."""
    with Lab(guests=0, budget=4 * GIB) as lab:
        host = lab.hosts[0]
        guests = host.add_guests([{"name": name, "memory": 384 * MIB, "project": "p1"} for name in "ab"])
        for guest in guests:
            guest.alloc("data", SAME, content="seed:7")
        with AgentProcess(host, FAST_KSM) as agent:
            apart = _pss(guests[0])
            began = time.monotonic()
            for guest in guests:
                agent.memhint("set", guest.name, "dedup=on", "--no-wait")
            wait_for(lambda: _merged(guests[0]) >= 0.9 * SAME, 120.0, "the pages to merge", interval=0.5)
            spent, merged = time.monotonic() - began, _pss(guests[0])
            for guest in guests:
                agent.memhint("set", guest.name, "dedup=off", "--no-wait")
            wait_for(lambda: _merged(guests[0]) <= 8 * MIB, 60.0, "the pages to separate", interval=0.5)
            again = _pss(guests[0])
    print(
        f"dedup of {mib(SAME)} MiB of equal data in two guests: PSS of one {mib(apart)} MiB apart,"
        f" {mib(merged)} merged after {spent:.0f} s, {mib(again)} apart again"
    )
    return {"apart": apart, "merged": merged, "seconds": spent, "apart_again": again}


def _merged(guest: Guest) -> int:
    return process_memory(KernelRoot(), guest.pid()).ksm_merging or 0


def _pss(guest: Guest) -> int:
    return deep_memory(KernelRoot(), guest.pid(), 0.0).pss


if __name__ == "__main__":
    sys.exit(main())
