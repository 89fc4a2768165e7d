"""memhint's policy as libvirt domain metadata: `virsh metadata DOMAIN --uri urn:memhint:policy:1`.

The element carries one attribute per policy key, ``<policy reporting="off" guest_actions="allow"/>``.
"""

from __future__ import annotations

from xml.etree import ElementTree

from memhint.objects.policy import PolicyError, parse_policy

NAMESPACE = "urn:memhint:policy:1"
PREFIX = "memhint"
TAG = f"{{{NAMESPACE}}}policy"


def read_policy(metadata: ElementTree.Element | None) -> tuple[dict[str, str], list[str]]:
    """The policy in a domain's ``<metadata>``, and what in it was wrong.

    A value that is wrong counts as not said: the others hold.
    """
    element = metadata.find(TAG) if metadata is not None else None
    if element is None:
        return {}, []
    values: dict[str, str] = {}
    faults: list[str] = []
    for name, value in element.attrib.items():
        try:
            values.update(parse_policy([(name, value)]))
        except PolicyError as error:
            faults.append(str(error))
    return values, faults
