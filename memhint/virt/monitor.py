"""QEMU's own monitor through libvirt: QOM properties, and the balloon's counters.

Every command marks the domain as tainted in libvirt's eyes: only where the operator allowed monitor commands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import libvirt
import libvirt_qemu

from memhint.objects.discarded import BalloonReporting
from memhint.virt.balloon_reporting import COMMAND, parse_balloon_reporting
from memhint.virt.caller import Caller
from memhint.virt.errors import DeviceAbsent, LibvirtCallFailed, MonitorAnswerMalformed, MonitorCommandUnknown
from memhint.virt.memory_blocks import BLOCKS, Block, parse_blocks

_ERRORS = {"CommandNotFound": MonitorCommandUnknown, "DeviceNotActive": DeviceAbsent}  # by QMP's error class
_MARK = "set-memdev-merge"
RANGES_AT_ONCE = 1024  # as many as set-memdev-merge takes
MEMORY_BACKENDS = ("child<memory-backend-ram>", "child<memory-backend-memfd>", "child<memory-backend-file>")


class Monitor:
    """One domain's QMP."""

    def __init__(self, caller: Caller, uuid: str) -> None:
        """:param caller: with a long timeout: setting ``merge`` off walks all of the guest's memory."""
        self._caller = caller
        self._uuid = uuid

    def memory_backends(self) -> list[str]:
        """QOM paths of the objects that hold the guest's memory."""
        return [f"/objects/{one['name']}" for one in self.children("/objects") if one.get("type") in MEMORY_BACKENDS]

    def children(self, path: str) -> list[dict[str, object]]:
        """The properties of a QOM object, each with a name and a type."""
        found = self._execute("qom-list", path=path)
        if not isinstance(found, list):
            raise LibvirtCallFailed(f"qom-list {path} answered no list")
        return found

    def get(self, path: str, name: str) -> object:
        """A QOM property's value."""
        return self._execute("qom-get", path=path, property=name)

    def set(self, path: str, name: str, value: object) -> None:
        """Set a QOM property."""
        self._execute("qom-set", path=path, property=name, value=value)

    def marks_ranges(self) -> bool:
        """Whether this QEMU can mark parts of a memory object as mergeable."""
        found = self._execute("query-commands")
        if not isinstance(found, list):
            raise MonitorAnswerMalformed("query-commands answered no list")
        return any(isinstance(one, dict) and one.get("name") == _MARK for one in found)

    def memory_blocks(self) -> dict[str, Block]:
        """Where the guest's memory is in QEMU's process, by the QOM path of the object that holds it.

        :raises MonitorCommandUnknown: this QEMU does not say
        :raises VirtError: anything else
        """
        blocks = parse_blocks(self._execute(BLOCKS))
        found = {path: blocks.get(path, blocks.get(path.rpartition("/")[2])) for path in self.memory_backends()}
        return {path: block for path, block in found.items() if block is not None}

    def merge_ranges(self, path: str, merge: bool, ranges: Sequence[tuple[int, int]]) -> None:
        """Mark parts of a memory object as mergeable, or as not mergeable.

        :param ranges: offset of the first byte and of the one behind the last, ascending and apart
        :raises MonitorCommandUnknown: this QEMU marks a whole object only
        :raises VirtError: anything else; some ranges may be marked then
        """
        for at in range(0, len(ranges), RANGES_AT_ONCE):
            part = [{"offset": start, "size": end - start} for start, end in ranges[at : at + RANGES_AT_ONCE]]
            self._execute(_MARK, memdev=path, merge=merge, ranges=part)

    def balloon_reporting(self, at: float) -> BalloonReporting:
        """What became of the memory that the guest reported.

        :param at: unix seconds, of now
        :raises MonitorCommandUnknown: this QEMU does not count
        :raises DeviceAbsent: it has no balloon
        :raises VirtError: anything else
        """
        return parse_balloon_reporting(self._execute(COMMAND), at)

    def _execute(self, command: str, **arguments: object) -> object:
        request = json.dumps({"execute": command, "arguments": arguments})

        def ask(connection: libvirt.virConnect) -> str:
            return str(libvirt_qemu.qemuMonitorCommand(connection.lookupByUUIDString(self._uuid), request, 0))

        try:
            answer = json.loads(self._caller.call(command, ask))
        except json.JSONDecodeError as error:
            raise MonitorAnswerMalformed(f"{command}: QEMU's answer is not JSON") from error
        if not isinstance(answer, dict):
            raise MonitorAnswerMalformed(f"{command}: QEMU's answer is no object")
        error_of = answer.get("error")
        if error_of is not None:
            known = error_of if isinstance(error_of, dict) else {}
            kind = _ERRORS.get(str(known.get("class")), LibvirtCallFailed)
            raise kind(f"{command}: {known.get('desc', error_of)}")
        return answer.get("return")
