"""Of which boot of a guest a mark is: what was set there goes with it.

An agent that may not read the boot's id tells none. A mark of then names no boot, and what stands in the guest decides.
"""

from __future__ import annotations

from memhint.objects.guest import GuestKernel
from memhint.objects.ownership import Ledger, Mark


def booted_since(kernel: GuestKernel | None, mark: Mark) -> bool:
    """Whether the guest is known to have booted since the mark was made."""
    return kernel is not None and kernel.boot_id is not None and mark.instance not in ("", kernel.boot_id)


def may_be_of_this_boot(kernel: GuestKernel, mark: Mark) -> bool:
    """Whether what the mark tells of may still stand there."""
    return mark.instance in ("", kernel.boot_id or "")


def drop_if_set_since(ledger: Ledger, kernel: GuestKernel, mark: Mark | None, present: str) -> None:
    """Forget the mark of a knob that somebody else has set since, and that is about to be changed again.

    What they have set is what is to go back one day; with the mark in place the ledger would keep its ``before``.
    """
    if mark is not None and may_be_of_this_boot(kernel, mark) and not mark.made(present) and mark.before != present:
        ledger.remove(mark.subject, mark.knob)


def before(ledger: Ledger, uuid: str, knob: str, present: str) -> str:
    """What a knob is to go back to, as one finds ``present`` there and is about to change it.

    Where memhint set that itself, in a boot that nobody could name then, it is what was there before that.
    """
    known = ledger.get(uuid, knob)
    return known.before if known is not None and not known.instance and known.made(present) else present
