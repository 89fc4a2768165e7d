"""memhint's marks in a domain's live XML, so that they go where the VM goes: with a live migration, or a saved image.

The element is ``<marks><mark knob="…" before="…" after="…" instance="…"/></marks>``, and only memhint writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import libvirt

from memhint.objects.ownership import Mark
from memhint.virt.caller import Caller
from memhint.virt.metadata import PREFIX

NAMESPACE = "urn:memhint:marks:1"
_TAG = f"{{{NAMESPACE}}}marks"
_ONE = f"{{{NAMESPACE}}}mark"
_FIELDS = ("knob", "before", "after", "instance")
_MOST = 16  # marks of one VM; eight knobs travel
_LONGEST = 128  # characters


def read_marks(metadata: ElementTree.Element | None, uuid: str) -> tuple[tuple[Mark, ...], list[str]]:
    """The marks in a domain's ``<metadata>``, and what in it was wrong. What is wrong is no mark."""
    element = metadata.find(_TAG) if metadata is not None else None
    if element is None:
        return (), []
    found, faults = [], []
    for one in element.findall(_ONE)[:_MOST]:
        values = [one.get(name) for name in _FIELDS]
        if any(value is None or len(value) > _LONGEST for value in values):
            faults.append(f"a mark of memhint's is not whole: {ElementTree.tostring(one, encoding='unicode')[:200]}")
            continue
        knob, before, after, instance = (value or "" for value in values)
        found.append(Mark(uuid, knob, before, after, instance, at=0.0))
    return tuple(found), faults


class DomainMarks:
    """The element of running domains."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def write(self, uuid: str, marks: Sequence[Mark]) -> None:
        """Let the running domain carry these, and no others. Its definition for the next boot stays as it is.

        :raises VirtError: what libvirt says; that it does not run, for one
        """
        element = None
        if marks:
            root = ElementTree.Element("marks")
            for one in marks:
                ElementTree.SubElement(root, "mark", {name: str(getattr(one, name)) for name in _FIELDS})
            element = ElementTree.tostring(root, encoding="unicode")

        def ask(connection: libvirt.virConnect) -> None:
            connection.lookupByUUIDString(uuid).setMetadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT, element, PREFIX, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE
            )

        self._caller.call("domain metadata", ask)
