"""Members of what QEMU's monitor answers, each of the kind that it has to be."""

from __future__ import annotations

from collections.abc import Mapping

from memhint.virt.errors import MonitorAnswerMalformed

MOST = (1 << 64) - 1


def whole(answer: Mapping[str, object], name: str, command: str) -> int:
    """A number of 64 bits.

    :raises MonitorAnswerMalformed: it is none
    """
    found = answer.get(name)
    if type(found) is not int or not 0 <= found <= MOST:
        raise MonitorAnswerMalformed(f"{command}: {name} is no number of 64 bits")
    return found


def flag(answer: Mapping[str, object], name: str, command: str) -> bool:
    """A boolean.

    :raises MonitorAnswerMalformed: it is none
    """
    found = answer.get(name)
    if type(found) is not bool:
        raise MonitorAnswerMalformed(f"{command}: {name} is no boolean")
    return found
