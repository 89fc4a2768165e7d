"""A domain's definition for its next boot."""

from __future__ import annotations

import libvirt

from memhint.virt.caller import Caller
from memhint.virt.domain_xml import reporting_attribute, with_reporting
from memhint.virt.errors import LibvirtCallFailed


class NextBoot:
    """The inactive XML of one domain, as far as page reporting goes, and whether it is what counts."""

    def __init__(self, caller: Caller, uuid: str) -> None:
        self._caller = caller
        self._uuid = uuid

    def reporting(self) -> str | None:
        """What it says of ``freePageReporting``; None where it does not say, or the domain has no next boot."""

        def read(connection: libvirt.virConnect) -> str | None:
            xml = self._read(connection)
            return None if xml is None else reporting_attribute(xml)

        return self._caller.call("inactive XML", read)

    def set_reporting(self, value: str | None) -> None:
        """Let the domain's next boot have it on or off; None removes the attribute.

        :raises DomainXMLError: when the domain has no virtio balloon
        :raises LibvirtCallFailed: when it was undefined since, and runs on without a definition
        """

        def define(connection: libvirt.virConnect) -> None:
            xml = self._read(connection)
            if xml is None:
                raise LibvirtCallFailed("the domain has no definition any more")
            connection.defineXML(with_reporting(xml, value))

        self._caller.call("defining the domain", define)

    def begins_anew(self) -> bool:
        """Whether its next start is a boot: it does not run, and libvirt has not saved how it ran."""

        def ask(connection: libvirt.virConnect) -> bool:
            domain = connection.lookupByUUIDString(self._uuid)
            # In this order: one that is restored meanwhile is not saved any more once it runs.
            return not domain.hasManagedSaveImage() and not domain.isActive()

        return self._caller.call("managed save", ask)

    def _read(self, connection: libvirt.virConnect) -> str | None:
        domain = connection.lookupByUUIDString(self._uuid)
        if not domain.isPersistent():
            # What libvirt gives is how it runs now. To define that would bring back what somebody has undefined.
            return None
        return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))
