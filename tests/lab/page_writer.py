"""Writes pages of another process at random, and sees at each that it holds what was last written.

Run by tests/lab/test_merge_race.py: pid, address, pages, seed. Half of the pages are never written again, a few all the
time, the others now and then, so that they merge in between. Ends when its input does, with a line: how many were
written and found as they should be, or which was not.
"""

from __future__ import annotations

import os
import random
import select
import sys
import time

PAGE = 4096
CONTENTS = 48  # few, so that what is written has equals
_HOT = 32  # pages that are written all the time
_AT_ONCE = 16
_REST = 0.002  # seconds: pages have to stay as they are for two scans to merge


def contents() -> list[bytes]:
    """What pages hold: the same for all, in some only the last bytes differ."""
    chance = random.Random(0)
    alike = chance.randbytes(PAGE - 8)
    return [
        alike + number.to_bytes(8, "big") if number % 2 else chance.randbytes(PAGE) for number in range(CONTENTS - 1)
    ] + [bytes(PAGE)]


def main() -> None:
    """Until the input ends."""
    pid, address, pages, seed = map(int, sys.argv[1:])
    chance, table = random.Random(seed), contents()
    held = [chance.randrange(CONTENTS) for _ in range(pages)]
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    for page, kind in enumerate(held):
        os.pwrite(memory, table[kind], address + page * PAGE)
    print("filled", flush=True)
    done = 0

    def check(page: int) -> None:
        if os.pread(memory, PAGE, address + page * PAGE) != table[held[page]]:
            print(f"page {page} does not hold content {held[page]}", flush=True)
            sys.exit(1)

    while not select.select([sys.stdin], [], [], 0)[0]:
        for at in range(_AT_ONCE):
            page = chance.randrange(_HOT) if at % 2 else chance.randrange(_HOT, pages // 2)
            check(page)
            held[page] = chance.randrange(CONTENTS)
            os.pwrite(memory, table[held[page]], address + page * PAGE)
            done += 1
        time.sleep(_REST)
    for page in range(pages):
        check(page)
    print(done, flush=True)


if __name__ == "__main__":
    main()
