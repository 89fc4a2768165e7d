"""Carrying out moves of memory between nodes: on several threads, at a bounded pace, while no VM is worse off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Protocol

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.move_pages import Moved
from memhint.levers.failed import failed
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.tiering import Move, MoveReason

CHUNK = 32 * MIB  # of one range, which one thread moves before anybody looks again


class Mover(Protocol):
    """One process's pages."""

    def move(self, start: int, end: int, node: int) -> Moved:
        """Move a range."""


@dataclass(slots=True)
class Done:
    """What became of one VM's moves."""

    moved: dict[MoveReason, int] = field(default_factory=dict)  # bytes
    left: Moved = field(default_factory=Moved)  # its ``failed``: what stayed, by errno
    ended: Verdict | None = None  # why not all of them were made

    @property
    def bytes(self) -> int:
        """All that was moved."""
        return sum(self.moved.values())

    def __str__(self) -> str:
        words = {MoveReason.PROMOTE: "to fast nodes", MoveReason.DEMOTE: "to slow nodes", MoveReason.GATHER: "gathered"}
        text = ", ".join(f"{mib(self.moved[why])} MiB {words[why]}" for why in words if self.moved.get(why))
        text = text or "nothing was moved"
        return text + (f"; stayed: {why}" if (why := self.left.why()) else "")


class Carrier:
    """Moves what was chosen."""

    def __init__(
        self,
        room: Callable[[], Mapping[int, int]],
        trouble: Callable[[str], Verdict | None],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        *,
        rate: int,
        threads: int,
        patience: float,
        stop: Callable[[], bool],
    ) -> None:
        """:param room: bytes that each node with memory may still take now; raises KernelInterfaceError
        :param trouble: why nothing, or nothing more, of a VM is to be moved now; raises KernelInterfaceError
        :param rate: bytes a second
        """
        self._room = room
        self._trouble = trouble
        self._clock = clock
        self._sleep = sleep
        self._rate = rate
        self._threads = threads
        self._patience = patience
        self._stop = stop

    def carry(self, moves: Sequence[Move], held: Callable[[str], AbstractContextManager[Mover]]) -> dict[str, Done]:
        """In this order: what makes room for a promotion is done before it.

        :param held: a VM's process, held while one of its ranges is moved and no longer, for there may be many VMs;
            raises KernelInterfaceError
        """
        done = {move.uuid: Done() for move in moves}
        began, asked = self._clock(), 0
        with ThreadPoolExecutor(self._threads, "tiering") as pool:
            for _, group in groupby(moves, key=lambda move: (move.why, move.node)):
                for wave in _waves([part for move in group for part in _parts(move)], self._threads):
                    over = self._stop() or self._clock() - began >= self._patience
                    some: list[Move] = []
                    for part in wave:  # of one group, so all go to one node
                        if self._may(part, done[part.uuid], sum(one.bytes for one in some), over=over):
                            some.append(part)
                    results = pool.map(partial(_one, held), some)
                    for part, result in zip(some, results, strict=True):
                        _note(done[part.uuid], part, result)
                    asked += sum(part.bytes for part in some)
                    if some:
                        self._sleep(max(0.0, began + asked / self._rate - self._clock()))
        return done

    def _may(self, part: Move, done: Done, ahead: int, *, over: bool) -> bool:
        """:param ahead: bytes that go to the same node at the same time"""
        if done.ended is None:
            try:
                done.ended = self._against(part, ahead, over=over)
            except KernelInterfaceError as error:
                done.ended = failed(error)
        return done.ended is None

    def _against(self, part: Move, ahead: int, *, over: bool) -> Verdict | None:
        if over:
            return Verdict(Answer.PENDING, Reason.TIME_UP, "told to stop, or the time of a pass is over")
        room = self._room()
        if part.node not in room:
            return _gone(part.node)
        left = room[part.node] - ahead
        if left < part.bytes:
            detail = f"node {part.node} may take {mib(max(0, left))} MiB more"
            return Verdict(Answer.REFUSED, Reason.NODE_FULL, detail)
        return self._trouble(part.uuid)


def _one(held: Callable[[str], AbstractContextManager[Mover]], part: Move) -> Moved | KernelInterfaceError:
    try:
        with held(part.uuid) as mover:
            return mover.move(part.start, part.end, part.node)
    except KernelInterfaceError as error:
        return error


def _note(done: Done, part: Move, result: Moved | KernelInterfaceError) -> None:
    if isinstance(result, KernelInterfaceError):
        done.ended = done.ended or failed(result)
        return
    done.moved[part.why] = done.moved.get(part.why, 0) + result.moved
    done.left.add(result)
    if result.no_node:
        done.ended = done.ended or _gone(part.node)
    elif result.full:
        detail = f"the kernel found no memory on node {part.node}"
        done.ended = done.ended or Verdict(Answer.REFUSED, Reason.NODE_FULL, detail)


def _gone(node: int) -> Verdict:
    return Verdict(Answer.REFUSED, Reason.NODE_GONE, f"node {node} has no memory any more: it is offline")


def _parts(move: Move) -> Iterator[Move]:
    """A move in chunks."""
    each = move.bytes / (move.end - move.start)
    for start in range(move.start, move.end, CHUNK):
        end = min(start + CHUNK, move.end)
        yield Move(move.uuid, start, end, int((end - start) * each), move.node, move.why)


def _waves(parts: Sequence[Move], count: int) -> Iterator[Sequence[Move]]:
    for place in range(0, len(parts), count):
        yield parts[place : place + count]
