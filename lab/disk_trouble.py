"""What stands in the way of a demo or a lab on its disks, in a sentence in place of a traceback."""

from __future__ import annotations

import errno

from lab.paths import cache_dir, labs_dir

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)


def said(error: OSError) -> str:
    """What is wrong, where, and what to do.

    :raises OSError: the error itself, where it is none of a disk: it is a fault of the program, and its traceback tells
    """
    if error.errno not in (*_FULL, *_CLOSED):
        raise error
    # Who writes to an open file is not told its name.
    where = error.filename or f"one of {labs_dir()}, {cache_dir()} and the output folder"
    todo = "make room there" if error.errno in _FULL else "have it writable"
    return (
        f"{where}: {error.strerror}: {todo}, or set MEMHINT_LAB_DIR (now {labs_dir()}) or MEMHINT_CACHE (now"
        f" {cache_dir()}) to another directory"
    )
