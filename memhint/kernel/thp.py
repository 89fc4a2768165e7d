"""/sys/kernel/mm/transparent_hugepage: when the kernel backs memory with huge pages."""

from __future__ import annotations

from memhint.kernel.fields import chosen_word
from memhint.kernel.root import KernelRoot
from memhint.objects.host import Thp

_DIRECTORY = "sys/kernel/mm/transparent_hugepage"


def read_thp(root: KernelRoot) -> Thp:
    """The chosen words of the two switches.

    :raises InterfaceMissing: when the kernel is built without transparent huge pages
    :raises KernelInterfaceError: when a switch cannot be read or makes no sense
    """
    return Thp(enabled=_chosen(root, "enabled"), defrag=_chosen(root, "defrag"))


def _chosen(root: KernelRoot, name: str) -> str:
    relative = f"{_DIRECTORY}/{name}"
    return chosen_word(root.read_text(relative), root.path(relative))
