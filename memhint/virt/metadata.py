"""memhint's policy as libvirt domain metadata: `virsh metadata DOMAIN --uri urn:memhint:policy:1`.

The element carries one attribute per policy key, ``<policy reporting="off" guest_actions="allow"/>``.
"""

from __future__ import annotations

from xml.etree import ElementTree

from memhint.objects.policy import read_wishes

NAMESPACE = "urn:memhint:policy:1"
PREFIX = "memhint"
TAG = f"{{{NAMESPACE}}}policy"


def read_policy(metadata: ElementTree.Element | None) -> tuple[dict[str, str], list[str]]:
    """The policy in a domain's ``<metadata>``, and what in it was wrong; the others hold."""
    element = metadata.find(TAG) if metadata is not None else None
    return ({}, []) if element is None else read_wishes(element.attrib.items())
