"""The memory of the VMs of the bench `dedup`, on this machine and within a virtual host: kinds of data in turns."""

from __future__ import annotations

import random

PAGE = 4096
RUN = 64  # pages of one kind that lie side by side


def kinds_of(count: int, shared: float, prefixed: float, seed: int = 1) -> list[str]:
    """The kind of each run of so many pages, in the same order in every VM: `shared`, `prefixed` or `own`."""
    runs = -(-count // RUN)
    kinds = ["shared"] * round(runs * shared) + ["prefixed"] * round(runs * prefixed)
    kinds += ["own"] * (runs - len(kinds))
    random.Random(seed + 1).shuffle(kinds)
    return kinds


def pages_of(vm: int, count: int, shared: float, prefixed: float, seed: int = 1) -> tuple[list[bytes], int]:
    """The pages of one VM, and how many of them every other VM has, too.

    :param shared: the part of them that all VMs have; ``prefixed`` the same with 128 bytes of zeros in front
    """
    own, common = random.Random(f"{seed} {vm}"), random.Random(seed)
    kinds = kinds_of(count, shared, prefixed, seed)
    pages: list[bytes] = []
    for kind in kinds:
        for _ in range(RUN):
            page = common.randbytes(PAGE)
            if kind == "own":
                page = own.randbytes(PAGE)
            elif kind == "prefixed":
                page = bytes(128) + page[128:]
            pages.append(page)
    pages = pages[:count]
    equal = sum(1 for at in range(count) if kinds[at // RUN] != "own")
    return pages, equal
