"""Every guest of a packed host wants all of its memory at once: as packed by memhint, and at a fixed ratio of 1.5.

python -m bench.storm [--json FILE] [--arm NAME]...
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab import Lab
from lab.agent import AgentProcess
from lab.host import Host
from lab.packing import Storm, pack, storm
from memhint.objects.units import GIB, MIB, mib

BUDGET = 2 * GIB
SWAP = 4 * GIB
GUEST = 384 * MIB
RATIO = 1.5
DEADLINE = 150.0  # seconds after which a guest counts as not coming back
SETTINGS = {"ladder": {"climb": 2, "cache_least_mib": 16}, "planner": {"slot_mib": GUEST // MIB}}


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--arm", action="append", choices=ARMS, help="only this one; may be given more than once")
    options = parser.parse_args(argv)
    figures = []
    print(f"host of {mib(BUDGET)} MiB, VMs of {mib(GUEST)} MiB")
    for name in options.arm or ARMS:
        figures.append(_arm(name))
        print(_line(figures[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _memhint(host: Host) -> list[Storm]:
    host.add_guests([_vm(number) for number in range(3)])
    with AgentProcess(host, SETTINGS) as agent:
        pack(agent, host, _vm)
        return storm(host.guests, DEADLINE)


def _fixed(host: Host) -> list[Storm]:
    """As a scheduler with a fixed ratio fills it: by assigned memory alone."""
    host.add_guests([_vm(number) for number in range(int(RATIO * BUDGET) // GUEST)])
    return storm(host.guests, DEADLINE)


_HOW: dict[str, tuple[Callable[[Host], list[Storm]], int]] = {
    "memhint": (_memhint, SWAP),
    "memhint-no-swap": (_memhint, 0),
    "static": (_fixed, SWAP),
    "static-no-swap": (_fixed, 0),
}
ARMS = tuple(_HOW)


def _vm(number: int) -> dict[str, Any]:
    return {"name": f"vm{number}", "memory": GUEST, "extra_specs": {"memhint:guest_actions": "allow"}}


def _arm(name: str) -> dict[str, Any]:
    how, swap = _HOW[name]
    with Lab(guests=0, budget=BUDGET, swap=swap, kernel="6.12-memhint", agent="memhint") as lab:
        host = lab.hosts[0]
        outcome = how(host)
        return {
            "arm": name,
            "swap": swap,
            "vms": len(outcome),
            "wanted": sum(one.touched for one in outcome),
            "oom_kills": host.oom_kills(),
            "lost": sum(one.answered is None for one in outcome),
            "slowest": max((one.answered for one in outcome if one.answered is not None), default=None),
            "swap_used": host.swap_used(),
            "guests": [asdict(one) for one in outcome],
        }


def _line(found: dict[str, Any]) -> str:
    slowest = "nobody answers" if found["slowest"] is None else f"the slowest answers after {found['slowest']:.0f} s"
    return (
        f"{found['arm']}: {found['vms']} VMs want {mib(found['wanted'])} MiB: {found['oom_kills']} OOM kills, "
        f"{found['lost']} lost, {slowest}, {mib(found['swap_used'])} MiB in swap"
    )


if __name__ == "__main__":
    sys.exit(main())
