"""doc/nova.md holds every option and every reason."""

from __future__ import annotations

from pathlib import Path

from memhint_nova.conf import OPTS
from memhint_nova.reason import Reason

PAGE = (Path(__file__).parents[2] / "doc" / "nova.md").read_text()


def row(option) -> str:
    kind = option.type
    if getattr(kind, "choices", None):
        values = ", ".join(f"`{choice}`" for choice in kind.choices)
    elif hasattr(kind, "min"):
        low = "" if kind.min is None else f"{kind.min:g}"
        values = f"from {low}" if kind.max is None and low else f"{low} to {kind.max:g}" if low else "a number"
    else:
        values = "text"
    default = "empty" if option.default is None else f"`{option.default}`"
    return f"| `{option.dest}` | {default} | {values} | {option.help} |"


def test_every_option_has_its_row() -> None:
    rows = [row(option) for option in OPTS]
    found = [line for line in PAGE.splitlines() if line in rows]
    assert found == rows, "the rows should be:\n" + "\n".join(rows)


def test_every_reason_has_its_row() -> None:
    rows = {line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| `")}
    assert {f"`{reason}`" for reason in Reason} <= rows
