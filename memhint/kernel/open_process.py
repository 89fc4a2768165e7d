"""A process that is looked at through open descriptors."""

from __future__ import annotations

import os
from typing import ClassVar, Self


class OpenProcess:
    """A context manager that closes them at its end."""

    _descriptors: ClassVar[tuple[str, ...]]
    """Names of the attributes that are descriptors; a negative one is not open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the process."""
        for name in self._descriptors:
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)
