"""Partitions of KSM where they really are: the kernel for hosts, in a virtual host, and real QEMUs that do not run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.patched import host_kernel_folder
from lab.sizes import MIB
from lab.tiny_guest import tiny_guest
from lab.virtual_host import VirtualHost

EMPTY = 2 * MIB  # of each VM's memory, in the test of empty pages
NOBODY = dict.fromkeys("abcde", 0)
AS_QEMU_HAS_IT = dict.fromkeys("abcde", True)


class Inside:
    """The functions of inside_partitions, called from here; and KSM's knobs before memhint came."""

    def __init__(self, host: VirtualHost) -> None:
        self.host = host
        self.knobs = self.start()

    def __getattr__(self, name: str):
        return lambda **arguments: self.host.call(f"inside_partitions.{name}", **arguments)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualHost]:
    code = Path(__file__).with_name("inside_partitions.py")
    guest = tiny_guest(tmp_path_factory.mktemp("guest"), MIB)  # in place of a BIOS; it never runs
    kernel = host_kernel_folder() / "bzImage"
    with VirtualHost([code, guest], 768 * MIB, qemu=True, kernel=kernel) as host:
        yield host
        trouble = [line for line in host.console.splitlines() if "BUG" in line or "Oops" in line or "WARNING" in line]
        assert not trouble


@pytest.fixture
def inside(host: VirtualHost) -> Iterator[Inside]:
    """VMs of which nothing was asked before."""
    fresh = Inside(host)
    yield fresh
    fresh.end()


def untouched(state: dict[str, Any], knobs: dict[str, str]) -> None:
    """Nothing is left of what memhint did."""
    assert state["partitions"] == NOBODY
    assert state["merge"] == AS_QEMU_HAS_IT
    assert state["marks"] == 0
    assert state["knobs"] == knobs


def test_projects_merge_at_the_same_time_and_nobody_across(inside: Inside) -> None:
    alone = inside.one_at_a_time()
    assert alone["merged"]
    assert alone["said"]["c"].startswith("refused (tenant)")
    untouched(alone["left"], inside.knobs)
    seen = inside.at_once()
    for what, one in (("one project at a time", alone), ("both at once", seen)):
        print(f"\n{what}: {one['saved']} pages of guests saved after {one['took']:.1f} s")
    assert seen["saved"] > 1.5 * alone["saved"]
    # the first agent was killed between the second mark and what it is of
    assert seen["signal"] == signal.SIGKILL
    assert seen["left"]["marks"] == 2
    assert sum(number > 0 for number in seen["left"]["partitions"].values()) == 1
    placed = seen["placed"]["partitions"]
    assert 0 not in placed.values()
    assert placed["a"] == placed["b"]
    assert placed["c"] == placed["d"]
    assert len(set(placed.values())) == 3  # nobody asked for e, and it has one of its own all the same
    assert all(seen["said"][name].startswith("applied") for name in "abcd")
    assert seen["merged"]
    assert seen["across"] == 0
    assert seen["outside"] == 0
    assert all(seen["again"][name] == "unchanged" for name in "abcd")
    # its successor knows nothing but the marks, and looks again
    assert all(seen["after"][name] == "applied" for name in "abcd")
    assert seen["found"]["partitions"] == placed
    assert seen["apart_again"] == 0
    assert seen["undone"].startswith("applied"), seen["undone"]
    untouched(seen["state"], inside.knobs)


def test_what_was_merged_before_is_separated_or_stays_out_and_what_others_set_is_theirs(inside: Inside) -> None:
    # without partitions they do share, and the check sees that
    assert inside.without() > 0
    seen = inside.busy()
    assert seen["merged"]
    for name in "abcd":
        # QEMU's own blocks cannot be unmarked: where they have merged, a VM stays out
        assert seen["said"][name].startswith("refused (partition)"), seen["said"]
    assert seen["theirs"]["d"].startswith("conflict (other_manager)"), seen["theirs"]
    assert seen["theirs"]["c"].startswith("applied")
    assert seen["kept_out"] == {"a": True, "b": True, "c": True, "d": False, "e": False}
    assert seen["left"]["partitions"] == {**NOBODY, "d": 7}
    assert seen["left"]["marks"] == 0


def test_empty_pages_only(inside: Inside) -> None:
    seen = inside.empty(size=EMPTY)
    print(f"\n{seen['first']} {seen['second']}")
    assert seen["alone"]["c"].startswith("refused (tenant)")
    assert min(seen["first"]["a"], seen["first"]["b"]) >= 0.9 * EMPTY
    assert seen["first"]["c"] == seen["first"]["d"] == seen["first"]["e"] == 0
    assert seen["during"]["zero_pages_only"] == "1"
    assert seen["sharing"] == 0  # they have 4 MiB in common, and none of that has merged
    assert min(seen["second"]["c"], seen["second"]["d"]) >= 0.9 * EMPTY
    assert seen["second"]["e"] == 0
    untouched(seen["state"], seen["before"])
