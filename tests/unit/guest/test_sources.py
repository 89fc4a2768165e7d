from __future__ import annotations

import pytest

from memhint.guest.capabilities import Capabilities
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed, GuestCommandMissing, GuestError, GuestTimeout
from memhint.guest.protocol import GuestAgent
from memhint.guest.sources import READERS, best, read_memory, withheld
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.verdict import Answer, Reason, Verdict

from .fake_agent import FakeAgent

CAPABILITIES = Capabilities("1", frozenset())


class Source:
    """A source that does as told."""

    def __init__(self, name: GuestSource, error: GuestError | None = None, supported: bool = True) -> None:
        self.name = name
        self.error = error
        self.supported = supported
        self.reads = 0

    def probe(self, capabilities: Capabilities) -> Verdict:
        return Verdict(Answer.UNCHANGED) if self.supported else Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "too old")

    def read(self, agent: GuestAgent, at: float, assigned: int) -> GuestMemory:
        self.reads += 1
        if self.error:
            raise self.error
        return GuestMemory(self.name, at, free=1)


def read(*sources: Source) -> GuestMemory:
    return read_memory(GuestAgent(FakeAgent()), CAPABILITIES, 1.0, 100, sources)


def test_the_readers_are_ordered_best_first_as_the_sources_are() -> None:
    ranks = list(GuestSource)
    order = [ranks.index(reader.name) for reader in READERS]
    assert order == sorted(order)
    assert GuestSource.PROC in [reader.name for reader in READERS]


def test_the_first_source_that_works_is_used_and_no_other() -> None:
    better, worse = Source(GuestSource.KPAGEFLAGS), Source(GuestSource.PROC)
    assert read(better, worse).source is GuestSource.KPAGEFLAGS
    assert worse.reads == 0


def test_a_source_that_is_not_supported_is_not_read() -> None:
    better, worse = Source(GuestSource.KERNEL, supported=False), Source(GuestSource.PROC)
    assert read(better, worse).source is GuestSource.PROC
    assert better.reads == 0


def test_a_better_source_that_the_administrator_blocks_is_named() -> None:
    stock = frozenset({"guest-file-open"})
    extended = frozenset({"guest-get-meminfo", "guest-get-page-reporting"})
    read = GuestMemory(GuestSource.PROC, 1.0)
    gap = withheld(Capabilities("10.0", stock, blocked=extended), read)
    assert gap is not None
    assert (gap.what, gap.reason) == ("guest memory", GapReason.UNSUPPORTED)
    assert "blocked by the guest's administrator: allow guest-get-meminfo, guest-get-page-reporting" in gap.detail
    one = Capabilities("10.0", stock | {"guest-get-page-reporting"}, blocked=frozenset({"guest-get-meminfo"}))
    gap = withheld(one, read)
    assert gap is not None
    assert "allow guest-get-meminfo in" in gap.detail
    # an agent that never had it lacks nothing that anybody could allow, and a worse source is not missed
    assert withheld(Capabilities("10.0", stock), read) is None
    better = Capabilities("10.0", extended, blocked=stock)
    assert withheld(better, GuestMemory(GuestSource.KPAGEFLAGS, 1.0)) is None


def test_a_source_that_fails_gives_way_to_the_next() -> None:
    assert read(Source(GuestSource.KERNEL, GuestAnswerMalformed("x")), Source(GuestSource.PROC)).free == 1


def test_a_silent_guest_is_asked_no_further() -> None:
    worse = Source(GuestSource.PROC)
    with pytest.raises(GuestTimeout):
        read(Source(GuestSource.KERNEL, GuestTimeout("x")), worse)
    assert worse.reads == 0


def test_the_failure_of_the_best_source_is_the_one_told() -> None:
    with pytest.raises(GuestAnswerMalformed):
        read(Source(GuestSource.KERNEL, GuestAnswerMalformed("x")), Source(GuestSource.PROC, GuestCommandFailed("y")))


def test_without_a_supported_source_the_error_says_what_each_lacks() -> None:
    with pytest.raises(GuestCommandMissing, match="kernel: too old"):
        read(Source(GuestSource.KERNEL, supported=False))


def memory(source: GuestSource, at: float) -> GuestMemory:
    return GuestMemory(source, at)


def test_the_better_source_wins_over_the_newer_one() -> None:
    readings = [memory(GuestSource.BALLOON, 99.0), memory(GuestSource.PROC, 90.0)]
    assert best(readings, 100.0, 30.0) == readings[1]


def test_of_one_source_the_newest_wins() -> None:
    readings = [memory(GuestSource.PROC, 90.0), memory(GuestSource.PROC, 95.0), memory(GuestSource.PROC, 91.0)]
    assert best(readings, 100.0, 30.0) == readings[1]


def test_an_old_observation_of_a_better_source_does_not_count() -> None:
    readings = [memory(GuestSource.KERNEL, 69.0), memory(GuestSource.BALLOON, 70.0)]
    assert best(readings, 100.0, 30.0) == readings[1]


def test_only_old_observations_are_a_gap_that_tells_the_age() -> None:
    gap = best([memory(GuestSource.KERNEL, 10.0), memory(GuestSource.PROC, 20.0)], 100.0, 30.0)
    assert gap == Gap("guest", GapReason.TIMEOUT, "the newest observation is 80 s old")


def test_what_a_clock_that_was_set_back_dates_ahead_does_not_count() -> None:
    later = memory(GuestSource.KERNEL, 3700.0)
    assert best([later, memory(GuestSource.PROC, 95.0)], 100.0, 30.0).source is GuestSource.PROC
    gap = best([later], 100.0, 30.0)
    assert "set back" in gap.detail
    assert best([memory(GuestSource.KERNEL, 102.0)], 100.0, 30.0).at == 102.0, "read within the cycle"


def test_no_observation_at_all_is_a_gap() -> None:
    gap = best([], 100.0, 30.0)
    assert isinstance(gap, Gap)
    assert gap.reason is GapReason.PENDING
