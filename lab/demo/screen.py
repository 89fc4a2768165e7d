"""The demo on a terminal: live, or line by line where the output is no terminal."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lab.demo.scenario import Result, Sample, Settings
from memhint.objects.report import DomainReport, Report
from memhint.objects.units import MIB, mib

BAR = 32
EVERY = 5.0  # seconds between two lines about the host, where the output is no terminal


class Screen:
    """Shows phases and reports. A context manager."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self._console = console
        self._settings = settings
        self._live = Live(console=console, refresh_per_second=4, transient=False) if console.is_terminal else None
        self._began = time.monotonic()
        self._phase = ""
        self._last: tuple[Report, Sample] | None = None
        self._said = float("-inf")

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def phase(self, text: str) -> None:
        """A new part begins."""
        self._phase = text
        if self._live is None:
            self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}")
        elif self._last is not None:
            self._live.update(self._drawn(*self._last))

    def sample(self, report: Report, sample: Sample) -> None:
        """The agent has reported."""
        self._last = (report, sample)
        if self._live is not None:
            self._live.update(self._drawn(report, sample))
            return
        if sample.at - self._said < EVERY:
            return
        self._said = sample.at
        total = sum(sample.resident.values())
        self._console.print(
            f"{time.monotonic() - self._began:6.1f} s    resident {mib(total):>5} of {mib(sample.assigned)} MiB,"
            f" available {mib(sample.available):>5}, headroom {mib(sample.headroom):>5} ({report.plan.capacity.bound}),"
            f" VMs: {sample.measured} measured, {sample.nominal} nominal",
            highlight=False,
        )

    def summary(self, result: Result, files: list[str]) -> None:
        """The last word."""
        table = Table(title="What the guests gave back", title_justify="left")
        counted = any(one.discarded is not None for one in result.guests)
        names = ("guest", "assigned", "at rest", "filled", "freed", "returned", "of it", "after", "in")
        for name in (*names, "guest reported", "QEMU discarded", "claim") if counted else names:
            table.add_column(name, justify="left" if name == "guest" else "right")
        for one in result.guests:
            back = one.resident_before_free - one.resident_after_free
            table.add_row(
                one.name,
                mib(one.assigned),
                mib(one.resident_idle),
                mib(one.resident_before_free),
                mib(one.freed),
                mib(back),
                f"{back / one.freed:.0%}" if one.freed > 0 else "-",
                mib(one.resident_after_free),
                f"{one.drained_in:.1f} s",
                *((mib(one.reported), mib(one.discarded), one.claim or "-") if counted else ()),
            )
        self._console.print(table)
        text = (
            "MiB. At rest, filled, after: of the guest's memory, resident on the host. Freed: by the guest's own count"
        )
        if counted:
            text += ". Reported and discarded: totals since the guest's boot and QEMU's start"
        self._console.print(f"{text}\n", style="dim")
        self._console.print(
            f"Nominal accounting places [bold]{result.nominal_vms}[/] VMs of {mib(self._settings.memory)} MiB here."
            f" [bold]{self._settings.guests}[/] ran already, and measured accounting promised places for"
            f" [bold]{result.measured_vms_at_first_promise}[/] at once."
        )
        for turn in result.rounds:
            self._console.print(
                f"  promised {mib(turn.headroom)} MiB, started {len(turn.started)} in {turn.seconds:.1f} s:"
                f" {', '.join(turn.started)}",
                highlight=False,
            )
        self._console.print(
            f"In the end [bold]{result.running_vms}[/] VMs run, {result.answering_vms} of them answer;"
            f" highest use {mib(result.highest_use)} of {mib(self._settings.budget)} MiB,"
            f" swap used at most {mib(result.highest_swap_used)} MiB, OOM kills {result.oom_kills}."
        )
        if result.stopped:
            self._console.print(result.stopped, highlight=False)
        returned = sum(one.resident_before_free - one.resident_after_free for one in result.guests)
        self._console.print(
            f"\n[bold]Shown: {len(result.guests)} guests freed memory, the host got {mib(returned)} MiB of it back, and"
            f" {result.running_vms} VMs run where nominal accounting stops at {result.nominal_vms}.[/]",
            soft_wrap=True,
        )
        self._console.print(f"  pictures and figures: {', '.join(files)}", soft_wrap=True, highlight=False)

    def _drawn(self, report: Report, sample: Sample) -> Group:
        capacity = report.plan.capacity
        head = Table.grid(padding=(0, 3))
        head.add_row(
            f"budget {mib(self._settings.budget)} MiB",
            f"assigned {mib(sample.assigned)} MiB",
            f"resident {mib(sum(sample.resident.values()))} MiB",
            f"available {mib(sample.available)} MiB",
            f"swap {mib(report.observation.memory.swap_used)} MiB",
        )
        head.add_row(
            f"headroom {mib(capacity.headroom)} MiB",
            f"bounded by {capacity.bound}",
            Text(f"{sample.measured} VMs measured", style="bold green"),
            Text(f"{sample.nominal} VMs nominal", style="bold red"),
            "" if report.plan.pressure.admitting else "not admitting",
        )
        table = Table(expand=False)
        for name in ("VM", "resident", "", "free inside", "reclaimable", "demand", "reporting"):
            table.add_column(name, justify="right" if name not in ("VM", "", "reporting") else "left")
        demands = {one.uuid: one for one in report.plan.demands}
        for one in sorted(report.domains, key=lambda one: (len(one.observation.name), one.observation.name)):
            table.add_row(*self._row(one, demands[one.observation.uuid].demand))
        seconds = time.monotonic() - self._began
        return Group(Text(f"{seconds:5.0f} s  {self._phase}", style="bold"), head, table)

    def _row(self, one: DomainReport, demand: int) -> tuple[RenderableType, ...]:
        seen = one.observation
        resident = seen.resident or 0
        bar = ProgressBar(total=seen.facts.memory / MIB, completed=resident / MIB, width=BAR)
        free = mib(seen.guest.free if seen.guest else None)
        return (
            seen.name,
            mib(resident),
            bar,
            free,
            mib(one.reclaimable[0].at_most),
            mib(demand),
            str(one.levers[0].observed),
        )
