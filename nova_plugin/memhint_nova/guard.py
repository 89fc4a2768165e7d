"""Whether this Nova is one whose libvirt driver can be extended as memhint_nova.driver does; if not it does not start.

The driver overrides one private method and classes that write XML. What they are is looked at, and what comes out
of them is tried, before the first VM is touched.
"""

from __future__ import annotations

import inspect
from typing import Any

from nova import exception, version
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

OLDEST, NEWEST = 31, 34  # releases of Nova that the plugin's tests pass with


class UnfitNova(exception.NovaException):
    """This Nova's driver is not the one that memhint's extends."""

    msg_fmt = (
        "compute_driver = memhint.MemhintLibvirtDriver does not fit Nova %(release)s: %(fault)s. It is tested with "
        "Nova %(oldest)d to %(newest)d. Use libvirt.LibvirtDriver, or a memhint-nova that knows this release."
    )


def check(balloon: type, emulator: type, nova_driver: type = libvirt_driver.LibvirtDriver) -> None:
    """Look and try.

    :param balloon: what writes the balloon's XML, made without arguments
    :param emulator: what writes the emulator's, made with its path
    :raises UnfitNova: where something is not as it should be
    """
    release = version.version_string()
    fault = shape_fault(nova_driver) or _xml_fault(balloon, emulator)
    if fault is not None:
        raise UnfitNova(release=release, fault=fault, oldest=OLDEST, newest=NEWEST)
    major = release.partition(".")[0]
    if not (major.isdecimal() and OLDEST <= int(major) <= NEWEST):
        LOG.warning(
            "memhint: Nova %s is not among those the driver is tested with (%d to %d); its parts look right",
            release,
            OLDEST,
            NEWEST,
        )


def shape_fault(nova_driver: type) -> str | None:
    """What of Nova's driver is not as expected; None where nothing is."""
    method: Any = getattr(nova_driver, "_get_guest_config", None)
    if method is None:
        return "LibvirtDriver has no _get_guest_config"
    names = list(inspect.signature(method).parameters)
    if names[:2] != ["self", "instance"]:
        return f"_get_guest_config takes {', '.join(names[:2])} first, not self and instance"
    for name in ("devices", "membacking", "os_arch"):
        if not hasattr(vconfig.LibvirtConfigGuest(), name):
            return f"LibvirtConfigGuest has no {name}"
    return None


def _xml_fault(balloon: type, emulator: type) -> str | None:
    one = balloon()
    one.model, one.period, one.reporting = "virtio", 10, False
    element = one.format_dom()
    wanted = {"model": "virtio", "autodeflate": "on", "freePageReporting": "off"}
    if {name: element.get(name) for name in wanted} != wanted or element.find("stats") is None:
        return f"a balloon becomes {dict(element.attrib)}"
    backing = vconfig.LibvirtConfigGuestMemoryBacking()
    backing.sharedpages = False
    if backing.format_dom().find("nosharepages") is None:
        return "sharedpages = False does not become <nosharepages/>"
    guest = vconfig.LibvirtConfigGuest()
    guest.virt_type = "qemu"
    guest.add_device(emulator("/emulator"))
    if guest.format_dom().findtext("devices/emulator") != "/emulator":
        return "an emulator among the devices does not become <emulator>"
    return None
