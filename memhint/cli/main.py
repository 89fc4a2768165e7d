"""The entry point of the `memhint` command."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from io import TextIOWrapper

from memhint.cli.agent_run import config_files, run_alone


def main(
    argv: Sequence[str] | None = None,
    *,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run one command line. Returns the exit code; see memhint.cli.errors.Exit for what they mean.

    :param clock: unix seconds, to compare with what others have written down
    :param monotonic: seconds, for how long is waited: a clock may be set meanwhile
    """
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no Σ or ± shows all the rest
    words = list(sys.argv[1:] if argv is None else argv)
    strange = next((word for word in words if not _is_text(word)), None)
    if strange is not None:
        # Before anything is done: no store, API or file of memhint can hold it.
        from memhint.cli.exits import Exit
        from memhint.cli.table import clean

        shown = strange.encode(errors="surrogateescape").decode(errors="backslashreplace")
        sys.stderr.write(f"{clean(' '.join(shown.split()))}: this is not UTF-8\n")
        return Exit.USAGE
    files = config_files(words)
    if files is not None:
        return run_alone(files)
    from memhint.cli.app import MemhintApp

    app = MemhintApp(clock, monotonic, sleep)
    try:
        return int(app.run(words))
    except SystemExit as end:  # argparse ends the process by itself
        return end.code if isinstance(end.code, int) else 0
    finally:
        app.release_logging()


def _open_closed() -> None:
    """Who closed a stream wants nothing of it; and no store or log gets its number, to which others write text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  for all of the process


def _is_text(word: str) -> bool:
    """Whether it was UTF-8 on the command line. Python has surrogates for the bytes of what was not."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
