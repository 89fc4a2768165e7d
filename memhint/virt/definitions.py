"""Each domain's definition, read when it changed and not every cycle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import libvirt

from memhint.objects.domain import DEFINITION
from memhint.objects.gap import Gap
from memhint.virt.caller import Caller
from memhint.virt.domain_xml import Definition, parse_domain
from memhint.virt.errors import CallTimeout, VirtError


@dataclass(frozen=True, slots=True)
class _Kept:
    definition: Definition
    at: float


class Definitions:
    """A cache of definitions. Events invalidate; ``refresh`` seconds bound what a lost event can cost."""

    def __init__(self, caller: Caller, refresh: float) -> None:
        self._caller = caller
        self._refresh = refresh
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._changed: set[str] = set()
        self._all_changed = False
        self._slow: set[str] = set()  # the last call for these did not return in time

    def inherit(self, before: Definitions) -> None:
        """Go on from what was read before; all of it is read again, and holds where that fails."""
        self._kept = dict(before._kept)
        self.invalidate("")

    def invalidate(self, uuid: str) -> None:
        """Read this domain again the next time; every domain for an empty UUID. Safe on the event thread."""
        with self._lock:
            if uuid:
                self._changed.add(uuid)
            else:
                self._all_changed = True

    def read(self, uuids: Iterable[str], now: float) -> tuple[dict[str, Definition], dict[str, Gap]]:
        """The definitions of these domains, and why one could not be read.

        A domain whose XML cannot be read now keeps the definition it had; one never read has a gap only. Once a call
        takes too long the others are left for the next time: a cycle must not wait for each of many.
        """
        wanted = set(uuids)
        with self._lock:
            changed = wanted if self._all_changed else self._changed & wanted
            self._changed, self._all_changed = set(), False
        self._kept = {uuid: kept for uuid, kept in self._kept.items() if uuid in wanted}
        due = [
            uuid
            for uuid in wanted
            if uuid in changed or uuid not in self._kept or now - self._kept[uuid].at >= self._refresh
        ]
        self._slow &= wanted
        gaps: dict[str, Gap] = {}
        late: Gap | None = None
        for uuid in sorted(due, key=self._slow.__contains__):
            if late is not None:
                gaps[uuid] = late
                self.invalidate(uuid)
                continue
            try:
                self._kept[uuid] = _Kept(self._caller.call("domain XML", _reader(uuid)), now)
                self._slow.discard(uuid)
            except VirtError as error:
                gaps[uuid] = error.gap(DEFINITION)
                self.invalidate(uuid)
                if isinstance(error, CallTimeout):
                    self._slow.add(uuid)
                    late = CallTimeout("domain XML was not asked for: libvirt was late for another VM").gap(DEFINITION)
        return {uuid: kept.definition for uuid, kept in self._kept.items()}, gaps


def _reader(uuid: str) -> Callable[[libvirt.virConnect], Definition]:
    def ask(connection: libvirt.virConnect) -> Definition:
        domain = connection.lookupByUUIDString(uuid)
        return parse_domain(domain.XMLDesc(), persistent=bool(domain.isPersistent()))

    return ask
