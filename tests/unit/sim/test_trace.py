"""Traces are read as they are written, and a bad one is refused with its line."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from memhint.objects.units import GIB, KIB, MIB
from memhint.sim.fleet import HostShape
from memhint.sim.trace import COLUMNS, TraceError, UsageSeries, fleet_of, read

HEADER = "vm,time_s,assigned_mib,demand_mib"
BITBRAINS = Path(__file__).parent / "bitbrains.csv"


def written(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_csv_gives_every_vm_its_course(tmp_path: Path) -> None:
    path = written(tmp_path, "a,0,1024,100", "b,0,2048,7.5", "a,300,1024,200", "", "b,900,2048,0")
    assert read(path).courses == {
        "a": UsageSeries(1 * GIB, [0.0, 300.0], [100.0 * MIB, 200.0 * MIB]),
        "b": UsageSeries(2 * GIB, [0.0, 900.0], [7.5 * MIB, 0.0]),
    }


def test_columns_may_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    path = written(tmp_path, "5,x,10,a,64", header="demand_mib,note,time_s,vm,assigned_mib")
    assert read(path).courses == {"a": UsageSeries(64.0 * MIB, [10.0], [5.0 * MIB])}


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    path = written(tmp_path, "a,0,1024,100", "b,0,2048,7.5", "a,300,1024,200")
    table = pyarrow.table({"vm": ["a", "b", "a"], "time_s": [0, 0, 300], "assigned_mib": [1024, 2048, 1024],
                           "demand_mib": [100.0, 7.5, 200.0]})  # fmt: skip
    parquet.write_table(table, tmp_path / "trace.parquet")
    assert read(tmp_path / "trace.parquet") == read(path)


@pytest.mark.parametrize(
    ("rows", "line", "what"),
    [
        (["a,0,1024"], 2, "3 columns, the header has 4"),
        (["a,0,1024,1", "a,300,1024,x"], 3, "demand_mib is 'x', not a number"),
        (["a,0,1024,nan"], 2, "demand_mib is 'nan', not a number"),
        (["a,0,1024,1e999"], 2, "demand_mib is 1e999, not a number from 0"),
        (["a,0,1024,1_0"], 2, "demand_mib is '1_0', not a number"),
        (["a,0,1024,-1"], 2, "demand_mib is -1, not a number from 0"),
        (["a,0,0,0"], 2, "assigned_mib is 0, not above 0"),
        (["a,0,1024,1025"], 2, "more is used (1025 MiB) than there is (1024 MiB)"),
        (["a,0,1024,1", "", "a,300,2048,1"], 4, "assigned_mib of a changes from 1024"),
        (["a,300,1024,1", "a,300,1024,1"], 3, "time_s of a does not rise: 300 after 300"),
        ([" ,0,1024,1"], 2, "vm is empty"),
        ([], None, "no row"),
        (['a,0,1024,"1'], 2, "unexpected end of data"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, rows: list[str], line: int | None, what: str) -> None:
    path = written(tmp_path, *rows)
    with pytest.raises(TraceError) as refused:
        read(path)
    assert (refused.value.line, refused.value.what) == (line, what)
    assert str(refused.value).startswith(f"{path}:{line}: " if line else f"{path}: ")


def test_a_header_without_a_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv:1: no column demand_mib; there are: vm, time_s, assigned_mib"):
        read(written(tmp_path, header="vm,time_s,assigned_mib"))


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"vm\xff\xfe")
    with pytest.raises(TraceError, match="not UTF-8"):
        read(tmp_path / "bytes.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 it is not")
    with pytest.raises(TraceError, match="not Parquet"):
        read(tmp_path / "bad.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match=r"without any \.csv"):
        read(tmp_path / "empty")


@pytest.mark.parametrize(("column", "values"), [("demand_mib", [None]), ("vm", [None]), ("time_s", [True])])
def test_a_parquet_cell_without_a_value_is_refused_with_its_row(tmp_path: Path, column: str, values: list) -> None:
    cells = {"vm": ["a"], "time_s": [0], "assigned_mib": [64], "demand_mib": [1]} | {column: values}
    parquet.write_table(pyarrow.table(cells), tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match=f":1: {column} is"):
        read(tmp_path / "trace.parquet")


def test_a_parquet_file_without_a_column_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"vm": ["a"]}), tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match="no column time_s, assigned_mib, demand_mib"):
        read(tmp_path / "trace.parquet")


def test_bitbrains_columns_are_read_with_seconds_under_milliseconds() -> None:
    (course,) = read(BITBRAINS).courses.values()
    assert course.memory == 4194304 * KIB
    assert [now - course.times[0] for now in course.times] == [0.0, 300.0, 600.0, 1200.0]
    assert course.demands == [524288 * KIB, 1048576 * KIB, 786432.5 * KIB, 262144 * KIB]


def test_a_directory_of_bitbrains_files_is_a_fleet(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.csv").write_text(BITBRAINS.read_text())
    assert sorted(read(tmp_path).courses) == ["1", "2"]


def test_real_milliseconds_are_milliseconds(tmp_path: Path) -> None:
    lines = BITBRAINS.read_text().splitlines()
    path = tmp_path / "ms.csv"
    scaled = [line.replace(line.split(";")[0], f"{line.split(';')[0]}000", 1) for line in lines[1:]]
    path.write_text("\n".join([lines[0], *scaled]))
    assert next(iter(read(path).courses.values())) == next(iter(read(BITBRAINS).courses.values()))


def test_a_bitbrains_file_that_goes_back_in_time_is_refused(tmp_path: Path) -> None:
    lines = BITBRAINS.read_text().splitlines()
    path = tmp_path / "back.csv"
    path.write_text("\n".join([lines[0], lines[3], lines[1]]))
    with pytest.raises(TraceError, match=r"back\.csv:3: Timestamp \[ms\] falls"):
        read(path)


def bitbrains(path: Path, *rows: tuple[int, float, float]) -> None:
    """A file as the archive has it: (seconds, KiB provisioned, KiB used)."""
    head, first = BITBRAINS.read_text().splitlines()[:2]
    cells = [cell.strip() for cell in first.split(";")]
    lines = [";\t".join([str(now), *cells[1:5], str(has), str(uses), *cells[7:]]) for now, has, uses in rows]
    path.write_text("\n".join([head.replace("; ", ";\t"), *lines, ""]))


def test_rows_of_the_archive_that_use_more_than_there_is_are_cut_and_counted(tmp_path: Path) -> None:
    bitbrains(tmp_path / "1.csv", (0, 2048, 1024), (300, 2048, 4096), (600, 1024, 1500), (900, 2048, 2049))
    bitbrains(tmp_path / "2.csv", (0, 2048, 2048))
    bitbrains(tmp_path / "3.csv")
    bitbrains(tmp_path / "4.csv", (0, 0, 0), (300, 0, 7))
    found = read(tmp_path)
    # 1500 of 1024 stays: the VM's memory is the most that it ever had.
    assert found.courses["1"].demands == [1024 * KIB, 2048 * KIB, 1500 * KIB, 2048 * KIB]
    assert (found.cut, found.left_out) == ({"1": 2}, ["3", "4"])
    assert (
        found.words == "2 rows of 1 VM use more than the VM has: cut to that; left out: 2 VMs without any row or memory"
    )
    assert read(tmp_path / "2.csv").words == ""
    for name, what in (("3", "no row"), ("4", "no memory was ever provisioned")):
        with pytest.raises(TraceError, match=what):
            read(tmp_path / f"{name}.csv")


def test_a_directory_in_which_nobody_has_memory_is_refused(tmp_path: Path) -> None:
    bitbrains(tmp_path / "4.csv", (0, 0, 0))
    with pytest.raises(TraceError, match="no VM has any row and memory"):
        read(tmp_path)


def test_between_rows_a_vm_uses_what_it_used_and_in_a_step_the_most() -> None:
    courses = {
        "steady": UsageSeries(8.0 * GIB, [100.0, 2000.0], [1.0 * GIB, 2.0 * GIB]),
        "late": UsageSeries(4.0 * GIB, [900.0, 1000.0, 1250.0], [3.0, 1.0, 2.0]),
    }
    made = fleet_of(courses, name="two", step=300.0, seed=1)
    assert made.steps == 7
    by_name = {name: made.levels[:, row].tolist() for row, name in enumerate(courses)}
    assert by_name["steady"] == [1.0 * GIB] * 6 + [2.0 * GIB]
    assert by_name["late"][2:4] == [3.0, 2.0]  # 800 and 900 s after the beginning are in one step, 1150 in the next
    late = int(np.flatnonzero(made.memory == 4.0 * GIB)[0])
    assert (made.arrival[late], made.departure[late]) == (2, 4)


def test_as_many_hosts_as_are_offered_twice_their_memory() -> None:
    courses = {str(vm): UsageSeries(16.0 * GIB, [0.0, 3000.0], [1.0, 1.0]) for vm in range(64)}
    shape = HostShape(pool=128 * GIB)
    assert fleet_of(courses, name="many", step=300.0, seed=1, shape=shape).hosts == 4
    assert fleet_of(courses, name="many", step=300.0, seed=1, shape=shape, hosts=7).hosts == 7


def test_a_trace_too_large_is_refused_before_it_takes_memory() -> None:
    courses = {"a": UsageSeries(1.0, [0.0, 1e12], [0.0, 0.0])}
    with pytest.raises(ValueError, match="too much"):
        fleet_of(courses, name="long", step=1.0, seed=1)


@settings(max_examples=50)
@given(st.text(alphabet="av,0123456789.-\n;\"'eE ", max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "trace.csv"
    path.write_text(f"{','.join(COLUMNS)}\n{text}")
    try:
        courses = read(path).courses
    except TraceError:
        return
    for course in courses.values():
        assert course.memory > 0
        assert len(course.times) == len(course.demands) > 0
        assert all(0 <= demand <= course.memory for demand in course.demands)
