"""The page-reporting switch of a stock guest kernel: reading it, and the three writes that move it.

A 6.1 kernel stops reporting at order 11; a 6.12 kernel refuses orders above 10 with EINVAL, there only taking the
driver off the balloon device helps. While unbound, the balloon's statistics and target are gone; binding starts a
reporting pass by itself. Whether a write may be made at all (consent, an inflated balloon) is the lever's to decide.
"""

from __future__ import annotations

import re

from memhint.guest.capabilities import Capabilities
from memhint.guest.commands import GET_PAGE_REPORTING
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed
from memhint.guest.files import read_file, write_file
from memhint.guest.page_reporting import ReportingParameter, read_settings
from memhint.guest.protocol import GuestAgent
from memhint.objects.guest import GuestKernel

MAX_PAGE_ORDER = 10  # x86 and arm64 with 4 KiB pages: a larger order names no block
STOP_ORDER = 11  # above every block a 4 KiB-page kernel has; accepted before 6.12
UNSET_ORDERS = frozenset({-1, (1 << 32) - 1})  # no order has been chosen; as %d and as %u print it

_ORDER_PATH = "/sys/module/page_reporting/parameters/page_reporting_order"
_DEVICES = "/sys/bus/virtio/devices"
_DRIVER = "/sys/bus/virtio/drivers/virtio_balloon"
_DEVICE = re.compile(r"virtio[0-9]{1,3}")
_BALLOON_ID = "0x0005"
_REPORTING_FEATURE = 5  # VIRTIO_BALLOON_F_REPORTING
_DEVICES_MAX = 32
_HOLES_MAX = 3  # numbers are given in sequence; unplugging leaves few holes
_WRITABLE_ORDER_MAX = 16  # the kernel shifts by it without a check before 6.12
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_FEATURES = re.compile(r"[01]{6,512}")
_SMALL = 1024


def reports(kernel: GuestKernel) -> bool | None:
    """Whether a guest's switch lets it report free pages; None where no switch was read."""
    if kernel.enabled is not None:
        return kernel.enabled
    if kernel.order is None:
        return None
    return kernel.balloon_bound is not False and (kernel.order <= MAX_PAGE_ORDER or kernel.order in UNSET_ORDERS)


def read_guest_kernel(agent: GuestAgent, at: float, capabilities: Capabilities, hint: str | None = None) -> GuestKernel:
    """The guest's kernel and its reporting switch, ``at`` now in unix seconds.

    ``hint`` is the balloon device found last time: with it the search costs one file instead of many.
    What the guest's kernel does not have is None.

    :raises GuestAnswerMalformed: a file is there and makes no sense
    :raises GuestError: as the agent's calls do
    """
    if GET_PAGE_REPORTING in capabilities.commands:
        settings = read_settings(agent)
        if ReportingParameter.ENABLED in settings.settable:
            # A kernel with a switch of its own: the files below tell nothing more, and may be blocked.
            return GuestKernel(
                at=at,
                release=capabilities.release,
                boot_id=capabilities.boot_id,
                order=settings.order,
                reporting_offered=settings.negotiated,
                settable=tuple(sorted(settings.settable)),
                enabled=settings.enabled,
                delay_ms=settings.delay_ms,
                os=capabilities.os,
            )
    device = find_balloon(agent, hint)
    return GuestKernel(
        at=at,
        release=capabilities.release,
        boot_id=capabilities.boot_id,
        order=read_order(agent),
        balloon_device=device,
        balloon_bound=None if device is None else is_bound(agent, device),
        reporting_offered=None if device is None else read_reporting_feature(agent, device),
        os=capabilities.os,
    )


def read_order(agent: GuestAgent) -> int | None:
    """page_reporting_order as the file has it (see UNSET_ORDERS); None where the kernel has no such file.

    :raises GuestError: it is there and is no order, or the agent's calls fail
    """
    text = _read_small(agent, _ORDER_PATH)
    if text is None:
        return None
    order = int(text) if _NUMBER.fullmatch(text) else None
    if order is None or not -1 <= order < 1 << 32:
        raise GuestAnswerMalformed("not an order", _ORDER_PATH)
    return order


def find_balloon(agent: GuestAgent, hint: str | None = None) -> str | None:
    """The name of the guest's balloon device, "virtio3"; None where it shows none.

    :raises GuestError: as the agent's calls do
    """
    if hint is not None and _DEVICE.fullmatch(hint) and _device_id(agent, _DEVICES, hint) == _BALLOON_ID:
        return hint
    seen_any = False
    holes = 0
    for number in range(_DEVICES_MAX):
        device = f"virtio{number}"
        found = _device_id(agent, _DEVICES, device)
        if found == _BALLOON_ID:
            return device
        seen_any = seen_any or found is not None
        holes = 0 if found is not None else holes + 1
        if seen_any and holes >= _HOLES_MAX:
            return None
    return None


def is_bound(agent: GuestAgent, device: str) -> bool:
    """Whether the balloon driver serves the device.

    :raises GuestAnswerMalformed: ``device`` is no device name
    :raises GuestError: as the agent's calls do
    """
    return _device_id(agent, _DRIVER, _valid(device)) is not None


def read_reporting_feature(agent: GuestAgent, device: str) -> bool | None:
    """Whether free page reporting was negotiated; None where the features cannot be read.

    :raises GuestAnswerMalformed: ``device`` is no device name, or the features are no bits
    :raises GuestError: as the agent's calls do
    """
    path = f"{_DEVICES}/{_valid(device)}/features"
    text = _read_small(agent, path)
    if text is None:
        return None
    if _FEATURES.fullmatch(text) is None:
        raise GuestAnswerMalformed("not a row of feature bits", path)
    return text[_REPORTING_FEATURE] == "1"


def may_be_written(order: int) -> bool:
    """Whether a kernel should be given this order."""
    return 0 <= order <= _WRITABLE_ORDER_MAX


def write_order(agent: GuestAgent, order: int) -> None:
    """Set page_reporting_order. Read it back: the guest's word is all there is.

    :raises ValueError: an order that no kernel should be given; nothing was sent
    :raises GuestWriteRefused: the kernel refuses it (EINVAL above 10 since 6.12)
    :raises GuestCommandFailed: it has no such file
    :raises GuestError: as the agent's calls do
    """
    if not may_be_written(order):
        raise ValueError(f"order {order} is not within 0 to {_WRITABLE_ORDER_MAX}")
    write_file(agent, _ORDER_PATH, str(order))


def unbind(agent: GuestAgent, device: str) -> None:
    """Take the balloon driver off the device: reporting, the balloon's statistics and its target end.

    :raises GuestAnswerMalformed: ``device`` is no device name; nothing was sent
    :raises GuestCommandFailed: the kernel refuses, for example because the device is not bound
    :raises GuestError: as the agent's calls do
    """
    write_file(agent, f"{_DRIVER}/unbind", _valid(device))


def bind(agent: GuestAgent, device: str) -> None:
    """Give the device back to the balloon driver: a reporting pass follows by itself.

    :raises GuestAnswerMalformed: ``device`` is no device name; nothing was sent
    :raises GuestCommandFailed: the kernel refuses, for example because the device is bound already
    :raises GuestError: as the agent's calls do
    """
    write_file(agent, f"{_DRIVER}/bind", _valid(device))


def _valid(device: str) -> str:
    """The name came from the guest once and becomes part of a path there."""
    if _DEVICE.fullmatch(device) is None:
        raise GuestAnswerMalformed("not the name of a virtio device", "balloon_device")
    return device


def _device_id(agent: GuestAgent, folder: str, device: str) -> str | None:
    return _read_small(agent, f"{folder}/{device}/device")


def _read_small(agent: GuestAgent, path: str) -> str | None:
    """The stripped text of a sysfs file, None where it cannot be opened: agents word ENOENT in the guest's language."""
    try:
        return read_file(agent, path, limit=_SMALL).strip()
    except GuestCommandFailed:
        return None
