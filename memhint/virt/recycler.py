"""The page recycler through QEMU's monitor: its counters, and its pace. QEMU is trusted, and still read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from memhint.objects.recycler import RecyclerCounters, RecyclerPace
from memhint.virt.answers import MOST, flag, whole
from memhint.virt.errors import DeviceAbsent, MonitorAnswerMalformed

PAGE = 4096
_PERIPHERAL = "/machine/peripheral"
_BALLOON = "child<virtio-balloon-"  # how the type of a balloon begins, on whatever bus, of whatever model
_WORD = 64  # characters of QEMU's word for why it gives nothing back


class Properties(Protocol):
    """QOM of one domain."""

    def children(self, path: str) -> list[dict[str, object]]:
        """Its children, each with a name and a type."""

    def get(self, path: str, name: str) -> object:
        """A property's value."""

    def set(self, path: str, name: str, value: object) -> None:
        """Set a property."""


def parse_recycler(answer: Mapping[str, object], command: str) -> RecyclerCounters | None:
    """The recycler's part of the counters; None where this QEMU or this device has none.

    :raises MonitorAnswerMalformed: a member is missing or of another kind
    """
    found = answer.get("recycler")
    if found is None:
        return None
    if not isinstance(found, dict):
        raise MonitorAnswerMalformed(f"{command}: recycler is no object")
    if not flag(found, "enabled", command):
        return None
    pages = whole(found, "pages", command)
    inhibited = found.get("inhibited")
    if inhibited is not None and not (isinstance(inhibited, str) and 0 < len(inhibited) <= _WORD):
        raise MonitorAnswerMalformed(f"{command}: inhibited is no word")
    return RecyclerCounters(
        negotiated=flag(found, "negotiated", command),
        workers=whole(found, "workers", command),
        pieces=whole(found, "pieces", command),
        described=min(MOST, pages * PAGE),
        passes=whole(found, "passes", command),
        recycled=whole(found, "recycled", command),
        lost=whole(found, "lost", command),
        failed=whole(found, "failed", command),
        left=whole(found, "left", command),
        inhibited=inhibited,
    )


class RecyclerKnobs:
    """The pace of one domain's recycler."""

    def __init__(self, properties: Properties) -> None:
        self._properties = properties

    def read(self) -> RecyclerPace:
        """The pace as it is now.

        :raises DeviceAbsent: the VM has no balloon
        :raises VirtError: what QEMU says, as where it has no recycler
        """
        path = self._path()
        return RecyclerPace(
            self._number(path, "recycler-workers"),
            self._number(path, "recycler-period-ms"),
            self._number(path, "recycler-max-bytes"),
            self._number(path, "recycler-leave-order"),
        )

    def write(self, pace: RecyclerPace) -> None:
        """Set the pace; threads begin last, so that they never work at another one.

        :raises VirtError: what QEMU says; a part may have been set
        """
        path = self._path()
        self._properties.set(path, "recycler-period-ms", pace.period_ms)
        self._properties.set(path, "recycler-max-bytes", pace.max_bytes)
        self._properties.set(path, "recycler-leave-order", pace.leave_order)
        self._properties.set(path, "recycler-workers", pace.workers)

    def _path(self) -> str:
        for child in self._properties.children(_PERIPHERAL):
            if str(child.get("type")).startswith(_BALLOON):
                return f"{_PERIPHERAL}/{child['name']}"
        raise DeviceAbsent("the VM has no balloon that could recycle")

    def _number(self, path: str, name: str) -> int:
        found = self._properties.get(path, name)
        if type(found) is not int or not 0 <= found <= MOST:
            raise MonitorAnswerMalformed(f"{name} is no number of 64 bits")
        return found
