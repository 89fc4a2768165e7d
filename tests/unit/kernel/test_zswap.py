"""zswap: what it may still take of the memory."""

from __future__ import annotations

import pytest

from memhint.kernel.errors import InterfaceMalformed
from memhint.kernel.meminfo import machine_memory
from memhint.kernel.swap import swap_activity
from memhint.kernel.zswap import kept_out, zswap_enabled
from memhint.objects.units import KIB
from tests.unit.kernel.fake_root import FakeRoot

PARAMETERS = "sys/module/zswap/parameters"


def pool(fake: FakeRoot, enabled: str = "Y", percent: str = "20", taken: str = "") -> FakeRoot:
    fake.write("proc/meminfo", f"MemTotal: 1000 kB\nMemAvailable: 500 kB\n{taken}")
    fake.write("proc/swaps", "Filename Type Size Used Priority\n/dev/dm-0 partition 4000 10 -2\n")
    fake.write(f"{PARAMETERS}/enabled", f"{enabled}\n")
    return fake.write(f"{PARAMETERS}/max_pool_percent", f"{percent}\n")


@pytest.mark.parametrize(
    ("words", "room"),
    [
        ({}, 200),
        ({"taken": "Zswap: 150 kB\n"}, 50),
        ({"taken": "Zswap: 250 kB\n"}, 0),  # the limit was lowered
        ({"enabled": "N"}, 0),
        ({"percent": "400"}, 1000),
    ],
)
def test_the_pool_may_take_what_its_limit_leaves(fake: FakeRoot, words: dict[str, str], room: int) -> None:
    assert machine_memory(pool(fake, **words).kernel).zswap_room == room * KIB


def test_without_it_or_without_a_disk_there_is_no_room_for_it(fake: FakeRoot) -> None:
    assert machine_memory(fake.host().kernel).zswap_room == 0
    pool(fake).write("proc/swaps", "Filename Type Size Used Priority\n")
    assert machine_memory(fake.kernel).zswap_room == 0


@pytest.mark.parametrize("words", [{"enabled": "maybe"}, {"percent": "a lot"}])
def test_what_makes_no_sense_is_malformed(fake: FakeRoot, words: dict[str, str]) -> None:
    with pytest.raises(InterfaceMalformed):
        machine_memory(pool(fake, **words).kernel)


def test_what_goes_by_way_of_it_is_swapped_too(fake: FakeRoot) -> None:
    fake.write("proc/vmstat", "pswpin 1\npswpout 2\nzswpin 10\nzswpout 20\n")
    found = swap_activity(fake.kernel, 1)
    assert (found.swapped_in, found.swapped_out) == (11, 22)


@pytest.mark.parametrize(("own", "above", "out"), [("0", "max", True), ("max", "0", True), ("max", "4096", False)])
def test_a_limit_of_nothing_keeps_a_cgroup_out(fake: FakeRoot, own: str, above: str, out: bool) -> None:
    fake.write("vm/memory.zswap.max", f"{own}\n").write("slice/memory.zswap.max", f"{above}\n")
    assert kept_out(fake.kernel, ("vm", "slice", "old")) is out
    assert not zswap_enabled(fake.kernel)
