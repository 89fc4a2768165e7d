"""What the bench of fragments reads, and works out of what it measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.counted_guest import GuestFailed
from bench.figures import Window
from bench.suite import fragments
from bench.suite.fragments import OFF, ORDER_0, ORDER_9, RECYCLER, Returned
from bench.total import QEMU, with_plugin
from memhint.objects.units import MIB

PAIRS = 1000


def returned(resident: int, instructions: int, batches: int = 0, **functions: int) -> list[Returned]:
    """One run: MiB that the host holds, and instructions for each pair."""
    window = Window("holes", PAIRS, 0, 0, batches, PAIRS * instructions, 0, 0, 0, 0, 0, functions)
    return [Returned(resident * MIB, window, 0.5, 0.0)]


def test_the_recycler_is_held_against_order_0_and_both_against_nothing() -> None:
    found = {
        OFF.name: returned(400, 1000),
        ORDER_9.name: returned(390, 1100, batches=2),
        ORDER_0.name: returned(300, 3000, batches=960),
        RECYCLER.name: returned(304, 1300, batches=12),
    }
    verdicts = fragments.targets(found)
    assert [one.measured for one in verdicts] == pytest.approx([0.96, 0.15, 0.0125])
    assert [one.met for one in verdicts] == [True, True, False]


def test_a_figure_is_of_one_pair_and_of_what_is_free() -> None:
    found = {OFF.name: returned(400, 1000), "way": returned(290, 1200, batches=7)}
    arm = fragments._table(found, 240 * MIB).arms[1]
    assert arm.figures["share"].median == pytest.approx(100 * 110 / 120)
    assert arm.figures["instructions"].median == pytest.approx(200)
    assert arm.figures["batches"].median == pytest.approx(7 * 1024 / 110)


def test_what_clears_pages_is_told_apart() -> None:
    found = {
        OFF.name: returned(400, 2000, clear_page_orig=700 * PAIRS),
        ORDER_9.name: returned(390, 2000, clear_page_orig=700 * PAIRS),
        ORDER_0.name: returned(300, 3000, clear_page_orig=700 * PAIRS, batches=960),
        RECYCLER.name: returned(304, 1500, clear_page_orig=20 * PAIRS),
    }
    figures = fragments._table(found, 240 * MIB).arms[-1].figures
    assert figures["instructions"].median == pytest.approx(180)
    assert figures["clearing"].median == pytest.approx(-680)
    assert fragments.targets(found)[1].measured == pytest.approx(0.18)


def test_it_is_said_where_the_instructions_are() -> None:
    found = {
        OFF.name: returned(400, 1000, copy=500 * PAIRS),
        ORDER_0.name: returned(300, 3000, copy=500 * PAIRS, report=700 * PAIRS),
        RECYCLER.name: returned(304, 1300, copy=500 * PAIRS),
    }
    order_0, recycler = fragments.notes(found)
    assert order_0.endswith("`report` +700.0")
    assert recycler.endswith("nowhere")


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
