"""`make demo`: the main job on real guests, live; ends with a summary, a plot and a JSON report."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from lab import Lab, disk_trouble, packages, patched
from lab.agent import SHORT_HORIZON, AgentProcess
from lab.api import ApiProcess
from lab.demo.plot import plot
from lab.demo.scenario import Result, Scenario, Settings
from lab.demo.screen import Screen
from lab.errors import LabError, UnknownKernel
from lab.interrupt import STATUS, say_when_interrupted
from lab.progress import shown_progress
from lab.sizes import parse_size

EXAMPLES = """\
examples:
  make demo                    patched kernel, guest agent and QEMU as far as they are built
  make demo PATCHED=1          builds them first, half an hour the first time; PATCHED=0 uses none
  make demo KEEP=1             leaves host, guests and dashboard up until ctrl-c
  .venv/bin/python -m lab.demo --guests 8 --budget 7GiB --out /tmp/demo

exit codes: 0 the VMs of the measured count ran without swap and OOM kills; 1 something of that did not happen
"""

NEXT = "`make demo KEEP=1` leaves it and its dashboard up; `make demo-openstack` shows the same on a real OpenStack"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; its exit code."""
    options = _parser().parse_args(argv)
    say_when_interrupted()
    settings = Settings(
        guests=options.guests, memory=options.memory, budget=options.budget, swap=options.swap, most=options.most
    )
    console = Console(width=None if sys.stdout.isatty() else 160)
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        pieces = _pieces(options)
        _say(pieces, console)
        return _run(settings, console, pieces, out, keep=options.keep)
    except LabError as error:
        console.print(f"[red]The demo failed:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 1
    except OSError as error:
        console.print(f"[red]The demo failed:[/] {escape(disk_trouble.said(error))}", highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Everything that was started has been ended.")
        return STATUS


def _conclude(result: Result, settings: Settings, console: Console, pieces: patched.Pieces, out: Path) -> int:
    """Show and keep what came of it; the exit code."""
    files = [*plot(result, settings, out), _write(result, settings, pieces, out)]
    Screen(console, settings).summary(result, [str(name) for name in files])
    problems = _problems(result, settings)
    for problem in problems:
        console.print(f"[red]Not as it should be:[/] {problem}", soft_wrap=True)
    if not problems:
        console.print(f"  next: {NEXT}", soft_wrap=True, highlight=False)
    return 1 if problems else 0


def _pieces(options: argparse.Namespace) -> patched.Pieces:
    """What the guests stand on: patched where it is built or asked for."""
    if options.kernel not in packages.KERNEL_SERIES:
        raise UnknownKernel(f"kernel {options.kernel!r} is not one of {', '.join(packages.KERNEL_SERIES)}")
    if options.patched:
        return patched.build_pieces(options.kernel)
    return patched.Pieces(options.kernel, "stock", "stock") if options.stock else patched.pieces_built(options.kernel)


def _say(pieces: patched.Pieces, console: Console) -> None:
    own = ", ".join(
        {"kernel": "guest kernel", "agent": "guest agent", "emulator": "QEMU"}[one] for one in pieces.patched
    )
    rest = "" if len(pieces.patched) == 3 else "; make demo PATCHED=1 builds what is not"
    console.print(f"Patched pieces in use: [bold]{own or 'none'}[/]{rest}.", highlight=False)


def _run(settings: Settings, console: Console, pieces: patched.Pieces, out: Path, *, keep: bool) -> int:
    console.print(
        f"A host of {settings.budget >> 20} MiB with {settings.guests} guests of {settings.memory >> 20} MiB:"
        f" {settings.guests * settings.memory >> 20} MiB assigned, {settings.swap >> 20} MiB of disk swap behind it."
    )
    console.print("The lab's horizon is short, so that minutes stand for hours:", style="dim")
    for group, values in SHORT_HORIZON.items():
        console.print(f"  [{group}] " + ", ".join(f"{k}={v}" for k, v in values.items()), style="dim", markup=False)
    began = time.monotonic()
    with ExitStack() as stack:
        with shown_progress() as progress:
            lab = stack.enter_context(
                Lab(
                    hosts=1,
                    guests=settings.guests,
                    memory=settings.memory,
                    budget=settings.budget,
                    swap=settings.swap,
                    kernel=pieces.kernel,
                    agent=pieces.agent,
                    emulator=pieces.emulator,
                    progress=progress,
                    logs=out / "logs",
                )
            )
        host = lab.hosts[0]
        console.print(
            f"{settings.guests} guests are up after {time.monotonic() - began:.1f} s. Look at them, as root, with"
        )
        console.print(f"  virsh -c '{host.uri}' list", highlight=False, soft_wrap=True)
        # QEMU's counters are read through its monitor, which the operator has to allow.
        allowed = {"virt": {"allow_monitor_commands": True}} if pieces.emulator == "memhint" else None
        with AgentProcess(host, allowed) as agent, ApiProcess(agent) as api:
            console.print(f"The dashboard: {api.url}/dashboard/", highlight=False, soft_wrap=True)
            with Screen(console, settings) as screen:
                result = Scenario(host, agent, settings, screen).run()
            code = _conclude(result, settings, console, pieces, out)
            if code and (kept := lab.keep_logs()):
                console.print(f"What host, guests and agent logged is kept in {kept}", soft_wrap=True, highlight=False)
            if keep:
                _keep(api, console)
            return code


def _keep(api: ApiProcess, console: Console) -> None:
    """Leave everything up until somebody ends it."""
    ended = threading.Event()
    # Said in so many words: whoever is started in the background of a script has SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    console.print(
        f"Host, guests and dashboard stay until ctrl-c: {api.url}/dashboard/", highlight=False, soft_wrap=True
    )
    while not ended.wait(1):
        pass


def _write(result: Result, settings: Settings, pieces: patched.Pieces, out: Path) -> Path:
    path = out / "demo.json"
    document = {
        "settings": asdict(settings),
        "pieces": asdict(pieces),
        "horizon": SHORT_HORIZON,
        "result": asdict(result),
    }
    path.write_text(json.dumps(document, indent=1, default=dict) + "\n")
    return path


def _problems(result: Result, settings: Settings) -> list[str]:
    expected = settings.guests + sum(len(one.started) for one in result.rounds)
    found = []
    if result.running_vms != expected or result.answering_vms != expected:
        found.append(f"{expected} VMs were started, {result.running_vms} run and {result.answering_vms} answer")
    if result.running_vms < result.measured_vms_at_first_promise:
        found.append(f"{result.measured_vms_at_first_promise} VMs were promised and {result.running_vms} run")
    if result.measured_vms_at_first_promise <= result.nominal_vms:
        found.append("measured accounting found no more places than nominal")
    found += [f"{one.name} claims more than the host discarded" for one in result.guests if one.claim == "overclaims"]
    if result.highest_swap_used:
        found.append(f"{result.highest_swap_used >> 20} MiB of swap were used")
    if result.oom_kills:
        found.append(f"{result.oom_kills} OOM kills")
    return found


def _parser() -> argparse.ArgumentParser:
    shipped = Settings()
    parser = argparse.ArgumentParser(
        prog="lab.demo",
        description="Real guests give memory back, and more VMs run on it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--guests", type=int, default=shipped.guests, help="VMs at the begin (%(default)s)")
    parser.add_argument("--most", type=int, default=shipped.most, help="VMs at which it stops (%(default)s)")
    parser.add_argument("--memory", type=parse_size, default=shipped.memory, help="of each VM (1GiB)")
    parser.add_argument("--budget", type=parse_size, default=shipped.budget, help="the host's memory (5GiB)")
    parser.add_argument("--swap", type=parse_size, default=shipped.swap, help="disk swap behind it (12GiB)")
    parser.add_argument("--kernel", default="6.12", help="the guests' kernel: 6.12 or 6.1 (%(default)s)")
    pieces = parser.add_mutually_exclusive_group()
    pieces.add_argument(
        "--patched", action="store_true", help="build the patched kernel, guest agent and QEMU unless they are there"
    )
    pieces.add_argument("--stock", action="store_true", help="use no patched piece, also where they are built")
    parser.add_argument("--keep", action="store_true", help="leave everything up at the end, until ctrl-c")
    parser.add_argument("--out", default="demo-out", help="where plot and report go (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
