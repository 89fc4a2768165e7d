from __future__ import annotations

import math
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.provider import Inventory, Provider, ProviderRecord, Tenure
from memhint.objects.units import MIB
from memhint.planner.capacity_write import DecisionReason, HostCapacity, WriterSettings, decide

VMS = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(9)]
SETTINGS = WriterSettings(most=2.0, smallest=1024 * MIB)
STANDING = ProviderRecord("rp", "host", adopted=1.0)


def view(headroom: int, *vms: str, size: int = 1024, **more) -> HostCapacity:
    """:param headroom: MiB"""
    plain = {
        "host": "host",
        "provider": "rp",
        "forced_ratio": None,
        "stale": False,
        "headroom": headroom * MIB,
        "slot": (1024 + 128) * MIB,
        "slot_overhead": 128 * MIB,
        "memory": dict.fromkeys(vms, size * MIB),
    }
    return HostCapacity(**{**plain, **more})


def provider(ratio: float, claims: dict[str, int], total: int = 10240, reserved: int = 0) -> Provider:
    return Provider("rp", "host", Inventory(7, total, reserved, ratio), claims)


def test_the_room_of_an_empty_host_less_qemus_part() -> None:
    found = decide(view(11520), provider(1.5, {}), replace(STANDING, written=1.5), SETTINGS)
    assert found.ratio == 1.0
    assert found.why is DecisionReason.HEADROOM


def test_vms_that_the_plan_counted_keep_their_place_beside_the_room() -> None:
    claims = {VMS[0]: 1024, VMS[1]: 1024}
    found = decide(view(9216, *VMS[:2]), provider(1.3, claims), replace(STANDING, written=1.3), SETTINGS)
    assert found.ratio == 1.0  # 2048 + 8192 of 10240


def test_a_claim_that_the_plan_does_not_know_takes_its_place_from_the_room() -> None:
    """Sixteen boots at once: the ratio must not rise with each of them."""
    before = decide(view(9216, *VMS[:2]), provider(1.0, dict.fromkeys(VMS[:2], 1024)), STANDING, SETTINGS)
    after = decide(view(9216, *VMS[:2]), provider(1.0, dict.fromkeys(VMS, 1024)), STANDING, SETTINGS)
    assert before == after
    assert before.why is DecisionReason.UNCHANGED


def test_the_growing_half_of_a_resize_is_not_counted_twice() -> None:
    small = decide(view(0, VMS[0]), provider(1.0, {VMS[0]: 1024}), STANDING, SETTINGS)
    large = decide(view(0, VMS[0]), provider(1.0, {VMS[0]: 8192}), STANDING, SETTINGS)
    assert small.ratio == large.ratio == 0.1


def test_a_host_that_admits_nothing_may_go_below_what_is_used() -> None:
    found = decide(view(0), provider(1.0, {VMS[0]: 1024}), STANDING, SETTINGS)
    assert found.ratio == 0.0


@pytest.mark.parametrize(("adopted", "wanted"), [(1.0, 1.0), (1.5, 1.0), (0.5, 0.5)])
def test_a_silent_host_has_its_nominal_ratio(adopted: float, wanted: float) -> None:
    standing = replace(STANDING, adopted=adopted, written=1.8)
    found = decide(view(99999, stale=True), provider(1.8, {}), standing, SETTINGS)
    assert (found.ratio, found.tenure) == (wanted, Tenure.NOMINAL)


@pytest.mark.parametrize("now", [0.0, 0.4])
def test_silence_raises_no_ratio(now: float) -> None:
    found = decide(view(99999, stale=True), provider(now, {}), replace(STANDING, written=now), SETTINGS)
    assert (found.ratio, found.tenure, found.why) == (None, Tenure.NOMINAL, DecisionReason.UNCHANGED)


def test_the_operators_maximum_holds_for_a_silent_host_too() -> None:
    standing, settings = replace(STANDING, written=1.5, adopted=1.2), replace(SETTINGS, most=0.8)
    assert decide(view(0, stale=True), provider(1.5, {}), standing, settings).ratio == 0.8


def test_the_operators_maximum_holds() -> None:
    assert decide(view(99999), provider(1.0, {}), STANDING, SETTINGS).ratio == 2.0


def test_a_strangers_ratio_is_left_alone_even_when_the_host_is_silent() -> None:
    for stale in (False, True):
        found = decide(view(0, stale=stale), provider(3.0, {}), replace(STANDING, written=1.2), SETTINGS)
        assert (found.ratio, found.tenure, found.why) == (None, Tenure.CONFLICT, DecisionReason.FOREIGN)


def test_a_write_whose_answer_was_lost_is_recognised() -> None:
    standing = replace(STANDING, written=1.2, intended=1.3)
    assert decide(view(0), provider(1.3, {}), standing, SETTINGS).tenure is Tenure.MANAGED


def test_a_compute_that_writes_its_own_ratio_is_refused_and_told_which_option() -> None:
    found = decide(view(5000, forced_ratio=1.25), provider(1.25, {}), STANDING, SETTINGS)
    assert (found.ratio, found.tenure) == (None, Tenure.REFUSED)
    assert "ram_allocation_ratio" in found.detail


@pytest.mark.parametrize(
    ("headroom", "stale", "wanted", "why"),
    [
        (0, False, 0.0, DecisionReason.HEADROOM),
        (0, True, 1.0, DecisionReason.SILENT),
        (99999, False, None, DecisionReason.UNCHANGED),
    ],
)
def test_memhints_own_ratio_falls_and_never_rises_while_a_compute_has_not_read_its_file(
    headroom: int, stale: bool, wanted: float | None, why: DecisionReason
) -> None:
    seen, written = view(headroom, forced_ratio=1.0, stale=stale), replace(STANDING, written=1.45)
    found = decide(seen, provider(1.45, {}), written, SETTINGS)
    assert (found.ratio, found.tenure, found.why) == (wanted, Tenure.REFUSED, why)
    assert wanted is not None or "ram_allocation_ratio" in found.detail


@pytest.mark.parametrize(
    ("now", "standing"),
    [
        (1.0, replace(STANDING, written=1.45)),  # the compute has written it
        (1.0, replace(STANDING, written=1.0)),
        (3.0, replace(STANDING, written=1.45)),  # somebody else has
        (1.45, replace(STANDING, adopted=1.45)),  # it was found, and memhint wrote nothing yet
    ],
)
def test_a_ratio_that_is_not_memhints_own_stays_on_a_compute_that_writes_one(
    now: float, standing: ProviderRecord
) -> None:
    found = decide(view(0, forced_ratio=1.0), provider(now, {}), standing, SETTINGS)
    assert (found.ratio, found.tenure, found.why) == (None, Tenure.REFUSED, DecisionReason.FORCED)


def test_what_was_given_back_is_not_taken_again() -> None:
    found = decide(view(9999), provider(1.0, {}), replace(STANDING, tenure=Tenure.RELEASED), SETTINGS)
    assert found.ratio is None


@pytest.mark.parametrize("now", [1.004, 1.00002])
def test_a_ratio_above_what_is_wanted_falls_by_however_little(now: float) -> None:
    found = decide(view(11520), provider(now, {}), replace(STANDING, adopted=now), SETTINGS)
    assert (found.ratio, found.why) == (1.0, DecisionReason.HEADROOM)
    silent = decide(view(0, stale=True), provider(now, {}), replace(STANDING, written=now), SETTINGS)
    assert (silent.ratio, silent.tenure) == (1.0, Tenure.NOMINAL)


@pytest.mark.parametrize("now", [0.996, 1.0 - 1e-7, 1.0 + 1e-7])
def test_a_ratio_that_is_only_a_little_below_or_rounded_by_a_database_stays(now: float) -> None:
    found = decide(view(11520), provider(now, {}), replace(STANDING, adopted=now), SETTINGS)
    assert (found.ratio, found.why) == (None, DecisionReason.UNCHANGED)


@given(headroom=st.integers(0, 300000), total=st.integers(1024, 40000), per=st.sampled_from([1, 10, 64, 100, 10000]))
def test_what_was_written_is_written_no_second_time(headroom: int, total: int, per: int) -> None:
    """Also where a database keeps it as a number of four bytes."""
    settings = WriterSettings(most=100.0, quantum=1 / per)
    found = decide(view(headroom), provider(200.0, {}, total), replace(STANDING, written=200.0), settings)
    assert found.ratio is not None
    (kept,) = struct.unpack("f", struct.pack("f", found.ratio))
    again = decide(view(headroom), provider(kept, {}, total), replace(STANDING, written=found.ratio), settings)
    assert again.why is DecisionReason.UNCHANGED


@pytest.mark.parametrize(
    ("least", "slot", "wanted"),
    [(256, 1024, 0.66), (512, 1024, 0.8), (1024, 1024, 0.88), (4096, 1024, 0.88), (4096, 4096, 0.96), (256, 64, 0.33)],
)
def test_the_room_pays_qemus_part_for_as_many_of_the_smallest_vms_as_fit(least: int, slot: int, wanted: float) -> None:
    """The least of the operator's size and of the one that the host counts its places in."""
    seen = view(10240, slot=(slot + 128) * MIB)
    assert decide(seen, provider(9.0, {}), replace(STANDING, written=9.0), _least(least)).ratio == wanted


def test_as_shipped_small_vms_take_no_more_than_the_headroom() -> None:
    """40 GiB of headroom once let 142 VMs of 256 MiB in, which take 53 GiB."""
    seen, written = view(40960), replace(STANDING, written=99.0)
    found = decide(seen, provider(99.0, {}, 40960), written, WriterSettings(most=9.0))
    assert found.ratio is not None
    assert int(40960 * found.ratio) // 256 * (256 + 128) <= 40960


def _least(mib: int) -> WriterSettings:
    return WriterSettings(most=9.0, smallest=mib * MIB)


@given(
    headroom=st.integers(0, 30000),
    known=st.integers(0, 5),
    unknown=st.integers(0, 4),
    size=st.integers(256, 4096),
    total=st.integers(1024, 40000),
    reserved=st.integers(0, 2000),
)
def test_what_placement_then_admits_always_fits_into_the_headroom(
    headroom: int, known: int, unknown: int, size: int, total: int, reserved: int
) -> None:
    """Capacity less every claim, in VMs of the slot's size with QEMU's part, is at most H less the unknown ones'."""
    if reserved >= total:
        return
    claims = dict.fromkeys(VMS[: known + unknown], size)
    seen = view(headroom, *VMS[:known], size=size)
    found = decide(
        seen, provider(99.0, claims, total, reserved), replace(STANDING, written=99.0), WriterSettings(most=9)
    )
    assert found.ratio is not None
    left = (total - reserved) * found.ratio - sum(claims.values())
    room = headroom * 1024 / 1152
    assert left <= room - unknown * size + 1e-6


@given(
    headroom=st.integers(0, 300000),
    known=st.integers(0, 5),
    unknown=st.integers(0, 4),
    smallest=st.integers(1, 4096),
    larger=st.integers(0, 4096),
    slot=st.integers(1, 8192),
    overhead=st.integers(0, 512),
    total=st.integers(1024, 400000),
)
def test_no_number_of_vms_of_any_size_from_the_smallest_on_takes_more_than_the_headroom(
    headroom: int, known: int, unknown: int, smallest: int, larger: int, slot: int, overhead: int, total: int
) -> None:
    size = smallest + larger
    claims = dict.fromkeys(VMS[: known + unknown], size)
    seen = view(headroom, *VMS[:known], size=size, slot=(slot + overhead) * MIB, slot_overhead=overhead * MIB)
    found = decide(seen, provider(99.0, claims, total), replace(STANDING, written=99.0), _least(smallest))
    assert found.ratio is not None
    left = total * found.ratio - sum(claims.values())
    if left >= 0:
        assert (unknown + math.floor((left + 1e-6) / size)) * (size + overhead) <= headroom
