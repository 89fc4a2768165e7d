"""The `proc` source: a stock agent reads /proc/meminfo and /proc/buddyinfo of a stock kernel."""

from __future__ import annotations

from memhint.guest import files
from memhint.guest.capabilities import WINDOWS, Capabilities
from memhint.guest.clamp import clamped
from memhint.guest.errors import GuestError, GuestSilent
from memhint.guest.proc import parse_buddyinfo, parse_meminfo
from memhint.guest.protocol import GuestAgent
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.units import KIB
from memhint.objects.verdict import Answer, Reason, Verdict


class ProcSource:
    """Reads free memory, in total and by order. What was reported to the host it cannot know."""

    name = GuestSource.PROC

    def __init__(self, page_size: int = 4 * KIB) -> None:
        self._page_size = page_size  # of the guest, in bytes: buddyinfo counts pages

    def probe(self, capabilities: Capabilities) -> Verdict:
        """Supported where there is a /proc, and the agent has the file commands that many distributions block."""
        if capabilities.os == WINDOWS:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "Windows has no /proc")
        missing = capabilities.refusal(files.READ_COMMANDS)
        if missing is not None:
            return Verdict(Answer.UNSUPPORTED, missing.verdict, missing.detail)
        return Verdict(Answer.UNCHANGED)

    def read(self, agent: GuestAgent, at: float, assigned: int) -> GuestMemory:
        """The numbers of /proc/meminfo, with those of /proc/buddyinfo where it can be read.

        :raises GuestError: /proc/meminfo cannot be read or makes no sense, or the guest fell silent
        """
        info = parse_meminfo(files.read_file(agent, "/proc/meminfo"))
        by_order: tuple[int, ...] | None
        try:
            by_order = parse_buddyinfo(files.read_file(agent, "/proc/buddyinfo"), self._page_size)
        except GuestSilent:
            raise
        except GuestError:
            by_order = None
        memory = GuestMemory(
            source=self.name,
            at=at,
            total=info.total,
            free=info.free,
            available=info.available,
            cached=info.cached,
            free_by_order=by_order,
        )
        return clamped(memory, assigned)
