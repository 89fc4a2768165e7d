"""A domain's definition for its next boot."""

from __future__ import annotations

import libvirt

from memhint.virt.caller import Caller
from memhint.virt.domain_xml import reporting_attribute, with_reporting


class NextBoot:
    """The inactive XML of one domain, as far as page reporting goes."""

    def __init__(self, caller: Caller, uuid: str) -> None:
        self._caller = caller
        self._uuid = uuid

    def reporting(self) -> str | None:
        """What it says of ``freePageReporting``; None where it does not say."""
        return reporting_attribute(self._caller.call("inactive XML", self._read))

    def set_reporting(self, value: str | None) -> None:
        """Let the domain's next boot have it on or off; None removes the attribute.

        :raises DomainXMLError: when the domain has no virtio balloon
        """

        def define(connection: libvirt.virConnect) -> None:
            connection.defineXML(with_reporting(self._read(connection), value))

        self._caller.call("defining the domain", define)

    def _read(self, connection: libvirt.virConnect) -> str:
        domain = connection.lookupByUUIDString(self._uuid)
        return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))
