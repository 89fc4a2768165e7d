"""Progress of slow steps, for a person to see."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from lab import image


@contextmanager
def shown_progress() -> Iterator[image.Progress]:
    """Bars on a terminal, a line per finished stage elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def say(stage: str, detail: str, done: int, total: int) -> None:
            if done == total:
                print(f"{stage}: {detail}", file=sys.stderr, flush=True)

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
                tasks[stage] = bars.add_task(detail, total=total, stage=stage)
            bars.update(tasks[stage], description=detail, completed=done, total=total)

        yield draw
