"""How many files and connections the agent may have open at a time."""

from __future__ import annotations

import logging
import resource

LOG = logging.getLogger(__name__)
MOST = 65_536  # as the unit has it


def allow_many_descriptors() -> None:
    """Raise this process's limit as far as its own bound on that lets it, `MOST` at most.

    A container has no unit that does, and programs that use select(2) are the reason for the 1,024 that are usual. The
    agent is none of them, and what it looks at of thousands of VMs at a time must not depend on that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        LOG.warning("no more than %d files can be open at a time: %s", soft, error)
