"""Which marks a host's store still has: python -m memhint.store.not_put_back /var/lib/memhint/memhint.db

For the scripts of packages, which must not lose them: it reads the file alone, without opening a store. The exit code
is 0 where there are none, and 1 where there are some, or nobody knows.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

_MARKS = "SELECT subject, knob, before, after FROM mark ORDER BY at, subject, knob"


def not_put_back(path: str) -> list[tuple[str, ...]]:
    """Subject, knob, and what it had before and after, of each mark; none where there is no store.

    :raises sqlite3.Error: when it cannot be read
    """
    if not Path(path).exists():
        return []
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    try:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'mark'").fetchone()
        return connection.execute(_MARKS).fetchall() if known else []
    finally:
        connection.close()


def main(words: Sequence[str]) -> int:
    """Print them, a line each."""
    try:
        found = not_put_back(words[0])
    except sqlite3.Error as error:
        print(f"{words[0]} cannot be read: {error}")
        return 1
    for one in found:
        print(*one, sep="\t")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
