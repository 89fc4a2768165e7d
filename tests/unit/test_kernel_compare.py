"""What a series changes in the code of a kernel: added instructions are told from a function that was compiled anew."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.unit.programs import KERNEL, load

BEFORE = """
mm/page_alloc.o:     file format elf64-x86-64

0000000000000010 <take>:
  10:\tpush   %rbx
  11:\tmov    0x500(%rdi),%rax
  18:\tcall   1d <take+0xd>
\t\t\t19: R_X86_64_PLT32\tunlock-0x4
  1d:\tje     30 <take+0x20>
  1f:\tret
  20:\tdata16 cs nopw 0x0(%rax,%rax,1)

0000000000000040 <put>:
  40:\tmov    %rdi,%rbx
  43:\tret
"""


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    return load(KERNEL / "compare")


def _told(compare: ModuleType, after: str) -> dict[str, str | None]:
    old, new = compare.functions(BEFORE), compare.functions(after)
    return {name: compare.told(old.get(name, []), new.get(name, [])) for name in new}


def test_addresses_offsets_and_padding_are_no_change(compare: ModuleType) -> None:
    moved = BEFORE.replace("  20:\tdata16 cs nopw 0x0(%rax,%rax,1)\n", "").replace("0x500(%rdi)", "0x508(%rdi)")
    assert _told(compare, moved.replace("1d <take+0xd>", "5d <take+0x2d>")) == {"take": None, "put": None}


def test_what_was_only_added_is_counted(compare: ModuleType) -> None:
    added = BEFORE.replace("  1f:\tret", "  1f:\tret\n  20:\tlock add %rdx,0x550(%rdi)\n  28:\tjmp    1f <take+0xf>")
    assert _told(compare, added) == {"take": "2 instructions added, 5 as they were", "put": None}


def test_another_register_is_a_difference(compare: ModuleType) -> None:
    assert _told(compare, BEFORE.replace("%rdi,%rbx", "%rdi,%r12"))["put"] == "differs in 1 of 2 instructions"


def test_a_call_of_something_else_is_a_difference(compare: ModuleType) -> None:
    assert _told(compare, BEFORE.replace("unlock", "unlock_slowly"))["take"] == "differs in 1 of 5 instructions"
