"""`make demo`: the main job on real guests, live; ends with a summary, a plot and a JSON report."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from lab import Lab
from lab.agent import SHORT_HORIZON, AgentProcess
from lab.demo.plot import plot
from lab.demo.scenario import Result, Scenario, Settings
from lab.demo.screen import Screen
from lab.errors import LabError
from lab.progress import shown_progress
from lab.sizes import parse_size

EXAMPLES = """\
examples:
  make demo
  .venv/bin/python -m lab.demo --guests 8 --budget 7GiB --out /tmp/demo

exit codes: 0 the VMs of the measured count ran without swap and OOM kills; 1 something of that did not happen
"""


def main(argv: list[str] | None = None) -> int:
    """Run the demo; its exit code."""
    options = _parser().parse_args(argv)
    settings = Settings(
        guests=options.guests, memory=options.memory, budget=options.budget, swap=options.swap, most=options.most
    )
    console = Console(width=None if sys.stdout.isatty() else 160)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    try:
        result = _run(settings, console, options.kernel)
    except LabError as error:
        console.print(f"[red]The demo failed:[/] {error}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted; everything that was started has been ended.")
        return 130
    files = [*plot(result, settings, out), _write(result, settings, out)]
    screen = Screen(console, settings)
    screen.summary(result, [str(name) for name in files])
    problems = _problems(result, settings)
    for problem in problems:
        console.print(f"[red]Not as it should be:[/] {problem}")
    return 1 if problems else 0


def _run(settings: Settings, console: Console, kernel: str) -> Result:
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
                    kernel=kernel,
                    progress=progress,
                )
            )
        host = lab.hosts[0]
        console.print(f"{settings.guests} guests are up after {time.monotonic() - began:.1f} s. Look at them with")
        console.print(f"  virsh -c '{host.uri}' list", highlight=False, soft_wrap=True)
        with AgentProcess(host) as agent, Screen(console, settings) as screen:
            return Scenario(host, agent, settings, screen).run()


def _write(result: Result, settings: Settings, out: Path) -> Path:
    path = out / "demo.json"
    document = {"settings": asdict(settings), "horizon": SHORT_HORIZON, "result": asdict(result)}
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
    parser.add_argument("--out", default="demo-out", help="where plot and report go (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
