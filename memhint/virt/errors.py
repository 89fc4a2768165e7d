"""What can go wrong between memhint and libvirt."""

from __future__ import annotations

from memhint.objects.gap import AbsentError, GapReason


class VirtError(AbsentError):
    """Something libvirt did not give."""


class LibvirtUnavailable(VirtError):
    """No connection: libvirtd is down, or restarts."""


class LibvirtCallFailed(VirtError):
    """libvirt answered with an error."""


class MonitorCommandUnknown(LibvirtCallFailed):
    """This QEMU does not have the command."""

    reason = GapReason.UNSUPPORTED


class DeviceAbsent(LibvirtCallFailed):
    """This QEMU has the command, and not now the device that it is about."""

    reason = GapReason.UNSUPPORTED


class MonitorAnswerMalformed(LibvirtCallFailed):
    """QEMU answered what it should not."""

    reason = GapReason.MALFORMED


class CallTimeout(VirtError):
    """A call did not return in time, most often because one QEMU does not answer its monitor."""

    reason = GapReason.TIMEOUT


class DomainGone(VirtError):
    """The domain does not exist any more."""

    reason = GapReason.GONE


class DomainXMLError(VirtError):
    """A domain definition that cannot be understood."""

    reason = GapReason.MALFORMED
