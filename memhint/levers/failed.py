"""The verdict on a VM when the host's kernel refused, or failed."""

from __future__ import annotations

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.objects.verdict import Answer, Reason, Verdict


def failed(error: KernelInterfaceError) -> Verdict:
    """The verdict on one VM: it has gone, this kernel cannot do it, or it failed."""
    if isinstance(error, ProcessGone):
        return Verdict(Answer.PENDING, Reason.NOT_RUNNING, str(error))
    if isinstance(error, InterfaceMissing):
        return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, str(error))
    return Verdict(Answer.FAILED, Reason.KERNEL, str(error))
