"""The process that makes or upgrades the tables: it is given the database's URL on its standard input."""

from __future__ import annotations

import sys

from memhint.store.database import open_store


def main() -> int:
    """Open the store once; 0."""
    open_store(sys.stdin.read()).close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
