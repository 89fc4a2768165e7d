"""Where QEMU has the guest's memory in its own process: the answer of x-query-ramblock, a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.virt.errors import MonitorAnswerMalformed

BLOCKS = "x-query-ramblock"
_COLUMNS = ["Block", "Name", "PSize", "Offset", "Used", "Total", "HVA", "RO"]
_AT_MOST = 1 << 20  # characters


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of guest memory: first address in QEMU's process, and bytes."""

    address: int
    size: int


def parse_blocks(answer: object) -> dict[str, Block]:
    """Blocks by QEMU's name of each.

    :raises MonitorAnswerMalformed: it is not the table that was known when this was written
    """
    text = answer.get("human-readable-text") if isinstance(answer, dict) else None
    if not isinstance(text, str) or len(text) > _AT_MOST:
        raise MonitorAnswerMalformed(f"{BLOCKS}: no table")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].split() != _COLUMNS:
        raise MonitorAnswerMalformed(f"{BLOCKS}: other columns than {' '.join(_COLUMNS)}")
    found: dict[str, Block] = {}
    for line in lines[1:]:
        # a name may hold spaces, and a page size does: "4 KiB"
        words = line.rsplit(None, 7)
        if len(words) != 8 or words[0].strip() in found:
            raise MonitorAnswerMalformed(f"{BLOCKS}: {line[:80]!r}")
        try:
            address, size = (int(word, 16) for word in (words[6], words[4]))
        except ValueError as error:
            raise MonitorAnswerMalformed(f"{BLOCKS}: {line[:80]!r}") from error
        found[words[0].strip()] = Block(address, size)
    return found
