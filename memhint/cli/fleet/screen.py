"""A table that is shown again and again: in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import shutil
import unicodedata
from typing import TextIO

from memhint.objects.counted import counted

_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """One of them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._shown: tuple[str, str] | None = None

    def show(self, text: str, footer: str) -> None:
        """Show a table and a line under it; on a terminal as much of the table as it has room for: a line that went on
        in the next one would scroll the first ones away.

        What would look the same is not shown again.
        """
        if (text, footer) == self._shown:
            return
        self._shown = text, footer
        lines = text.rstrip("\n").split("\n")
        if not self._terminal:
            self._out.write("\n".join([*lines, footer, "", ""]))
        else:
            size = shutil.get_terminal_size()
            room = max(1, size.lines - 2)
            if len(lines) > room:
                hidden = len(lines) - room
                lines = lines[:room]
                footer = f"{footer} {counted(hidden, 'line does', 'lines do')} not fit: see --limit."
            whole, lines = lines, [_cut(line, size.columns - 1) for line in lines]
            if lines != whole:
                footer = f"{footer} Cut at the right: see -c."
            shown = "".join(f"{line}{_REST_OF_LINE}\n" for line in [*lines, _cut(footer, size.columns - 1)])
            self._out.write(f"{_HOME}{shown}{_REST_OF_SCREEN}")
        self._out.flush()


def _cut(line: str, columns: int) -> str:
    """As much of a line as so many columns of a terminal hold."""
    room = columns
    for at, one in enumerate(line):
        room -= 2 if unicodedata.east_asian_width(one) in "WF" else 1
        if room < 0:
            return line[:at]
    return line
