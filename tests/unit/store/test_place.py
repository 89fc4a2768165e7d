from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memhint.store import StoreDamaged, StoreError, StoreMissing, open_store
from memhint.store.file import make_file
from memhint.store.host_store import open_host_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_nobody_else_can_read_a_new_store(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/lib/memhint.db").close()
    assert mode(tmp_path / "lib") == 0o750
    assert mode(tmp_path / "lib" / "memhint.db") == 0o640


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    place_of_others = tmp_path / "lib"
    place_of_others.mkdir(mode=0o755)
    open_store(f"sqlite:///{place_of_others}/memhint.db").close()
    assert mode(place_of_others) == 0o755


def test_reading_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="start the agent"):
        open_store(f"sqlite:///{tmp_path}/lib/memhint.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("a file where the directory should be")
    with pytest.raises(StoreError, match=r"lib.*run as root or.*\[store\] url"):
        open_store(f"sqlite:///{tmp_path}/lib/memhint.db")


@pytest.mark.parametrize("refused", ["memhint.db", "lib"])
def test_a_store_that_may_not_be_written_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    path = tmp_path / "lib" / "memhint.db"
    open_store(f"sqlite:///{path}").close()
    monkeypatch.setattr(os, "access", lambda name, _: Path(name).name != refused)
    with pytest.raises(StoreError, match=rf"{refused} is not.*writable.*run as root"):
        open_store(f"sqlite:///{path}", create=False)


def test_a_file_that_is_no_database_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "memhint.db"
    path.write_text("this is no database, however long it is looked at\n" * 100)
    with pytest.raises(StoreDamaged, match="then move that away"):
        open_store(f"sqlite:///{path}")


@pytest.mark.parametrize(
    ("url", "text"), [("nonsense", "not a database URL"), ("postgresql+nodriver://a:secret@b/c", "no driver")]
)
def test_a_url_that_leads_nowhere_is_refused_without_its_password(url: str, text: str) -> None:
    with pytest.raises(StoreError, match=text) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_who_opens_a_store_again_goes_on_seeing_what_others_write(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops all locks that its process holds on it, SQLite's as well.

    The next process to leave took itself for the last, and took the write-ahead log with it.
    """
    path = tmp_path / "memhint.db"
    url = f"sqlite:///{path}"
    first = sqlite3.connect(path)
    first.execute("PRAGMA journal_mode=WAL")
    first.execute("CREATE TABLE other (one)")
    first.commit()
    assert first.execute("SELECT * FROM other").fetchall() == []
    log = path.with_name("memhint.db-wal").stat().st_ino
    make_file(path)
    open_store(url).close()
    open_host_store(url, host="host-a").close()
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('INSERT INTO other VALUES (1)'); "
        "c.commit(); c.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert first.execute("SELECT * FROM other").fetchall() == [(1,)]
    assert path.with_name("memhint.db-wal").stat().st_ino == log
    first.close()
