"""What is said of huge pages before a lever splits them: never fewer than it can be, never more than there are."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.gap import Gap, GapReason
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName
from memhint.objects.pieces import HUGE_PAGE, PAGE
from memhint.objects.relief import Relief
from memhint.objects.tuning import Tuning
from memhint.objects.units import GIB, KIB, MIB
from memhint.planner.actions import with_splits
from memhint.planner.relief.pieces_pay import taken_in_pieces
from memhint.planner.settings import LadderSettings
from memhint.planner.splits import (
    Splits,
    splits_by_balloon,
    splits_by_free,
    splits_by_merging,
    splits_by_size,
    splits_by_swap,
    words,
)
from tests.unit import builders

VM = builders.domain_observation()  # 1 GiB of 2 in huge pages: 512 of them


def free(*by_order: int):
    return replace(VM, guest=builders.guest_memory(free_by_order=by_order))


def test_each_block_that_is_free_splits_one_huge_page_at_most() -> None:
    vm = free(3 * PAGE, 10 * 2 * PAGE, 64 * MIB)  # 3 pages, 10 pairs, and many of order 2
    assert splits_by_free(vm, 2) == Splits(512, 512, 64 * MIB)
    vm = free(3 * PAGE, 10 * 2 * PAGE, 0)
    assert splits_by_free(vm) == Splits(13, 512, 23 * PAGE)
    assert splits_by_free(vm, 1) == Splits(10, 512, 20 * PAGE)


def test_what_is_free_in_whole_huge_pages_splits_none() -> None:
    assert splits_by_free(free(*[0] * 9, 100 * MIB, 200 * MIB)) == Splits(0, 512, 0)


def test_a_guest_that_does_not_tell_the_sizes_of_its_blocks_counts_at_the_worst() -> None:
    vm = replace(VM, guest=builders.guest_memory(free=MIB, free_by_order=None))
    assert splits_by_free(vm) == Splits(256, 512, MIB)
    assert splits_by_free(vm, 4) == Splits(16, 512, MIB)


def test_what_is_not_known_is_a_gap_with_its_reason() -> None:
    unread = splits_by_free(replace(VM, deep=None))
    silent = splits_by_free(replace(VM, guest=None))
    gone = splits_by_swap(replace(VM, process=None), GIB)
    reasons = [one.reason for one in (unread, silent, gone) if isinstance(one, Gap)]
    assert reasons == [GapReason.PENDING, GapReason.UNSUPPORTED, GapReason.GONE]
    assert words(unread) == "how many huge pages that splits is not known: its huge pages were not counted yet"


def test_swap_takes_huge_pages_whole_and_a_balloon_single_pages() -> None:
    assert splits_by_swap(VM, 101 * MIB) == Splits(51, 512, 101 * MIB)
    assert splits_by_balloon(VM, 4 * GIB - MIB) == Splits(256, 512, MIB)


def test_merging_counts_with_the_estimate_and_without_one_with_everything() -> None:
    few = builders.dedup_estimate()
    few = replace(few, vms=(replace(few.vms[0], zero=40 * PAGE, within=0, across=0),))
    assert splits_by_merging(VM, few) == Splits(40, 512, 40 * PAGE)
    assert splits_by_merging(VM, None) == Splits(512, 512, 2 * GIB)


def test_the_words_have_what_it_costs_to_have_it_again() -> None:
    assert str(Splits(3, 512, 12 * MIB)) == (
        "splits up to 3 of 512 huge pages for up to 12 MiB: 3072 page faults and 3 collapses to have it again"
    )
    assert str(Splits(0, 0, 12 * MIB)) == "splits no huge page"


@given(st.integers(0, 8 * GIB), st.integers(0, 4 * GIB), st.sampled_from([PAGE << order for order in range(11)]))
def test_never_more_than_there_are_and_never_more_than_pieces(taken: int, huge: int, piece: int) -> None:
    assert VM.deep is not None
    found = splits_by_size(replace(VM, deep=replace(VM.deep, anon_huge=huge)), taken, piece)
    assert isinstance(found, Splits)
    assert found.huge <= found.of == huge // HUGE_PAGE
    assert found.huge * piece < taken + piece
    assert found.taken <= min(taken, 2 * GIB)


def test_each_action_of_a_plan_that_takes_pieces_says_so() -> None:
    relief = Relief(
        tuning={VM.uuid: Tuning(order=4)},
        recycler={VM.uuid: 1},
        swap_out={VM.uuid: 8 * MIB},
        balloon={VM.uuid: 3 * GIB},
    )
    levers = (
        LeverName.REPORTING,
        LeverName.RECYCLER,
        LeverName.SWAP_OUT,
        LeverName.BALLOON,
        LeverName.DEDUP,
        LeverName.CACHE,
        LeverName.THP,
    )
    actions = [Action(lever, VM.uuid, "on", "why") for lever in levers]
    found = {one.lever: one.why for one in with_splits(actions, relief, [VM], None)}
    for lever in levers[:5]:
        assert found[lever].startswith("why; splits ")
    assert found[LeverName.SWAP_OUT].startswith("why; splits up to 4 of 512 huge pages for up to 8 MiB")
    assert found[LeverName.CACHE] == found[LeverName.THP] == "why"


def test_reporting_of_whole_huge_pages_and_being_kept_from_merging_split_nothing() -> None:
    coarse = Relief(tuning={VM.uuid: Tuning(order=9, delay_ms=5)})
    actions = [Action(LeverName.REPORTING, VM.uuid, "order 9", "a"), Action(LeverName.DEDUP, VM.uuid, "off", "b")]
    assert [one.why for one in with_splits(actions, coarse, [VM], None)] == ["a", "b"]


CALM = LadderSettings(always=frozenset({Rung.RECYCLER}), split_least=64 * KIB)
NONE: frozenset[Rung] = frozenset()


def taken(vm, rungs=NONE, settings=CALM, begun: bool = False) -> bool:
    return taken_in_pieces(Rung.RECYCLER, vm, 0, rungs, settings, begun=begun)


def test_on_a_calm_host_a_huge_page_is_split_for_what_it_is_worth() -> None:
    scattered, lumps = free(512 * 8 * PAGE), free(0, 0, 0, 0, 512 * 16 * PAGE)
    assert not taken(scattered)  # 32 KiB of each huge page
    assert taken(lumps)  # 64 KiB
    assert taken(scattered, settings=replace(CALM, split_least=0))


def test_pressure_and_what_was_begun_do_not_ask_what_it_is_worth() -> None:
    scattered = free(512 * 8 * PAGE)
    assert taken(scattered, rungs=frozenset({Rung.RECYCLER}))
    assert taken(scattered, begun=True)
    assert not taken(scattered, settings=LadderSettings(), begun=True)


def test_who_has_no_huge_pages_or_of_whom_that_is_not_known_is_not_spared() -> None:
    assert VM.deep is not None
    assert taken(replace(free(PAGE), deep=replace(VM.deep, anon_huge=0)))
    assert taken(replace(free(PAGE), deep=None))
