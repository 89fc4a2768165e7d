"""Has the kernel split huge pages of which levers gave back a part.

A page that is dropped of a huge one is not the process's any more, and not the host's either: the kernel keeps the
huge page whole until it is short of memory, and splits it then, beside swapping. Resident memory falls, and what the
host has to spare does not rise. A guest that takes such pages again gets others beside them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from memhint.agent.runners.one_pass import OnePass
from memhint.agent.runners.runner import LeverRunner, RunnerContext
from memhint.agent.view import HostSnapshot
from memhint.kernel.clearings import Clearings
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.huge_blocks import Block, GuestBlocks
from memhint.kernel.process import pid_of
from memhint.planner.pieces import taken_from
from memhint.planner.plan import Planned

LOG = logging.getLogger(__name__)
SETTLE = 10.0  # seconds for which a VM rests before it is looked at: most of what it gives back has come by then
LONGEST = 3600.0  # seconds between two looks at a VM that goes on resting, at most; each wait is twice the one before
AT_ONCE = 512  # blocks of one pass, some tenths of a second of CPU; the next pass goes on behind them


class PartBlocks(Protocol):
    """Blocks of a guest's memory that no huge page backs as a whole."""

    def small(self) -> Iterator[Block]:
        """These, by address."""

    def split(self, block: Block) -> None:
        """Split the huge page of which a block maps a part."""


Open = Callable[[str], AbstractContextManager[PartBlocks]]
"""The blocks of a QEMU process, by its instance."""


@dataclass(slots=True)
class _Resting:
    """A VM from which pieces are taken while it rests."""

    due: float
    wait: float = SETTLE
    behind: int = 0  # address up to which the pass under way has come


class SplitRunner(LeverRunner):
    """Looks at each VM that is idle and from which something takes pieces, soon after it came to rest, then seldomer.

    Nothing is left to undo: whether its huge pages are made again is for the lever `thp` to say.
    """

    def __init__(
        self,
        opened: Open,
        clearings: Clearings,
        *,
        enabled: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param clearings: told of each VM of which something was split; of the same clock"""
        self._opened = opened
        self._clearings = clearings
        self._enabled = enabled
        self._clock = clock
        self._pass = OnePass("split")
        self._ended = False
        self._resting: dict[str, _Resting] = {}  # by instance; the thread of a pass changes what is in them only

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Begin a pass over those whose turn it is."""
        thp = view.seen.host.thp
        if not view.seen.listed or not self._enabled or thp is None or thp.enabled == "never":
            return
        if self._ended or self._pass.under_way:
            return
        now = self._clock()
        pieces = taken_from(planned.plan.relief, planned.of_host)
        self._resting = {
            one.process.instance: self._resting.get(one.process.instance, _Resting(now + SETTLE))
            for one in view.known
            if one.uuid in pieces and one.process is not None and one.process.instance in planned.state.idle
        }
        due = {instance: one for instance, one in self._resting.items() if one.due <= now}
        if due:
            self._pass.begin(lambda: self._run(due))

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way."""
        return self._pass.settle(timeout)

    def close(self) -> None:
        """Begin nothing more; a pass under way ends with its block."""
        self._ended = True

    def _run(self, due: Mapping[str, _Resting]) -> None:
        for instance, one in due.items():
            try:
                done = self._split(instance, one)
                LOG.debug("process %s: %d blocks of 2 MiB are in small pages now", instance, done)
            except KernelInterfaceError as error:
                LOG.debug("process %s keeps its huge pages: %s", instance, error)
                one.behind = 0
            except Exception:  # a defect here must show, and costs no more than memory that is late
                LOG.exception("splitting huge pages failed")
                one.behind = 0
            if not one.behind:
                one.wait = min(2 * one.wait, LONGEST)
            one.due = self._clock() + (SETTLE if one.behind else one.wait)

    def _split(self, instance: str, one: _Resting) -> int:
        """Split what of a VM is held in part, as far as one pass goes. Blocks."""
        done = 0
        with self._opened(instance) as blocks:
            for block in blocks.small():
                if block.start < one.behind or not block.absent:
                    continue
                if self._ended or done == AT_ONCE:
                    one.behind = block.start
                    return done
                blocks.split(block)
                self._clearings.note(pid_of(instance), self._clock())  # it looks untouched, also where it was not
                done += 1
        one.behind = 0
        return done


def build(context: RunnerContext) -> SplitRunner:
    """The runner of a host."""
    enabled = context.conf.ladder.split_partly_free and not context.dry_run
    return SplitRunner(lambda instance: GuestBlocks(context.root, instance), context.clearings, enabled=enabled)
