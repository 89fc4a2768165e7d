"""What can be asked of the workload program inside a guest, whoever has started the guest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from lab.errors import WorkError
from lab.sizes import MIB

WORK_DEADLINE = 180.0
"""Seconds for one request; touching every page of a large allocation takes long when the host swaps."""


class Worker(ABC):
    """A guest with the workload in it."""

    @abstractmethod
    def work(self, request: str, deadline: float = WORK_DEADLINE) -> dict[str, Any]:
        """The workload's answer to `request` (see lab/README.md for the commands)."""

    def alloc(self, name: str, size: int, content: str = "random") -> None:
        """Allocate and write `size` bytes (whole MiB); content is "random", "zero" or "seed:N"."""
        self.work(f"alloc {name} {_mib(size)} {content}")

    def free(self, name: str) -> None:
        """Give an allocation back to the guest's kernel."""
        self.work(f"free {name}")

    def touch(self, name: str) -> None:
        """Write to every page of an allocation."""
        self.work(f"touch {name}")

    def fragment(self, name: str, size: int) -> None:
        """Allocate `size` bytes (whole MiB) and free every other page of them: half becomes free, in single pages."""
        self.work(f"fragment {name} {_mib(size)}")

    def duty(self, files: int, size: int, step_ms: int) -> None:
        """Begin a cycle: a file of `size` random bytes (whole MiB) in memory each `step_ms` until there are `files` of
        them, then one is removed each `step_ms`. Refused while one is under way.
        """
        self.work(f"duty {files} {_mib(size)} {step_ms}")

    def duty_done(self) -> dict[str, Any]:
        """running, cycles; of the last cycle that ended cpu_us, wall_ms, peak (bytes that it held), error."""
        return self.work("duty")

    def hot(self, size: int) -> None:
        """Keep `size` bytes (whole MiB) of its disk in use: read again twice a second until `hot stop`."""
        self.work(f"hot {_mib(size)}")

    def hot_resident(self) -> int:
        """Bytes of what `hot` keeps in use that are in its page cache now."""
        return int(self.work("hot")["resident"])

    def fill_cache(self, size: int) -> None:
        """Read `size` more bytes (whole MiB) of its disk into its page cache."""
        self.work(f"cache {_mib(size)}")

    def drop_cache(self) -> None:
        """Empty its page cache."""
        self.work("dropcache")

    def meminfo(self) -> dict[str, Any]:
        """MemTotal, MemFree, MemAvailable, Cached, Buffers in bytes; kernel, boot_id, page_reporting_order, balloon."""
        return self.work("meminfo")


def _mib(size: int) -> int:
    if size <= 0 or size % MIB:
        raise WorkError(f"{size} bytes: the workload takes whole MiB")
    return size // MIB
