"""Ends a lab when the process that uses it has gone: `python -m lab.keeper DIRECTORY`, with a pipe as standard input.

The using process holds the other end and never writes. However it ends, also by SIGKILL, the pipe closes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from lab.teardown import teardown

_CHECKOUT = Path(__file__).resolve().parent.parent


class Keeper:
    """The keeper's side in the process that uses the lab."""

    def __init__(self, directory: Path) -> None:
        read, self._write = os.pipe()
        with (directory / "keeper.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab.keeper", str(directory)],
                stdin=read,
                stdout=log,
                stderr=log,
                # Its own session: a Ctrl-C meant for the user's program must not reach it.
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PYTHONPATH": str(_CHECKOUT)},
            )
        os.close(read)

    def release(self) -> None:
        """Let the keeper go, and wait until it has (it ends the lab first unless that is done)."""
        os.close(self._write)
        self._process.wait()


def main() -> None:
    """Wait for the pipe to close, then end the lab."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    teardown(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
