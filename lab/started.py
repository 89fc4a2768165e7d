"""What runs for as long as a with statement, and leaves nothing behind where it does not start."""

from __future__ import annotations

from typing import Self


class Started:
    """Something with processes and files of its own."""

    def start(self) -> None:
        """Begin, and wait until it can be used."""
        raise NotImplementedError

    def close(self) -> None:
        """End it, however far it came."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
