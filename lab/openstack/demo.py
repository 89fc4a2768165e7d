"""`make demo-openstack`: the main job on a real OpenStack, told as it happens, with the figures at the end."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import disk_trouble
from lab.errors import LabError
from lab.interrupt import STATUS, say_when_interrupted
from lab.openstack.installed import Installed
from lab.openstack.packing import FLAVOR, SPECS, Packed, Packing, Settings, ready
from lab.openstack.releases import NEWEST
from lab.openstack.stack import Stack
from lab.sizes import MIB
from lab.waiting import wait_for

STORM = 256 * MIB
LOGS = Path("demo-out/logs")
"""Where what was logged is kept when it fails."""

# How long a part takes on two cores that emulate, by its first word.
USUAL = {"packages": "two to five minutes the first time", "image": "20 s", "stack": "two minutes"}


def run(release: str, settings: Settings) -> Packed:
    """The demo.

    :raises LabError: when something that it is to show did not happen
    """
    installed = Installed()
    try:
        with Stack(
            release,
            computes=2,
            memory=settings.memory,
            reserved=settings.reserved,
            swap=settings.swap,
            extras=installed.extras(settings.reserved),
            name=f"demo-{secrets.token_hex(3)}",  # somebody else may be running it too
            progress=_progress,
            logs=LOGS,
        ) as stack:
            installed.attach(stack)
            packing = Packing(stack, installed, settings, _say)
            found = _show(packing, installed)
            if problems(found) and (kept := stack.lab.keep_logs()):
                _say(f"What services, hosts and agents logged is kept in {kept}")
            return found
    finally:
        installed.close()


def _show(packing: Packing, installed: Installed) -> Packed:
    settings = packing.settings
    specs = ", ".join(f"{key}={value}" for key, value in SPECS.items())
    _say(f"\nNova may give away {(settings.memory - settings.reserved) // MIB} MiB of {settings.host}.")
    _say(f"VMs of the flavor {FLAVOR} (1024 MiB; {specs}) through Nova's API, until it refuses one:")
    packing.fill()
    _say(f"\n{packing.result.nominal} run. memhint's agent starts on {settings.host}; controller and filter are there.")
    installed.agent(packing.compute)
    ready(installed, packing.stack, settings.host)
    _say(f"Every guest fills {settings.work // MIB} MiB and frees them again; Nova lets in what then fits:")
    packing.work_and_free()
    packing.pack()
    before = packing.ratio()
    _say(f"\nNow every guest wants {STORM // MIB} MiB at once, and keeps them:")
    packing.storm(STORM)
    wait_for(
        lambda: packing.ratio() < before, 300.0, "the ratio to fall", seen=lambda: f"the ratio {packing.ratio():g}"
    )
    packing.result.ratio_in_storm = packing.ratio()
    _say(f"the ratio falls from {before:g} to {packing.result.ratio_in_storm:g}")
    vm = packing.vms[-1]
    name = vm.show().name
    vm.live_migrate()
    packing.vms.remove(vm)
    _say(f"{name} moves to {vm.compute.name}: one VM less")
    return packing.verify()


def _told(found: Packed) -> str:
    highest = max(ratio for _, ratio in found.ratios)
    return f"""
By nominal accounting {found.nominal} VMs ran, and the next was refused: {found.refused or "it was not tried"}
With memhint {found.running} ran at once; the allocation ratio in Placement went from 1 to {highest:g}, and in the
storm to {found.ratio_in_storm:g}. The host used {found.highest_use // MIB} of {found.budget // MIB} MiB at most, \
{found.swap_used // MIB} MiB of swap; OOM kills: {found.oom_kills}.

Shown: Nova let {found.running} VMs onto a host that took {found.nominal} by nominal accounting, none was killed.
  next: `lab/openstack/lab up` leaves such a stack up, see lab/openstack/README.md; doc/install.md has a real host
"""


def problems(found: Packed) -> list[str]:
    """What is not as it should be: what was seen, what was expected, and where to look."""
    said = []
    if found.running <= found.nominal:
        said.append(
            f"{found.running} VMs ran, and {found.nominal} do by nominal accounting: the ratio in Placement did not"
            f" rise, or Nova refused the next one ({found.refused}); look at memhint-controller.out and"
            f" nova-scheduler.log among the logs in {LOGS}"
        )
    if found.swap_used:
        said.append(
            f"{found.swap_used // MIB} MiB of swap were used, none was expected: more was promised than there is"
        )
    if found.oom_kills:
        said.append(f"{found.oom_kills} OOM kills, none was expected: more was promised than there is")
    return said


def _say(text: str) -> None:
    print(text, flush=True)


def _progress(what: str, text: str, done: int, total: int) -> None:
    usual = USUAL.get(what.split()[0]) if done == 0 else None
    print(f"  {what}: {text} ({done}/{total})" + (f", usually {usual} in all" if usual else ""), flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run it; 0 when more VMs ran than the nominal count, without swap and OOM kills."""
    parser = argparse.ArgumentParser(prog="make demo-openstack", description=__doc__)
    parser.add_argument("--release", default=NEWEST.nova, help="of Nova: 34, 33, 32, 31 (%(default)s)")
    parser.add_argument("--most", type=int, default=Settings().most, help="VMs that it stops at (%(default)s)")
    given = parser.parse_args(words)
    say_when_interrupted()
    try:
        found = run(given.release, Settings(most=given.most))
    except LabError as error:
        print(f"demo-openstack: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"demo-openstack: {disk_trouble.said(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _say("Everything that was started has been ended.")
        return STATUS
    _say(_told(found))
    wrong = problems(found)
    for text in wrong:
        print(f"demo-openstack: not as it should be: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
