"""What the bench of fragments reads, and works out of what it measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.counted_guest import GuestFailed
from bench.suite import fragments
from bench.suite.fragments import OFF, ORDER_0, ORDER_9, RECYCLER, Returned
from bench.total import QEMU, with_plugin
from memhint.objects.units import MIB


def returned(resident: int, instructions: int, batches: int = 0, merged: int = 0) -> list[Returned]:
    return [Returned(resident * MIB, merged * MIB, instructions, batches, 0.5, 0.0)]


def test_the_recycler_is_held_against_order_0_and_both_against_nothing() -> None:
    found = {
        OFF.name: returned(400, 1000),
        ORDER_9.name: returned(390, 1100, batches=2),
        ORDER_0.name: returned(300, 3000, batches=960),
        RECYCLER.name: returned(304, 1300, batches=3),
    }
    verdicts = fragments.targets(found)
    assert [one.measured for one in verdicts] == pytest.approx([0.96, 0.15, 3.0])
    assert [one.met for one in verdicts] == [True, True, False]


def test_what_ksm_maps_from_the_zero_page_is_not_held() -> None:
    found = {OFF.name: returned(400, 1000), "zeroed": returned(400, 1200, merged=110)}
    table = fragments._table(found, 240 * MIB)
    assert table.arms[1].figures["share"].median == pytest.approx(100 * 110 / 120)


def test_counters_that_are_not_there_are_zero() -> None:
    assert fragments.batches("nr_free_pages 12\npage_report_batch 7\npage_report_batch_x 9\n") == 7
    assert fragments.batches("nr_free_pages 12\n") == 0
    assert fragments.zero_pages("ksm_rmap_items 5\nksm_zero_pages 3\n") == 3 * 4096
    assert fragments.zero_pages("") == 0


def test_a_domain_with_arguments_of_its_own_keeps_them() -> None:
    before = (
        f'<domain xmlns:q="{QEMU}"><os><cmdline>quiet</cmdline></os>'
        '<q:commandline><q:arg value="-snapshot"/></q:commandline></domain>'
    )
    domain = ET.fromstring(with_plugin(before, "total.so,out=x", "order=0"))
    assert domain.findtext("os/cmdline") == "quiet order=0"
    arguments = [one.get("value") for one in domain.findall(f"{{{QEMU}}}commandline/{{{QEMU}}}arg")]
    assert arguments == ["-snapshot", "-plugin", "total.so,out=x"]
    with pytest.raises(GuestFailed):
        with_plugin("<domain/>", "", "")
