"""Every way the lab can refuse or fail, each saying what to do next."""

from __future__ import annotations


class LabError(Exception):
    """Anything the lab reports to its user; the message ends with what to do."""


class NotRoot(LabError):
    """The lab makes namespaces, cgroups and swap, which only root may."""


class MissingPackage(LabError):
    """A program the lab calls is not installed."""


class BadSize(LabError):
    """A size string that is not a number of bytes with a binary unit."""


class UnknownKernel(LabError):
    """A guest kernel the lab cannot fetch here."""


class BudgetTooLarge(LabError):
    """The hosts together would need more memory than the machine can give."""


class ImageError(LabError):
    """The guest image could not be built."""


class CgroupError(LabError):
    """The memory hierarchy is absent, or a process is not where it has to be."""


class SwapError(LabError):
    """The swap file could not be made or taken away."""


class HostError(LabError):
    """A host's libvirt did not start, or stopped answering."""


class BootError(LabError):
    """A guest did not come up; carries the end of its serial console."""


class WorkError(LabError):
    """The guest's workload program refused a request or did not answer."""


class KvmError(LabError):
    """KVM was asked for and does not boot a guest on this machine."""


class StateError(LabError):
    """No lab of that name, or one that is already there."""


class Timeout(LabError):
    """A condition did not come true within its deadline."""
