"""Memory times time, phases that a guest told, and the domain of a guest that builds."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.building_guest import with_disk
from bench.counted_guest import GuestFailed
from bench.footprints import PHASES, WORKING, Track, at, gib_minutes, told
from bench.harness.scale import Scale
from bench.suite import footprint
from bench.total import QEMU
from memhint.objects.units import GIB, MIB

SAMPLES = ((0.0, 1.0 * GIB), (60.0, 3.0 * GIB), (180.0, 1.0 * GIB))
SIZES = st.lists(st.integers(0, 1 << 40), min_size=2, max_size=20)


def test_what_is_held_for_a_minute_is_so_many_gib_minutes() -> None:
    assert gib_minutes(((0.0, 2.0 * GIB), (60.0, 2.0 * GIB)), 0, 60) == pytest.approx(2.0)
    assert gib_minutes(SAMPLES, 0, 180) == pytest.approx(2.0 + 4.0)


def test_an_integral_may_begin_and_end_between_samples() -> None:
    assert at(SAMPLES, 30) == pytest.approx(2.0 * GIB)
    assert gib_minutes(SAMPLES, 30, 60) == pytest.approx(2.5 / 2)
    assert gib_minutes(SAMPLES, 70, 70) == 0


@pytest.mark.parametrize(("begin", "end"), [(-1, 60), (0, 181), (60, 0)])
def test_nothing_is_integrated_that_was_not_measured(begin: float, end: float) -> None:
    with pytest.raises(ValueError, match=r"measured|before"):
        gib_minutes(SAMPLES, begin, end)


@given(SIZES, st.floats(0, 1))
def test_two_parts_make_the_whole_and_lie_between_the_least_and_the_most(sizes: list[int], share: float) -> None:
    samples = tuple((60.0 * number, float(size)) for number, size in enumerate(sizes))
    end = samples[-1][0]
    cut = share * end
    whole = gib_minutes(samples, 0, end)
    parts = gib_minutes(samples, 0, cut) + gib_minutes(samples, cut, end)
    assert parts == pytest.approx(whole, rel=1e-6, abs=1e-9)
    minutes = end / 60
    assert min(sizes) * minutes / GIB <= whole * (1 + 1e-9) + 1e-9
    assert whole <= max(sizes) * minutes / GIB * (1 + 1e-9) + 1e-9


def test_phases_are_told_in_order_and_what_else_is_on_the_console_is_not_one() -> None:
    console = "[    0.0] booting\r\n[  12.5] phase build\r\nCC phase.o\nphase of the moon\nphase built\nphase failed\n"
    assert told(console) == ["build", "built", "failed"]
    assert told("phase") == []
    assert told("".join(f"phase {name}\n" for name in PHASES)) == list(PHASES)


def test_a_line_that_is_half_written_is_no_phase_yet() -> None:
    assert told("phase buil") == []
    # "clean" begins as "cleaned" does: only whole lines count
    assert told("phase build\nphase clean") == ["build"]


def test_a_track_counts_the_build_alone() -> None:
    track = Track(
        SAMPLES,
        {"build": 0.0, "built": 60.0, "clean": 90.0},
        {"build": 1000, "built": 5000, "clean": 9000},
        {"build": 1.5, "built": 4.0, "clean": 9.0},
    )
    assert (track.build_seconds, track.build_instructions, track.build_cpu) == (60.0, 4000, 2.5)
    assert track.mean("build", "built") == pytest.approx(2.0 * GIB)
    assert track.peak == 3.0 * GIB


def test_a_building_guest_gets_a_disk_a_plugin_and_words_and_keeps_the_rest(tmp_path) -> None:
    before = "<domain><name>a</name><os><cmdline>quiet</cmdline></os><devices><disk/></devices></domain>"
    domain = ET.fromstring(with_disk(before, tmp_path / "overlay", "total.so,out=x", "order=0"))
    assert domain.findtext("name") == "a"
    assert domain.findtext("os/cmdline") == "quiet order=0"
    disks = domain.findall("devices/disk")
    assert len(disks) == 2
    assert disks[1].find("source").get("file") == str(tmp_path / "overlay")
    assert disks[1].find("readonly") is None
    assert domain.find("memoryBacking/nosharepages") is not None
    words = [one.get("value") for one in domain.findall(f"{{{QEMU}}}commandline/{{{QEMU}}}arg")]
    assert words == ["-plugin", "total.so,out=x"]


def test_a_domain_that_boots_no_kernel_of_its_own_is_refused(tmp_path) -> None:
    with pytest.raises(GuestFailed):
        with_disk("<domain><devices/></domain>", tmp_path, "", "")


def busy(seconds: float, instructions: int = 1000) -> Track:
    """Phases in which the guest works last that long and take so many instructions; it rests for 10 s each time."""
    began, executed, when, count = {}, {}, 0.0, 500
    for name in PHASES:
        began[name], executed[name] = when, count
        when += seconds if name in WORKING else 10.0
        count += instructions if name in WORKING else 7
    samples = tuple((float(second), float(second)) for second in range(int(when) + 1))
    return Track(samples, began, executed, {"build": 0.0, "built": 5.0})


def test_a_guest_that_keeps_the_rate_keeps_its_clock() -> None:
    track = busy(10.0)
    paced = track.paced(100.0)
    assert paced.began == pytest.approx(track.began)
    assert [when for when, _ in paced.samples] == pytest.approx([when for when, _ in track.samples])


def test_a_guest_that_waits_for_a_core_is_measured_by_what_it_did() -> None:
    paced = busy(40.0).paced(100.0)
    assert paced.began == pytest.approx({"build": 0, "built": 10, "clean": 20, "cleaned": 30, "drop": 40, "idle": 50})
    assert paced.end == pytest.approx(60)
    assert next(when for when, size in paced.samples if size == 20.0) == pytest.approx(5.0)


def test_more_instructions_take_longer() -> None:
    assert busy(10.0, 1200).paced(100.0).began["built"] == pytest.approx(12.0)
    assert busy(10.0).rate == 200.0


@given(st.integers(1, 100), st.integers(1, 1000), st.integers(1, 1 << 40))
def test_what_a_guest_holds_all_the_time_weighs_by_what_it_did(seconds: int, rate: int, size: int) -> None:
    track = busy(float(seconds))
    flat = Track(tuple((when, float(size)) for when, _ in track.samples), track.began, track.instructions, track.cpu)
    paced = flat.paced(float(rate))
    assert gib_minutes(paced.samples, 0, paced.end) == pytest.approx(size / GIB * (40 + 2 * 1000 / rate) / 60)


def track_of(level: int, instructions: int) -> Track:
    """A guest that starts at 100 MiB and has `level` from the first second on."""
    whole = busy(10.0, instructions)
    samples = ((0.0, 100.0 * MIB), *((when, float(level)) for when, _ in whole.samples[1:]))
    return Track(samples, whole.began, whole.instructions, whole.cpu)


def result_of(memhint_level: int, memhint_instructions: int):
    size = footprint._SIZES[Scale.SMOKE]
    levels = {"reporting off": 400 * MIB, "order 0": 200 * MIB, "memhint": memhint_level}
    counts = {"reporting off": 1000, "order 0": 1200, "memhint": memhint_instructions}
    tracks = {name: [track_of(levels[name], counts[name])] for name in levels}
    return footprint._result(Scale.SMOKE, size, {}, tracks)


@pytest.mark.parametrize(
    ("level", "instructions", "met"),
    [(150 * MIB, 1010, (True, True)), (250 * MIB, 1010, (False, True)), (150 * MIB, 1030, (True, False))],
)
def test_memhint_is_held_against_order_0_in_memory_and_against_off_in_instructions(
    level: int, instructions: int, met: tuple[bool, bool]
) -> None:
    found = result_of(level, instructions)
    assert tuple(one.met for one in found.targets) == met
    memory, cost = found.tables
    arms = {arm.name: arm.figures for arm in memory.arms}
    assert arms["order 0"]["change"].median == pytest.approx(-42, abs=8)
    assert arms["order 0"]["above_change"].median < arms["order 0"]["change"].median
    assert arms["reporting off"]["change"] is None
    costs = {arm.name: arm.figures for arm in cost.arms}["memhint"]
    assert costs["more"].median == pytest.approx(instructions / 10 - 100)
    assert costs["seconds"].median == 10.0  # by the clock, whatever the guest had of its core
