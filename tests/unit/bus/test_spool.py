from __future__ import annotations

import sqlite3
from pathlib import Path

from memhint.bus.spool import Spool


def texts(spool: Spool) -> list[str]:
    return [one.text for one in spool.first(100)]


def test_what_waits_outlives_the_process_in_its_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "lib" / "spool.db", 10, 1000)
    for text in "abc":
        spool.put("point", text)
    spool.remove(spool.first(1))
    spool.close()
    again = Spool(tmp_path / "lib" / "spool.db", 10, 1000)
    assert (texts(again), len(again), again.lost) == (["b", "c"], 2, 0)


def test_the_oldest_go_where_there_are_too_many_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 3, 1000)
    for text in "abcde":
        spool.put("point", text)
    assert (texts(spool), spool.lost) == (["c", "d", "e"], 2)
    spool.close()
    assert Spool(tmp_path / "spool.db", 3, 1000).lost == 2


def test_the_oldest_go_where_they_are_too_long(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 100, 10)
    for text in ("aaaa", "bbbb", "cccc", "x" * 11):
        spool.put("point", text)
    assert (texts(spool), spool.lost) == ([], 4)
    spool.put("event", "dd")
    assert texts(spool) == ["dd"]


def test_removing_makes_room_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 2, 1000)
    for text in "abcdef":
        spool.put("point", text)
        spool.remove(spool.first(1))
    assert (len(spool), spool.lost) == (0, 0)


def test_a_place_that_cannot_be_used_costs_what_is_spooled_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("a file where the directory should be")
    spool = Spool(tmp_path / "lib" / "spool.db", 10, 1000)
    spool.put("point", "a")
    spool.put("point", "b")
    assert (spool.first(10), spool.lost) == ((), 2)
    (tmp_path / "lib").unlink()
    spool.put("point", "c")
    assert (texts(spool), spool.lost) == (["c"], 2)


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "spool.db").write_text("this is no database, however long it is looked at\n" * 100)
    spool = Spool(tmp_path / "spool.db", 10, 1000)
    spool.put("point", "a")
    assert texts(spool) == ["a"]
    assert (tmp_path / "spool.damaged").exists()


def test_what_waited_in_a_file_that_was_damaged_later_is_counted_as_lost(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 3, 1000)
    for text in "abcde":
        spool.put("point", text)
    spool.close()
    for name in ("spool.db-wal", "spool.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "spool.db").write_text("this is no database, however long it is looked at\n" * 100)
    spool.put("point", "f")
    spool.put("point", "g")
    assert (texts(spool), spool.lost) == (["g"], 2 + 3 + 1)


def test_it_is_told_whether_what_was_sent_could_be_forgotten(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 10, 1000)
    spool.put("point", "a")
    sent = spool.first(1)
    other = sqlite3.connect(tmp_path / "spool.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # nobody else can write
    assert not spool.remove(sent)
    other.close()
    assert spool.remove(sent)
    assert texts(spool) == []


def test_a_spool_bears_its_mark_as_long_as_its_count_goes_on(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 1, 1000)
    for text in "ab":
        spool.put("point", text)
    first = spool.mark
    assert len(first) == 16
    spool.close()
    again = Spool(tmp_path / "spool.db", 1, 1000)
    assert (again.mark, again.lost) == (first, 1)
    again.close()
    for name in ("spool.db-wal", "spool.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "spool.db").write_text("this is no database, however long it is looked at\n" * 100)
    for text in "cd":
        again.put("point", text)
    assert (again.mark, again.lost) == (first, 3)
    again.close()
    later = Spool(tmp_path / "spool.db", 1, 1000)
    assert (later.mark, later.lost) == (first, 3), "also what was lost while nothing could be written"
    later.close()
    for path in tmp_path.glob("spool.*"):
        path.unlink()
    anew = Spool(tmp_path / "spool.db", 1, 1000)
    assert anew.lost == 0
    assert anew.mark not in ("", first)


def test_a_spool_of_an_earlier_version_is_given_a_mark_and_keeps_its_count(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 1, 1000)
    for text in "ab":
        spool.put("point", text)
    spool.close()
    with sqlite3.connect(tmp_path / "spool.db") as database:
        database.execute("DELETE FROM count WHERE name = 'mark'")
    again = Spool(tmp_path / "spool.db", 1, 1000)
    assert (len(again.mark), again.lost, texts(again)) == (16, 1, ["b"])


def test_a_disk_without_room_for_the_mark_keeps_nothing_from_being_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", 10, 1000)
    spool.put("point", "a")
    spool.close()
    with sqlite3.connect(tmp_path / "spool.db") as database:
        database.execute("DELETE FROM count WHERE name = 'mark'")
        database.execute(
            "CREATE TRIGGER no BEFORE INSERT ON count WHEN NEW.name = 'mark'"
            " BEGIN SELECT abs(-9223372036854775808); END"
        )
    again = Spool(tmp_path / "spool.db", 10, 1000)
    assert (again.mark, texts(again)) == ("", ["a"])
