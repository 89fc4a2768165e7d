"""Pages of a process that the kernel's zero page stands for although KSM does not count them.

Since Linux 6.12 the kernel maps the zero page for each page of zeros of a huge page that it splits, whoever has it
split: the process has less memory, `ksm_zero_pages` does not tell, and one write each brings them back. What a guest
has read and never written is among them where the kernel gave it single pages.
"""

from __future__ import annotations

import errno
import os

from memhint.kernel.errors import InterfaceUnreadable, ProcessGone
from memhint.kernel.last_mapping import last_mapping_end
from memhint.kernel.pagemap_scan import PageCategory, is_missing, total
from memhint.kernel.process import ksm_pages
from memhint.kernel.root import PAGE_SIZE, KernelRoot


def zero_mapped(root: KernelRoot, pid: int, page_size: int = PAGE_SIZE) -> int | None:
    """Bytes of them; None before Linux 6.7, which does not tell. Takes 1 ms per GiB, up to 10 where they lie scattered.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when it cannot be looked at
    """
    path = root.path(f"proc/{pid}/pagemap")
    pagemap = root.open(f"proc/{pid}/pagemap")
    try:
        end = last_mapping_end(root, pid)
        zeros = total(
            pagemap, end, PageCategory.ZERO, without=PageCategory.HUGE
        )  # a huge zero page is of memory that was only ever read
    except OSError as error:
        if is_missing(error):
            return None
        if error.errno == errno.ESRCH:
            raise ProcessGone(path, "the process ended") from error
        raise InterfaceUnreadable(path, os.strerror(error.errno or 0)) from error
    finally:
        os.close(pagemap)
    _, counted = ksm_pages(root, pid)
    return max(0, zeros - (counted or 0) * page_size)
