"""/sys/kernel/mm/ksm: what same-page merging does on this host, and the knobs that drive it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, WriteRejected
from memhint.kernel.fields import chosen_word, page_counter, signed_number
from memhint.kernel.ksm_partition import has_partitions
from memhint.kernel.root import KernelRoot
from memhint.kernel.vmstat import cow_breaks
from memhint.objects.host import Ksm

T = TypeVar("T")

_DIRECTORY = "sys/kernel/mm/ksm"


class KsmKnob(StrEnum):
    """The files below /sys/kernel/mm/ksm that memhint may write."""

    RUN = "run"
    USE_ZERO_PAGES = "use_zero_pages"
    ZERO_PAGES_ONLY = "zero_pages_only"  # only kernels with the patches of kernel/, series host
    REDHAT_ONLY_ZERO_PAGES = "redhat_only_zero_pages"  # the same of Red Hat Enterprise Linux 9.9 and its like
    PAGES_TO_SCAN = "pages_to_scan"
    SLEEP_MILLISECS = "sleep_millisecs"
    SMART_SCAN = "smart_scan"
    ADVISOR_MODE = "advisor_mode"
    ADVISOR_TARGET_SCAN_TIME = "advisor_target_scan_time"
    ADVISOR_MAX_CPU = "advisor_max_cpu"


EMPTY_ONLY = (KsmKnob.ZERO_PAGES_ONLY, KsmKnob.REDHAT_ONLY_ZERO_PAGES)
"""Knobs that have KSM merge empty pages only; no kernel has both."""


def read_ksm(root: KernelRoot) -> Ksm:
    """The state of KSM; counters are in pages.

    :raises InterfaceMissing: when the kernel is built without KSM
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    try:
        return _read(root)
    except InterfaceMissing as error:
        if not root.exists(_DIRECTORY):
            raise
        raise InterfaceMalformed(error.path, "KSM is there without it") from error


def _read(root: KernelRoot) -> Ksm:
    run = _number(root, "run")
    if run > 2:
        raise InterfaceMalformed(root.path(f"{_DIRECTORY}/run"), f"run is {run}")
    return Ksm(
        run=run,
        pages_shared=_number(root, "pages_shared"),
        pages_sharing=_number(root, "pages_sharing"),
        zero_pages=_if_present(lambda: page_counter(*_text(root, "ksm_zero_pages"))),
        general_profit=_if_present(lambda: signed_number(*_text(root, "general_profit"))),
        full_scans=_number(root, "full_scans"),
        pages_to_scan=_number(root, "pages_to_scan"),
        sleep_millisecs=_number(root, "sleep_millisecs"),
        use_zero_pages=_number(root, "use_zero_pages") != 0,
        advisor=_if_present(lambda: read_knob(root, KsmKnob.ADVISOR_MODE)),
        cow_breaks=cow_breaks(root),
        partitions=has_partitions(root),
        empty_only=_empty_only(root),
    )


def read_knob(root: KernelRoot, knob: KsmKnob) -> str:
    """The value of one knob; of the advisor's mode the chosen word.

    :raises InterfaceMissing: when this kernel does not have the knob
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    text, path = _text(root, knob)
    return chosen_word(text, path) if knob is KsmKnob.ADVISOR_MODE else text


def write_knob(root: KernelRoot, knob: KsmKnob, value: str) -> None:
    """Set one knob and read it back. Writing 2 to ``run`` unmerges everything and can take minutes.

    :raises InterfaceMissing: when this kernel does not have the knob
    :raises WriteRejected: when the kernel refuses the value, or another one is read back
    :raises KernelInterfaceError: when it cannot be read back
    """
    relative = f"{_DIRECTORY}/{knob}"
    root.write_text(relative, f"{value}\n")
    found = read_knob(root, knob)
    if found != value:
        raise WriteRejected(root.path(relative), f"wrote {value!r}, reads {found!r}")


def counts_zero_pages(root: KernelRoot) -> bool:
    """Whether the kernel tells which memory became the zero page: from Linux 6.6 on.

    Before, such memory is gone from its process uncounted. One write brings it back, and KSM cannot separate it.
    """
    return root.exists(f"{_DIRECTORY}/ksm_zero_pages")


def _empty_only(root: KernelRoot) -> bool | None:
    found = [_number(root, knob) != 0 for knob in EMPTY_ONLY if root.exists(f"{_DIRECTORY}/{knob}")]
    return any(found) if found else None


def _text(root: KernelRoot, name: str) -> tuple[str, str]:
    relative = f"{_DIRECTORY}/{name}"
    path = root.path(relative)
    text = root.read_text(relative).strip()
    if not text:
        raise InterfaceMalformed(path, "empty")
    return text, path


def _number(root: KernelRoot, name: str) -> int:
    return root.read_int(f"{_DIRECTORY}/{name}")


def _if_present(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except InterfaceMissing:
        return None
