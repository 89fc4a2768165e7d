"""Which ranges of a VM's memory are in use: what levers that move ranges are handed. It is in no report."""

from __future__ import annotations

from dataclasses import dataclass

MOST_RANGES = 20_000  # of one VM


@dataclass(frozen=True, slots=True)
class Heat:
    """A range of addresses, ``end`` excluded, by samples: one page of it in each window of some seconds."""

    start: int
    end: int
    busy: float  # seconds for which every sample was touched; 0: the last one was not
    idle: float  # seconds for which no sample was touched; 0: the last one was


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The ranges of one QEMU process, by address, none beside another."""

    at: float  # unix seconds of the reading
    ranges: tuple[Heat, ...]


@dataclass(frozen=True, slots=True)
class NodeRange:
    """A run of whole blocks of 2 MiB that lie on one NUMA node, ``end`` excluded."""

    start: int
    end: int
    node: int
    bytes: int  # of it that have memory, by samples
