"""Where QEMU has the guest's memory: a table for people, read strictly."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.virt.errors import MonitorAnswerMalformed
from memhint.virt.memory_blocks import Block, parse_blocks

COLUMNS = "Block Name    PSize              Offset               Used              Total                HVA  RO"
HEAD = f"              {COLUMNS}\n"


def row(name: str, used: int, address: int, size: int = 0) -> str:
    return f"{name:>24}    4 KiB  0x{0:016x} 0x{used:016x} 0x{size or used:016x} 0x{address:016x}  rw\n"


ROWS = (
    row("pc.ram", 512 << 20, 0x7F2B5BE00000)
    + row("0000:00:02.0/vga.vram", 16 << 20, 0x7F2B5A800000)
    + row("/rom@etc/acpi/tables", 0x20000, 0x7F2B59A00000, 0x200000)
)


def test_blocks_by_name() -> None:
    found = parse_blocks({"human-readable-text": HEAD + ROWS})
    assert found["pc.ram"] == Block(0x7F2B5BE00000, 512 << 20)
    assert found["/rom@etc/acpi/tables"].size == 0x20000
    assert "0000:00:02.0/vga.vram" in found


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"human-readable-text": 3},
        {"human-readable-text": ""},
        {"human-readable-text": ROWS},
        {"human-readable-text": HEAD.replace("HVA", "GPA") + ROWS},
        {"human-readable-text": HEAD + "pc.ram\n"},
        {"human-readable-text": HEAD + ROWS + ROWS},
        {"human-readable-text": HEAD + ROWS.replace("0x00007f2b5be00000", "somewhere")},
    ],
)
def test_what_is_not_that_table_is_malformed(answer: object) -> None:
    with pytest.raises(MonitorAnswerMalformed):
        parse_blocks(answer)


@given(st.text())
def test_any_text_is_read_or_malformed(text: str) -> None:
    with suppress(MonitorAnswerMalformed):
        parse_blocks({"human-readable-text": HEAD + text})
