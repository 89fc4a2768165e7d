"""The `kernel` and `kpageflags` sources: an extended agent's own view of free and reported memory."""

from __future__ import annotations

from memhint.guest.capabilities import Capabilities
from memhint.guest.clamp import clamped
from memhint.guest.commands import GET_MEMINFO, GET_PAGE_REPORTING
from memhint.guest.errors import GuestCommandFailed
from memhint.guest.meminfo import read_meminfo
from memhint.guest.page_reporting import read_page_reporting
from memhint.guest.protocol import GuestAgent
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.verdict import Answer, Verdict


class ExtendedSource:
    """What the guest's kernel counts, or the agent sees in the page flags. Which of the two, the agent says."""

    name = GuestSource.KERNEL

    def probe(self, capabilities: Capabilities) -> Verdict:
        """Supported where the agent has both commands that it takes."""
        missing = capabilities.refusal(frozenset({GET_PAGE_REPORTING, GET_MEMINFO}))
        if missing is not None:
            return Verdict(Answer.UNSUPPORTED, missing.verdict, missing.detail)
        return Verdict(Answer.UNCHANGED)

    def read(self, agent: GuestAgent, at: float, assigned: int) -> GuestMemory:
        """The counters, and what else the agent tells of the guest's memory.

        :raises GuestCommandFailed: neither the kernel nor its page flags tell what was reported
        :raises GuestError: as the agent's calls do
        """
        found = read_page_reporting(agent)
        if found.source not in (GuestSource.KERNEL, GuestSource.KPAGEFLAGS):
            raise GuestCommandFailed("the guest's kernel does not tell what it reported")
        info = read_meminfo(agent)
        memory = GuestMemory(
            source=GuestSource(found.source),
            at=at,
            total=info.total,
            free=found.free,
            available=info.available,
            cached=info.cached,
            reported=found.reported,
            unreported=found.unreported,
            lifetime_reported=found.total_reported,
        )
        return clamped(memory, assigned)
