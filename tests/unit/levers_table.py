"""The row that doc/levers.md has of each lever."""

from __future__ import annotations

from pathlib import Path

from memhint.objects.levers import Declaration

PAGE = Path(__file__).parents[2] / "doc" / "levers.md"


def row_of(one: Declaration) -> str:
    """As the page has it."""

    def code(words: tuple[object, ...]) -> str:
        return ", ".join(f"`{word}`" for word in words) or "-"

    wish = (one.wish,) if one.wish else ()
    groups = code(tuple(f"[{group}]" for group in one.options))
    return (
        f"| `{one.name}` | {one.does} | {code(wish)} | {code(one.keys)} | {code(one.rungs)} | {groups} |"
        f" {one.undo or '-'} |"
    )
