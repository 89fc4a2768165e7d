"""Cache: a guest gives up page cache that it has not used recently, compacts, and reports what became free.

The guest's kernel chooses what it gives up, and its own memory pressure ends it. Nothing is set, so nothing is to be
undone: what the guest needs again it reads again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from memhint.guest.capabilities import Capabilities
from memhint.guest.commands import GET_MEMINFO, GET_PAGE_REPORTING, RECLAIM_MEMORY
from memhint.guest.errors import GuestAgentAbsent, GuestCommandFailed, GuestCommandMissing, GuestError, GuestTimeout
from memhint.guest.meminfo import read_meminfo
from memhint.guest.page_reporting import ReportingParameter, read_settings, set_page_reporting
from memhint.guest.protocol import GuestAgent
from memhint.guest.reclaim import Progress, reclaim
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.guest import GuestKernel
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.policy import Policy
from memhint.objects.reclaim import SMALLEST, Compaction, Reclaim, Stop, state_of
from memhint.objects.units import mib
from memhint.objects.verdict import Answer, Reason, Verdict

COMMANDS = frozenset({RECLAIM_MEMORY, GET_MEMINFO})
IDLE = "on request"  # nothing is wished of this lever but by a request
_FLUSHES_MAX = 20  # calls of at most 1.5 s
_SETTLE_S = 10.0  # at most, for what was freed to come back
_QUIET_S = 1.0  # without a change, more than a guest's delay
_LOOK_S = 0.25
_DEFAULT_DELAY_MS = 2000
_REPORTING_OFF = Verdict(
    Answer.REFUSED, Reason.REPORTING_OFF, "reporting is off in this guest: what it frees would not come back"
)


@dataclass(frozen=True, slots=True)
class CacheTarget:
    """One VM as the lever sees it.

    ``conversation`` gives the guest's agent, for one call or a few quick ones; ``footprint`` what its QEMU costs the
    host now, in bytes.
    """

    domain: DomainObservation
    policy: Policy
    capabilities: Callable[[], Capabilities]
    conversation: Callable[[], AbstractContextManager[GuestAgent]]
    footprint: Callable[[], int | None]


class CacheLever:
    """Page cache per VM, on request. Its pull may take as long as the request gives it."""

    name = LeverName.CACHE

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep

    def probe(self, domain: DomainObservation, capabilities: Capabilities | None) -> Verdict:
        """Whether this VM's cache can be had at all, consent aside. Asks no guest."""
        if domain.state is not DomainState.RUNNING:
            return Verdict(Answer.UNSUPPORTED, Reason.NOT_RUNNING, f"the VM is {domain.state}")
        if not domain.facts.reporting_offered:
            return Verdict(
                Answer.UNSUPPORTED,
                Reason.DEVICE,
                "it was started without freePageReporting: what the guest frees would not come back",
            )
        if not domain.facts.guest_agent:
            return Verdict(Answer.UNSUPPORTED, Reason.NO_GUEST_AGENT, "the VM has no channel for a guest agent")
        if capabilities is None:
            return Verdict(Answer.UNSUPPORTED, Reason.NO_GUEST_AGENT, "the guest has not said what its agent can do")
        missing = capabilities.refusal(COMMANDS)
        if missing is not None:
            return Verdict(Answer.UNSUPPORTED, missing.verdict, missing.detail)
        if domain.guest_kernel is not None and domain.guest_kernel.enabled is False:
            return _REPORTING_OFF
        return Verdict(Answer.UNCHANGED)

    def read(self, domain: DomainObservation, capabilities: Capabilities | None, last: Reclaim | None) -> Observed:
        """``on`` while a reclaim or its hold goes on, ``off`` where one could; who cannot be asked is unknown."""
        support = self.probe(domain, capabilities)
        if support.reason in (Reason.NOT_RUNNING, Reason.NO_GUEST_AGENT):
            return Observed.UNKNOWN
        if support.answer is Answer.UNSUPPORTED or (last is not None and last.verdict.reason is Reason.KERNEL):
            return Observed.UNSUPPORTED
        return Observed.ON if last is not None and not last.state.ended else Observed.OFF

    def state(self, domain: DomainObservation, capabilities: Capabilities | None, last: Reclaim | None) -> LeverState:
        """The lever's three fields for one VM, from the newest request to it."""
        observed = self.read(domain, capabilities, last)
        if last is not None:
            return LeverState(self.name, domain.uuid, _wish(last), observed, last.verdict)
        support = self.probe(domain, capabilities)
        # Nothing is wished, so nothing is refused; why it could not be is still worth saying.
        return LeverState(
            self.name, domain.uuid, IDLE, observed, Verdict(Answer.UNCHANGED, support.reason, support.detail)
        )

    def pull(self, target: CacheTarget, wanted: Reclaim, tell: Callable[[Reclaim], Verdict | None]) -> Reclaim:
        """Carry a request out, or say why not; the request as it ended.

        :param tell: told of the progress after each call; a verdict ends it there and is its own
        """
        try:
            capabilities = target.capabilities()
        except GuestError as error:
            return _ended(wanted, verdict_of(error))
        support = self.probe(target.domain, capabilities)
        if not support.ok:
            return _ended(wanted, support)
        if not target.policy.guest_actions:
            return _ended(
                wanted,
                Verdict(
                    Answer.REFUSED, Reason.CONSENT, "it happens inside the guest, and guest_actions is deny for it"
                ),
            )
        try:
            if GET_PAGE_REPORTING in capabilities.commands and _off(target):
                return _ended(wanted, _REPORTING_OFF)
            wanted, detail = self._measure(target, wanted)
        except GuestError as error:
            return _ended(wanted, verdict_of(error))
        if wanted.request.dry_run:
            return _ended(wanted, Verdict(Answer.PLANNED, Reason.DRY_RUN, detail))
        if not wanted.asked:
            return replace(_ended(wanted, Verdict(Answer.UNCHANGED, Reason.NONE, detail)), stop=Stop.EXHAUSTED)
        return self.carry_out(target, replace(wanted, before=target.footprint()), tell)

    def undo(self) -> Verdict:
        """Nothing was set: a guest reads again what it needs again."""
        return Verdict(Answer.UNCHANGED, Reason.NONE, "a reclaim sets nothing that could be put back")

    def _measure(self, target: CacheTarget, wanted: Reclaim) -> tuple[Reclaim, str]:
        """How much to ask for: what was wished, and never more than was not used recently.

        Beyond that the kernel takes what is in use, and the guest reads it again.
        """
        with target.conversation() as agent:
            info = read_meminfo(agent)
        memory = min(target.domain.facts.memory, info.total)
        cached = min(memory, info.cached or 0)
        cold = min(cached, info.cold) if info.cold is not None else cached
        asked = cold if wanted.request.size is None else min(wanted.request.size, cold)
        asked = 0 if asked < SMALLEST else asked
        holds = f"it holds {mib(cached)} MiB, {mib(cold)} of them not used recently"
        limits = f"for {wanted.request.timeout:g} s at most, below {wanted.request.psi_limit:g} % pressure"
        detail = f"ask the guest for {mib(asked)} MiB of page cache, {limits}; {holds}"
        if wanted.request.hold:
            detail += f"; then take back for {wanted.request.hold:g} s what it fills again"
        return replace(wanted, asked=asked), detail if asked else f"there is no cold page cache to ask for: {holds}"

    def carry_out(self, target: CacheTarget, wanted: Reclaim, tell: Callable[[Reclaim], Verdict | None]) -> Reclaim:
        """Ask for what ``wanted.asked`` says, of a guest that may be asked; the request as it ended."""
        request, assigned = wanted.request, target.domain.facts.memory
        now = wanted
        word: Verdict | None = None
        trouble: Verdict | None = None

        def noted(progress: Progress) -> Reclaim:
            return replace(
                wanted,
                reclaimed=min(progress.reclaimed, assigned),
                compaction=progress.compaction,
                pressure=progress.pressure,
                calls=progress.calls,
                stop=progress.stop,
                after=target.footprint(),
            )

        def told(progress: Progress) -> bool:
            nonlocal now, word
            now = noted(progress)
            word = tell(now)
            return word is None

        try:
            progress = reclaim(
                target.conversation,
                wanted.asked or 0,
                request.psi_limit,
                request.timeout,
                tell=told,
                clock=self._clock,
                sleep=self._sleep,
            )
            now = noted(progress)
        except GuestError as error:
            now, trouble = replace(now, stop=Stop.LOST), verdict_of(error)
        if now.reclaimed and word is None and trouble is None:
            now = self._report(target, now, tell)
        now = replace(now, after=target.footprint())
        return _ended(now, word or trouble or _verdict(now))

    def _report(self, target: CacheTarget, now: Reclaim, tell: Callable[[Reclaim], Verdict | None]) -> Reclaim:
        """Have it reported: at once where the guest can flush, else as its delay goes; then look what came back.

        What goes wrong here, or ends it here, costs a flush and not the reclaim.
        """
        delay_ms, flushed = _delay_ms(target.domain.guest_kernel), None
        try:
            with target.conversation() as agent:
                settings = read_settings(agent)
            delay_ms = delay_ms if settings.delay_ms is None else settings.delay_ms
            # A flush first puts back what CPUs keep to themselves, which is free and counts as nothing of this.
            left = max(settings.unreported or 0, now.reclaimed)
            if ReportingParameter.FLUSH in settings.settable:
                flushed = 0
                for _ in range(_FLUSHES_MAX):
                    if left < SMALLEST or tell(now) is not None:
                        break
                    with target.conversation() as agent:
                        change = set_page_reporting(agent, flush=left)
                    flushed += min(change.flushed, left)
                    left = left - change.flushed if change.more else 0
        except GuestError:
            flushed = None
        quiet = _QUIET_S if flushed is not None else _QUIET_S + delay_ms / 1000
        self._settle(target, quiet, lambda seen: tell(replace(now, after=seen)) is None)
        return replace(now, flushed=flushed)

    def _settle(self, target: CacheTarget, quiet: float, tell: Callable[[int], bool]) -> None:
        """Wait until the VM's footprint has not fallen for ``quiet`` seconds, or the request was taken back."""
        began = still = self._clock()
        lowest = target.footprint()
        while self._clock() - still < quiet and self._clock() - began < _SETTLE_S + quiet:
            self._sleep(_LOOK_S)
            seen = target.footprint()
            if seen is None or lowest is None or not tell(seen):
                return
            if seen < lowest:
                lowest, still = seen, self._clock()


def verdict_of(error: GuestError) -> Verdict:
    """What a guest that could not be asked, or said no, makes of a reclaim."""
    if isinstance(error, GuestTimeout):
        return Verdict(Answer.FAILED, Reason.GUEST_TIMEOUT, error.detail)
    if isinstance(error, GuestAgentAbsent):
        return Verdict(Answer.UNSUPPORTED, Reason.NO_GUEST_AGENT, error.detail)
    if isinstance(error, GuestCommandMissing):
        return Verdict(Answer.UNSUPPORTED, error.verdict, error.detail)
    if isinstance(error, GuestCommandFailed) and "does not support" in error.detail:
        return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, error.detail)
    return Verdict(Answer.FAILED, Reason.GUEST_ANSWER, error.detail)


def _verdict(ended: Reclaim) -> Verdict:
    detail = f"{mib(ended.reclaimed)} of {mib(ended.asked)} MiB reclaimed, {_COMPACTED[ended.compaction]}"
    if ended.stop is Stop.PRESSURE:
        pressure = "" if ended.pressure is None else f" ({ended.pressure:.1f} %)"
        detail += f"; the guest's memory pressure{pressure} passed {ended.request.psi_limit:g} %"
        answer = Answer.APPLIED if ended.reclaimed else Answer.REFUSED
        return Verdict(answer, Reason.GUEST_PRESSURE, detail)
    if ended.stop is Stop.SWAP:
        return Verdict(Answer.APPLIED, Reason.GUEST_PRESSURE, f"{detail}; the guest began to swap")
    if ended.stop is Stop.DEADLINE:
        return Verdict(Answer.APPLIED, Reason.TIME_UP, f"{detail}; its {ended.request.timeout:g} s are over")
    if ended.stop is Stop.EXHAUSTED:
        return Verdict(Answer.APPLIED, Reason.NONE, f"{detail}; the guest finds no more")
    return Verdict(Answer.APPLIED, Reason.NONE, detail)


_COMPACTED = {
    Compaction.NONE: "not compacted",
    Compaction.RUNNING: "compaction goes on",
    Compaction.DONE: "compacted",
    Compaction.STOPPED: "compaction was stopped",
    Compaction.FAILED: "compaction failed",
    Compaction.UNSUPPORTED: "its kernel does not compact",
}


def _ended(reclaim: Reclaim, verdict: Verdict) -> Reclaim:
    return replace(reclaim, state=state_of(verdict), verdict=verdict)


def _wish(reclaim: Reclaim) -> str:
    size, hold = reclaim.request.size, reclaim.request.hold
    what = "reclaim all that is cold" if size is None else f"reclaim {mib(size)} MiB"
    return f"{what}, hold {hold:.0f} s" if hold else what


def _off(target: CacheTarget) -> bool:
    """Whether a guest of which no kernel was seen lately says by itself that its reporting is off.

    :raises GuestError: it does not answer
    """
    if target.domain.guest_kernel is not None:
        return False
    with target.conversation() as agent:
        return read_settings(agent).enabled is False


def _delay_ms(kernel: GuestKernel | None) -> int:
    return kernel.delay_ms if kernel is not None and kernel.delay_ms is not None else _DEFAULT_DELAY_MS
