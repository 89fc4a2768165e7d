"""A domain's definition for its next boot."""

from __future__ import annotations

import libvirt

from memhint.virt.bounded import Bounded
from memhint.virt.connection import Connection, translated
from memhint.virt.domain_xml import reporting_attribute, with_reporting


class NextBoot:
    """The inactive XML of one domain, as far as page reporting goes."""

    def __init__(self, connection: Connection, bounded: Bounded, uuid: str, timeout: float) -> None:
        self._connection = connection
        self._bounded = bounded
        self._uuid = uuid
        self._timeout = timeout

    def reporting(self) -> str | None:
        """What it says of ``freePageReporting``; None where it does not say."""
        return reporting_attribute(self._bounded.call("inactive XML", self._read, self._timeout))

    def set_reporting(self, value: str | None) -> None:
        """Let the domain's next boot have it on or off; None removes the attribute.

        :raises DomainXMLError: when the domain has no virtio balloon
        """

        def define() -> None:
            xml = with_reporting(self._read(), value)
            try:
                self._connection.get().defineXML(xml)
            except libvirt.libvirtError as error:
                raise translated(error) from error

        self._bounded.call("defining the domain", define, self._timeout)

    def _read(self) -> str:
        try:
            domain = self._connection.get().lookupByUUIDString(self._uuid)
            return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))
        except libvirt.libvirtError as error:
            raise translated(error) from error
