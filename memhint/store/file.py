"""The file of an SQLite store, and whether this process may use it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memhint.store.errors import StoreError, StoreMissing

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


def file_of(url: URL) -> Path | None:
    """The file behind a URL; None where the store is no file."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def make_file(path: Path) -> None:
    """The directory (0750) and the file (0640), where they are not there yet.

    A file that is there is not opened: closing it would drop the locks that SQLite holds on it for this process, and
    others would take its write-ahead log away.

    :raises StoreError: where they cannot be made or written
    """
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # SQLite would make it readable for everybody; its companions take the mode from it
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o640))
    except OSError as error:
        raise StoreError(f"{error.filename or path}: {error.strerror}; {_advice(path)}") from error
    check_file(path)


def check_file(path: Path) -> None:
    """Whether a store is there that this process can use.

    :raises StoreMissing: where there is none
    :raises StoreError: where this process may not use it
    """
    try:
        found = path.exists()
    except PermissionError:
        found = True
    if not found:
        raise StoreMissing(f"there is no store at {path}: start the agent (memhint agent), or see [store] url")
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(f"{path} is not readable and writable here; {_advice(path)}")
    _check_directory(path)


def _check_directory(path: Path) -> None:
    # The write-ahead log lies beside the database, and readers need it too.
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreError(f"{path.parent} is not writable here; {_advice(path)}")


def _advice(path: Path) -> str:
    return f"run as root or as the owner of {path.parent}, or choose another place with [store] url"
