"""The bench of merging: its data, and what counts against its targets."""

from __future__ import annotations

from collections import Counter

from bench.host_ksm import HostRun, host_table
from bench.merging_data import RUN, kinds_of, pages_of
from bench.suite.dedup import FLAT, KNOWN_FLAT, PARTS, PARTS_FLAT, Merged, targets


def test_a_third_is_a_vms_own_and_the_rest_all_have() -> None:
    vms = [pages_of(number, 64 * 6, 1 / 3, 1 / 3) for number in range(3)]
    assert [equal for _, equal in vms] == [256] * 3
    copies = Counter(page for pages, _ in vms for page in pages)
    assert Counter(copies.values()) == {3: 256, 1: 3 * 128}
    prefixed = [page for page in copies if page[:128] == bytes(128)]
    assert len(prefixed) == 128
    assert len({page[:160] for page in prefixed}) == 128


def test_a_twentieth() -> None:
    pages, equal = pages_of(0, 64 * 40, 0.05, 0.0)
    assert (len(pages), equal) == (2560, 128)


def test_ranges_are_the_runs_that_all_have() -> None:
    kinds = kinds_of(64 * 6, 1 / 3, 1 / 3)
    first, second = (pages_of(number, 64 * 6, 1 / 3, 1 / 3)[0] for number in (0, 1))
    for at, kind in enumerate(kinds):
        run = slice(at * RUN, (at + 1) * RUN)
        assert (first[run] == second[run]) == (kind != "own")


def hosts(one: float = 10.0, two: float = 5.0, enough: bool = True) -> list[HostRun]:
    """Three turns, in the second of which the machine was busy."""
    return [
        HostRun(threads, ranges, seconds * slow, seconds, 100, threads - 1, enough or threads == 1)
        for slow in (1.0, 7.0, 1.0)
        for ranges in (False, True)
        for threads, seconds in ((1, one), (2, two), (4, two))
    ]


def merged(seconds: float, cpu: float, enough: bool = True, pages: int = 1000, estimated: int = 101) -> list[Merged]:
    return [Merged(seconds, cpu - 0.5, 0.5, pages, 1 << 30, enough, estimated=estimated, saved=100)]


def arms(flat: list[Merged], ranges: list[Merged]) -> dict[str, list[Merged]]:
    return {FLAT.name: flat, PARTS.name: ranges, PARTS_FLAT.name: ranges, KNOWN_FLAT.name: ranges}


def test_targets_hold_ranges_against_ksm_flat_out() -> None:
    much = arms(merged(10.0, 8.0), merged(5.0, 4.0))
    little = arms(merged(10.0, 8.0), merged(5.0, 2.0))
    cpu, time, where_little, workers, estimate = targets({"much": much, "little": little}, hosts())
    assert (cpu.measured, time.measured, where_little.measured) == (0.5, 0.5, 0.25)
    assert (cpu.met, time.met, where_little.met) == (True, True, False)
    assert (workers.measured, workers.met) == (0.5, True)
    assert (estimate.measured, estimate.met) == (0.01, True)


def test_who_has_merged_more_by_the_last_look_is_given_nothing_for_it_where_no_byte_is_asked_for() -> None:
    seen = arms(merged(10.0, 8.0), merged(5.0, 4.0, pages=2000))
    cpu, time, where_little, *_ = targets({"much": seen, "little": seen}, hosts())
    assert (cpu.measured, time.measured, where_little.measured) == (0.25, 0.5, 0.5)


def test_the_worst_estimate_counts_of_whatever_arm() -> None:
    seen = arms(merged(10.0, 8.0), merged(5.0, 4.0)) | {PARTS.name: merged(5.0, 4.0, estimated=90)}
    assert targets({"much": seen, "little": seen}, hosts())[-1].measured == 0.1


def test_what_did_not_merge_enough_misses_the_targets() -> None:
    much = arms(merged(10.0, 8.0), merged(5.0, 4.0, enough=False))
    assert not any(one.met for one in targets({"much": much, "little": much}, hosts(enough=False))[:4])


def test_threads_are_held_against_one_in_the_same_turn() -> None:
    rows = {arm.name: arm.figures for arm in host_table(hosts(two=8.0)).arms}
    assert list(rows) == [
        f"{threads}{more}"
        for more in ("", ", ranges known before")
        for threads in ("1 thread", "2 threads", "4 threads")
    ]
    time = rows["2 threads"]["time"]
    assert time is not None
    assert (time.lowest, time.median, time.highest) == (0.8, 0.8, 0.8)
    assert host_table(hosts(enough=False)).arms[1].figures["time"] is None
