from __future__ import annotations

from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, WriteRejected
from memhint.kernel.ksm import EMPTY_ONLY, KsmKnob, read_knob, read_ksm, write_knob
from memhint.kernel.root import KernelRoot
from memhint.objects.host import Ksm

from . import recorded
from .fake_root import FakeRoot

KSM = "sys/kernel/mm/ksm"


class DeafRoot(KernelRoot):
    """A kernel that takes every value and keeps its own."""

    def write_text(self, relative: str, text: str) -> None:
        pass


def test_ksm_of_linux_6_18(fake: FakeRoot) -> None:
    assert read_ksm(fake.host().kernel) == Ksm(
        run=1,
        pages_shared=120,
        pages_sharing=4000,
        zero_pages=250,
        general_profit=-4096,
        full_scans=7,
        pages_to_scan=100,
        sleep_millisecs=20,
        use_zero_pages=True,
        advisor="none",
        cow_breaks=0,
    )


def test_what_linux_6_1_does_not_have_is_none_not_zero(fake: FakeRoot) -> None:
    ksm = read_ksm(fake.write_all(KSM, recorded.KSM_6_1).kernel)
    assert (ksm.zero_pages, ksm.general_profit, ksm.advisor) == (None, None, None)
    assert ksm.use_zero_pages is False


def test_no_ksm_is_missing(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        read_ksm(fake.kernel)


@pytest.mark.parametrize("name", ["run", "pages_sharing", "full_scans", "use_zero_pages"])
def test_ksm_that_lacks_a_part_is_there_and_makes_no_sense(fake: FakeRoot, name: str) -> None:
    with pytest.raises(InterfaceMalformed, match=name):
        read_ksm(fake.host().remove(f"{KSM}/{name}").kernel)


@pytest.mark.parametrize("text", ["-1\n", "18446744073709551615\n"])
def test_a_zero_page_counter_below_zero_is_unknown(fake: FakeRoot, text: str) -> None:
    assert read_ksm(fake.host().write(f"{KSM}/ksm_zero_pages", text).kernel).zero_pages is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run", "3\n"),
        ("run", ""),
        ("pages_sharing", "-5\n"),
        ("general_profit", "--5\n"),
        ("ksm_zero_pages", "\n"),
        ("advisor_mode", "none scan-time\n"),
        ("advisor_mode", "[none] [scan-time]\n"),
    ],
)
def test_a_value_without_sense_is_malformed(fake: FakeRoot, name: str, text: str) -> None:
    with pytest.raises(InterfaceMalformed, match=name):
        read_ksm(fake.host().write(f"{KSM}/{name}", text).kernel)


def test_the_advisor_is_the_bracketed_word(fake: FakeRoot) -> None:
    fake.host().write(f"{KSM}/advisor_mode", "none [scan-time]\n")
    assert read_knob(fake.kernel, KsmKnob.ADVISOR_MODE) == "scan-time"
    assert read_ksm(fake.kernel).advisor == "scan-time"


@pytest.mark.parametrize("knob", [knob for knob in KsmKnob if knob is not KsmKnob.ADVISOR_MODE])
def test_every_knob_is_written_and_read_back(fake: FakeRoot, knob: KsmKnob) -> None:
    for other in EMPTY_ONLY:
        fake.host().write(f"{KSM}/{other}", "0\n")  # no kernel that was recorded has it
    write_knob(fake.kernel, knob, "2")
    assert read_knob(fake.kernel, knob) == "2"


def test_a_value_that_does_not_stick_is_rejected(fake: FakeRoot, tmp_path: Path) -> None:
    fake.host()
    with pytest.raises(WriteRejected, match="wrote '0', reads '1'"):
        write_knob(DeafRoot(tmp_path), KsmKnob.RUN, "0")


def test_an_advisor_that_does_not_stick_is_rejected(fake: FakeRoot, tmp_path: Path) -> None:
    fake.host()
    with pytest.raises(WriteRejected, match="reads 'none'"):
        write_knob(DeafRoot(tmp_path), KsmKnob.ADVISOR_MODE, "scan-time")


def test_a_knob_that_this_kernel_lacks_is_missing(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        write_knob(fake.write_all(KSM, recorded.KSM_6_1).kernel, KsmKnob.ADVISOR_MAX_CPU, "50")
