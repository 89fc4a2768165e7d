"""How tests are spread over several processes."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.side_by_side import (
    APART,
    FIRST,
    SLOW,
    WHOLE_MACHINE,
    WITH_BUILDS,
    Alone,
    file_of,
    group,
    guests_on_this_machine,
    in_order,
    shuffled,
    stands_on_builds,
)
from tests.took import keep, took_before

ROOT = Path(__file__).parents[2]


def ordered(nodeids: list[str]) -> list[str]:
    return [nodeids[at] for at in in_order(nodeids)]


def test_tests_of_a_file_stay_together() -> None:
    assert group("tests/unit/test_a.py::test_1[x]") == group("tests/unit/test_a.py::Case::test_2")
    assert group(f"{APART[0]}::test_1") != group(f"{APART[0]}::test_2")


def test_those_that_have_the_machine_for_themselves_are_one_group_before_other_guests() -> None:
    other = "tests/lab/test_a.py::test_1"
    alone = [f"{file}::test_1" for file in WHOLE_MACHINE]
    assert len({group(one) for one in alone}) == 1
    assert ordered([alone[2], other, alone[0], alone[1]]) == [*alone[:3], other]


def test_where_the_cache_is_clean_what_waits_for_kernels_is_last() -> None:
    benches, others = f"{WITH_BUILDS}::test", f"{WHOLE_MACHINE[0]}::test"
    builds, series, guests = (
        f"tests/{file}.py::test" for file in ("patches/test_builds", "patches/test_a", "lab/test_b")
    )
    mixed = [series, benches, guests, others, builds]
    assert [mixed[at] for at in in_order(mixed, built=False)] == [builds, others, guests, series, benches]
    assert [mixed[at] for at in in_order(mixed)] == [builds, others, benches, series, guests]
    assert (group(benches, built=False), group(benches)) == (WITH_BUILDS, WHOLE_MACHINE[0])


@pytest.mark.parametrize(
    ("args", "does"),
    [
        (["tests/unit", "tests/functional"], False),
        (["tests/unit/lab/test_patched.py"], False),
        (["tests"], True),
        (["tests/unit", "tests/lab/"], True),
        (["tests/patches/test_qemu.py::test_qemu"], True),
    ],
)
def test_only_a_run_with_guests_asks_what_is_built(args: list[str], does: bool) -> None:
    assert stands_on_builds(args) is does


def test_a_group_is_in_one_piece_and_keeps_its_order() -> None:
    found = ordered([f"tests/unit/test_{file}.py::test_{number}" for number in range(3) for file in "abc"])
    for file in "abc":
        places = [at for at, one in enumerate(found) if f"test_{file}.py" in one]
        assert places == list(range(places[0], places[0] + 3))
        assert [found[place][-1] for place in places] == list("012")


def test_of_one_rank_the_longest_begins_first_and_a_new_one_counts_as_long() -> None:
    tests = [f"tests/lab/test_{name}.py::test" for name in ("short", "long", "new")]
    took = {file_of(tests[0]): 1.0, file_of(tests[1]): 90.0}
    assert [tests[at] for at in in_order(tests, took)] == [tests[2], tests[1], tests[0]]
    first = f"{WHOLE_MACHINE[0]}::test"
    assert in_order([*tests, first], {**took, WHOLE_MACHINE[0]: 0.1}) == [3, 2, 1, 0]


def test_a_shuffle_stays_within_files_and_classes_and_is_the_same_for_one_seed() -> None:
    nodeids = [f"tests/{file}.py::{name}::test_{at}[a::b]" for file in "ab" for name in "CD" for at in range(9)]
    places = shuffled(nodeids, 1)
    assert places == shuffled(nodeids, 1) != shuffled(nodeids, 2)
    assert sorted(places) == list(range(len(nodeids)))
    mixed = [nodeids[at] for at in places]
    assert mixed != nodeids
    assert [one.split("::")[0] for one in mixed] == [one.split("::")[0] for one in nodeids]
    assert all(len({one.partition("::test")[0] for one in mixed[at : at + 9]}) == 1 for at in range(0, 36, 9))


def test_what_groups_took_is_kept_and_a_part_of_one_does_not_make_it_short(tmp_path: Path) -> None:
    file = tmp_path / "tests/took.json"
    assert took_before(file) == {}
    keep({"a": 90.0, "b": 2.0}, file)
    keep({"a": 0.5}, file)
    assert took_before(file) == {"a": 45.0, "b": 2.0}
    keep({"a": 60.0}, file)
    assert took_before(file)["a"] == 60.0


@pytest.mark.parametrize("text", ["", "no", "[1]", '{"a": null}', '{"a": {}}'])
def test_what_cannot_be_read_was_not_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "took.json"
    file.write_text(text)
    assert took_before(file) == {}
    keep({"a": 1.0}, file)
    assert took_before(file) == {"a": 1.0}


def test_nothing_is_no_trouble() -> None:
    assert in_order([]) == []


@pytest.mark.parametrize("name", [*FIRST, *SLOW, *APART])
def test_what_is_named_is_there(name: str) -> None:
    assert (ROOT / name).exists() or list((ROOT / name).parent.glob(f"{Path(name).name}*"))


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


def test_whoever_has_the_machine_alone_keeps_it_until_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMHINT_CACHE", str(tmp_path))
    alone = Alone()
    alone.leave()  # nothing is held
    for _ in range(2):
        alone.take()
    with (tmp_path / "lab/guests.lock").open("w") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        alone.leave()
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    alone.take()
    alone.leave()
