"""Which parts of a VM's memory are worth KSM's time: ranges in which many pages have an equal.

A range costs QEMU a mapping or two, of which the host allows some ten thousand, and every page in it costs KSM the same
time. So candidates are counted by block of ``BLOCK`` pages; a block with ``DENSE`` of them counts, for with fewer they
may be what the finder's filters take for candidates in error (about one page in a hundred: three in a block of 16 are
one block in 2,000). Gaps of ``BRIDGED`` blocks are taken in, and the narrowest ones beyond that until at most
``AT_MOST`` ranges are left.

Where ranges would leave out much of what merges, or leave out little of the VM, all of it is merged instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memhint.objects.merge_ranges import Range, RangeChoice, within

BLOCK = 16  # pages
DENSE = 3  # candidates that make a block count
BRIDGED = 1  # blocks
AT_MOST = 2048  # ranges of one VM: 4,096 mappings of the 65,530 that Linux allows by default
_ENOUGH = 0.8  # the part of what merges that ranges must hold
_MOST = 0.8  # the part of the VM from which on all of it is merged


def choose(counted: Iterable[tuple[int, bytes]], partners: int, looked: int, page_size: int) -> RangeChoice:
    """The ranges of one VM.

    :param counted: candidates by block, for each stretch of memory its first address and a byte per block; by address
    :param partners: pages that merge, as far as is known
    :param looked: pages that were looked at
    """
    size = BLOCK * page_size
    dense: list[Range] = []
    stretches = [(start, counts) for start, counts in counted if any(counts)]
    for start, counts in stretches:
        for at, count in enumerate(counts):
            if count < DENSE:
                continue
            begin = start + at * size
            if dense and begin - dense[-1][1] <= BRIDGED * size:
                dense[-1] = (dense[-1][0], begin + size)
            else:
                dense.append((begin, begin + size))
    ranges = fewer(dense, AT_MOST)
    covered = sum(end - start for start, end in ranges)
    holds = _held(stretches, ranges, size)
    if holds < _ENOUGH * partners or covered > _MOST * looked * page_size:
        return RangeChoice(None, holds, covered)
    return RangeChoice(ranges, holds, covered)


def fewer(ranges: Sequence[Range], at_most: int) -> tuple[Range, ...]:
    """The same in no more than so many ranges: the narrowest gaps are taken in, which adds as little as can be.

    :param ranges: ascending, and apart
    """
    if len(ranges) <= at_most:
        return tuple(ranges)
    gaps = sorted(range(1, len(ranges)), key=lambda at: ranges[at][0] - ranges[at - 1][1], reverse=True)
    kept = sorted(gaps[: max(0, at_most - 1)])
    firsts, lasts = [0, *kept], [*(at - 1 for at in kept), len(ranges) - 1]
    return tuple((ranges[first][0], ranges[last][1]) for first, last in zip(firsts, lasts, strict=True))


def _held(stretches: Sequence[tuple[int, bytes]], ranges: Sequence[Range], size: int) -> int:
    held = 0
    for start, counts in stretches:
        for first, last in within(ranges, start, start + len(counts) * size):
            held += sum(counts[(first - start) // size : -(-(last - start) // size)])
    return held
