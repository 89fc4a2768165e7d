"""How tests are spread over several processes."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.side_by_side import FIRST, WHOLE_MACHINE, group, guests_on_this_machine, in_order


@dataclass(frozen=True)
class Item:
    nodeid: str
    marks: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> object | None:
        return SimpleNamespace(name=name) if name in self.marks else None


def test_tests_of_a_file_stay_together() -> None:
    assert group(Item("tests/unit/test_a.py::test_1[x]")) == group(Item("tests/unit/test_a.py::Case::test_2"))


def test_those_that_need_the_whole_machine_are_one_group_and_begin() -> None:
    items = [
        Item("tests/lab/test_a.py::test_1"),
        Item("tests/lab/test_k.py::test_1", (WHOLE_MACHINE,)),
        Item("tests/lab/test_a.py::test_2"),
        Item("tests/lab/test_l.py::test_1", (WHOLE_MACHINE,)),
    ]
    ordered = in_order(items)
    assert [group(one) for one in ordered[:2]] == [WHOLE_MACHINE] * 2
    assert ordered == [items[1], items[3], items[0], items[2]]


def test_a_group_is_in_one_piece_and_keeps_its_order() -> None:
    items = [Item(f"tests/unit/test_{file}.py::test_{number}") for number in range(3) for file in "abc"]
    ordered = in_order(items)
    for file in "abc":
        places = [number for number, one in enumerate(ordered) if f"test_{file}.py" in one.nodeid]
        assert places == list(range(places[0], places[0] + 3))
        assert [ordered[place].nodeid[-1] for place in places] == list("012")


def test_what_is_said_to_take_long_is_there() -> None:
    root = Path(__file__).parents[2]
    assert [name for name in FIRST if name != WHOLE_MACHINE and not (root / name).exists()] == []


def test_guests_wait_for_whoever_needs_the_whole_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMHINT_CACHE", str(tmp_path))
    with guests_on_this_machine(alone=False), guests_on_this_machine(alone=False):
        pass
    with (
        guests_on_this_machine(alone=True),
        (tmp_path / "lab/guests.lock").open("w") as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
