"""Progress of slow steps, for a person to see."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from lab import image

# Seconds that a stage takes on two cores that emulate, by the first word of its name.
USUAL = {"image": 20, "swap": 1, "hosts": 4, "guests": 30}


def usual(stage: str) -> str:
    """How long a stage usually takes, where that is known."""
    seconds = USUAL.get(stage.split()[0])
    return f" (usually {seconds} s)" if seconds and seconds > 1 else ""


@contextmanager
def shown_progress() -> Iterator[image.Progress]:
    """Bars on a terminal, two lines per stage elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        began: dict[str, float] = {}

        def say(stage: str, detail: str, done: int, total: int) -> None:
            if stage not in began:
                began[stage] = time.monotonic()
                if done < total:
                    print(f"{stage}: {detail}{usual(stage)}", file=sys.stderr, flush=True)
            if done == total:
                print(f"{stage}: {detail} after {time.monotonic() - began[stage]:.0f} s", file=sys.stderr, flush=True)

        yield say
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[stage]:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console) as bars:

        def draw(stage: str, detail: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(detail, total=total, stage=stage + usual(stage))
            bars.update(tasks[stage], description=detail, completed=done, total=total)

        yield draw
