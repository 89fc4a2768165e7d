from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from memhint.objects.policy import Origin
from memhint.store import Store, StoreError, open_store
from tests.functional.processes import ROOT, start
from tests.unit import builders
from tests.waiting import until


@pytest.fixture
def writer(url: str) -> Iterator[subprocess.Popen[str]]:
    process = start("save_for_ever", url)
    yield process
    process.kill()
    process.communicate()


def lines(process: subprocess.Popen[str], number: int) -> int:
    """The last of the next so many numbers that a writer says it has saved."""
    assert process.stdout is not None
    for _ in range(number):
        last = process.stdout.readline()
    return int(last)


def rest(process: subprocess.Popen[str]) -> list[str]:
    """The numbers that a writer said until it ended: those too that were read together with earlier ones."""
    assert process.stdout is not None
    return process.stdout.read().split()


def whole(store: Store) -> bool:
    """Whether each report has its point."""
    report = store.reports.newest("host-a")
    return report is not None and len(store.history.of("host-a")) == report.sequence


def done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("after", [1, 17, 40])
def test_a_writer_that_is_killed_leaves_a_whole_store(url: str, writer: subprocess.Popen[str], after: int) -> None:
    saved = lines(writer, after)
    writer.kill()
    said = rest(writer)
    saved = int(said[-1]) if said else saved
    store = open_store(url)
    report = store.reports.newest("host-a")
    assert report is not None
    assert report.sequence in (saved, saved + 1)  # killed between the save and the line that tells of it
    until(lambda: whole(store))  # a server may still be at the last commit of a client that has died
    if url.startswith("sqlite"):
        with store.database.read() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
    store.reports.save(builders.report(sequence=report.sequence + 1, at=report.at + 1))
    store.close()


def test_readers_and_operators_work_while_the_agent_writes(url: str, writer: subprocess.Popen[str]) -> None:
    before = lines(writer, 1)
    others = [start("read_times", url, "100") for _ in range(3)] + [start("set_times", url, "50") for _ in range(2)]
    for process in others:
        done(process)
    assert writer.poll() is None
    assert lines(writer, 20) > before
    store = open_store(url, create=False)
    assert store.policies.inputs() == {builders.WEB: {Origin.OPERATOR: {"reporting": "off"}}}
    store.close()


def test_processes_that_make_the_store_at_once_make_one(url: str) -> None:
    for process in [start("open_once", url) for _ in range(5)]:
        done(process)
    open_store(url, create=False).close()


def test_a_store_that_is_there_is_opened_without_alembic_and_the_orm(url: str) -> None:
    open_store(url).close()
    script = (
        "import sys; from memhint.store import open_store; "
        f"open_store({url!r}).reports.newest(); "
        "print([name for name in ('alembic', 'sqlalchemy.orm') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_somebody_without_the_right_is_told_so(tmp_path: Path, url: str) -> None:
    open_store(url).close()
    (tmp_path / "lib").chmod(0o500)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and parent not in (Path("/"), Path("/tmp")):
            parent.chmod(parent.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:  # a process of its own, because rights that were given up do not come back
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        code = 1
        try:
            open_store(url, create=False)
        except StoreError as error:
            code = 0 if "run as root" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (tmp_path / "lib").chmod(0o700)
