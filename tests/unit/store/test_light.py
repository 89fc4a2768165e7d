"""The part of the store that hosts use agrees with the store as a whole, and fails as it does."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from memhint.objects.policy import Origin, PolicyError
from memhint.objects.reclaim import Reclaim, ReclaimState
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.growth import table_of
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.store import Store, StoreDamaged, StoreError, StoreMissing, StoreVersion, open_store
from memhint.store.errors import StoreRefused
from memhint.store.host_store import HostStore, open_host_store
from memhint.store.light.database import Database
from memhint.store.light.store import LightStore, light_path
from memhint.store.rows.points import DomainKeep, Keep
from tests.unit import builders
from tests.unit.builders import DB, NOW, OLD, WEB

KEEPS: dict[str, Any] = {
    "keep": Keep(raw=3600.0, five_minutes=0.2 * 86400, hours=86400.0),
    "domain_keep": DomainKeep(step=30.0, points=2 * 3600.0, hours=86400.0),
}
# What each store reads off its own clock.
OWN_TIME = {"policy": "set_at", "growth": "made"}

Step = Callable[[HostStore, float], object]


def report(at: float, number: int, vms: list[tuple[str, int]], refused: bool) -> Any:
    domains = [
        builders.domain_report(
            observation=builders.domain_observation(uuid=uuid, name=f"vm\0{uuid}", process=builders.process(rss=rss))
        )
        for uuid, rss in vms
    ]
    more = (builders.refused_domain(),) if refused else ()
    return builders.report(sequence=number, at=at, domains=(*domains, *more))


def save_report(number: int, vms: list[tuple[str, int]], refused: bool) -> Step:
    return lambda store, at: store.reports.save(report(at, number, vms, refused))


def change(state: ReclaimState, name: str) -> Step:
    def step(store: HostStore, at: float) -> object:
        one = Reclaim(builders.reclaim_request(id=name, at=at, expires=at + 60))
        verdict = Verdict(Answer.FAILED, Reason.INTERRUPTED, "why") if state.ended else one.verdict
        return store.reclaims.save(replace(one, state=state, begun=at, verdict=verdict))

    return step


def add(name: str) -> Step:
    """What is there already is refused, and what is dropped for being old stays."""

    def step(store: HostStore, at: float) -> object:
        try:
            return store.reclaims.add(Reclaim(builders.reclaim_request(id=name, at=at, expires=at + 60)))
        except StoreRefused as error:
            return str(error).partition(": ")[2]

    return step


def read(store: HostStore) -> object:
    """Everything that an agent and its host's commands read."""
    return (
        [store.reports.newest(host) for host in ("host-a", "host-b")],
        store.reports.hosts(),
        [store.policies.read(uuid) for uuid in (WEB, DB)],
        [store.reclaims.get(name) for name in ("req-1", "req-2", "req-3")],
        store.reports.last_epoch("host-a"),
        store.reports.last_epoch("host-b"),
        store.policies.read(),
        store.marks.all(),
        [store.marks.get(subject, "merge") for subject in (WEB, DB)],
        [store.states.newest("host-a", boot) for boot in ("boot-1", "boot-2")],
        [store.states.of_last_boot("host-a", boot) for boot in ("boot-1", "boot-2")],
        store.reclaims.open(),
        store.reclaims.interrupted(),
        store.reclaims.newest(),
        store.growth.newest(),
    )


VMS = st.lists(st.tuples(st.sampled_from([WEB, DB, OLD]), st.integers(1, 4096).map(lambda mib: mib * MIB)), max_size=4)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(["req-1", "req-2", "req-3"])
SUBJECTS = st.sampled_from([WEB, DB])
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(save_report, st.integers(1, 2**40), VMS, st.booleans()),
    st.builds(save_report, st.integers(1, 2**40), VMS, st.booleans()),
    st.builds(
        lambda uuid, origin, values: lambda store, _: store.policies.replace(uuid, origin, values),
        SUBJECTS,
        st.sampled_from([Origin.OPERATOR, Origin.METADATA]),
        st.dictionaries(st.sampled_from(["reporting", "dedup"]), st.just("off")),
    ),
    st.builds(
        lambda uuid, values, unset: lambda store, _: store.policies.set_operator(uuid, values, unset),
        SUBJECTS,
        st.dictionaries(st.sampled_from(["reporting", "dedup"]), st.sampled_from(["on", "off"])),
        st.sets(st.sampled_from(["reporting", "dedup", "class", "nothing"])),
    ),
    st.builds(
        lambda subject, before, instance: (
            lambda store, at: store.marks.put(builders.mark(subject=subject, before=before, instance=instance, at=at))
        ),
        SUBJECTS,
        TEXTS,
        st.sampled_from(["1:1", "2:2"]),
    ),
    st.builds(lambda subject: lambda store, _: store.marks.remove(subject, "merge"), SUBJECTS),
    st.builds(
        lambda subject, words: (
            lambda store, at: store.events.record(
                "host-a",
                at,
                [builders.lever_state(subject=subject, desired=words, verdict=Verdict(Answer.APPLIED, detail=words))],
            )
        ),
        SUBJECTS,
        TEXTS,
    ),
    st.builds(
        lambda boot, ended: lambda store, _: store.states.save("host-a", boot, start(PlannerSettings()), ended),
        st.sampled_from(["boot-1", "boot-2"]),
        st.none() | st.floats(0, 1e10),
    ),
    st.builds(
        lambda name: (
            lambda store, at: store.reclaims.add_once(
                Reclaim(builders.reclaim_request(id=name, at=at, expires=at + 60))
            )
        ),
        NAMES,
    ),
    st.builds(add, NAMES),
    st.builds(lambda name, why: lambda store, _: store.reclaims.interrupt(name, why), NAMES, TEXTS),
    st.builds(change, st.sampled_from([ReclaimState.RUNNING, ReclaimState.FAILED]), NAMES),
    st.builds(
        lambda version: lambda store, _: store.growth.save(table_of(version, [])),
        st.integers(1, 2**40),
    ),
)


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, but for the store's own time."""
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for table in tables:
        rows = connection.execute(f"SELECT * FROM {table}")
        own = [column[0] == OWN_TIME.get(table) for column in rows.description]
        found[table] = sorted(
            (tuple(None if skip else value for skip, value in zip(own, row, strict=True)) for row in rows), key=repr
        )
    connection.close()
    return found


@pytest.fixture(scope="module")
def empty() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "memhint.db"
        open_store(f"sqlite:///{path}").close()
        yield path


def both(directory: Path, empty: Path) -> tuple[Store, LightStore]:
    paths = [directory / "whole.db", directory / "light.db"]
    for path in paths:
        shutil.copy(empty, path)
    whole = open_store(f"sqlite:///{paths[0]}", host="host-a", **KEEPS)
    light = open_host_store(f"sqlite:///{paths[1]}", host="host-a", **KEEPS)
    assert isinstance(light, LightStore)
    return whole, light


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(STEPS, st.sampled_from([0.0, 10.0, 45.0, 400.0, 4000.0, 30000.0])), max_size=25))
def test_both_stores_leave_the_same_rows_and_read_the_same(empty: Path, steps: list[tuple[Step, float]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        whole, light = both(Path(name), empty)
        at = NOW
        for step, later in steps:
            at += later
            assert step(light, at) == step(whole, at)
        assert contents(Path(name) / "light.db") == contents(Path(name) / "whole.db")
        told = read(light)
        assert told == read(whole)
        # Each reads what the other has written: it is the same file to both.
        swapped = open_host_store(f"sqlite:///{name}/whole.db", host="host-a")
        assert read(swapped) == told
        for store in (whole, light, swapped):
            store.close()


def test_a_day_of_reports_is_thinned_alike(tmp_path: Path, empty: Path) -> None:
    whole, light = both(tmp_path, empty)
    for number in range(120):
        at = NOW + number * 700
        vms = [(WEB, (1000 + number * 37 % 500) * MIB)] + [(DB, 900 * MIB)] * (number % 3 > 0)
        for store in (whole, light):
            store.reports.save(report(at, number, vms, number % 2 > 0))
    found = contents(tmp_path / "light.db")
    assert found == contents(tmp_path / "whole.db")
    assert {row[0] for row in found["host_history"]} == {0, 300, 3600}
    assert {row[0] for row in found["domain_history"]} == {0, 3600}
    whole.close()
    light.close()


@pytest.mark.parametrize("keep", [Keep(2 * 3600.0, 0.0, 7 * 86400.0), Keep(10 * 3600.0, 7200.0, 7 * 86400.0)])
@pytest.mark.parametrize("kind", ["whole", "light"])
def test_the_worst_of_an_hour_is_of_the_whole_hour(tmp_path: Path, kind: str, keep: Keep) -> None:
    url = f"sqlite:///{tmp_path}/memhint.db"
    store: HostStore
    store = (
        open_store(url, host="host-a", keep=keep) if kind == "whole" else open_host_store(url, host="host-a", keep=keep)
    )
    begin = NOW // 3600 * 3600
    for number in range(24 * 12):
        made = report(begin + number * 300, number, [(WEB, GIB)], False)
        capacity = replace(made.plan.capacity, footprint=(20 + (number % 12 == 8)) * GIB)  # at minute 40
        store.reports.save(replace(made, plan=replace(made.plan, capacity=capacity)))
    store.close()
    reader = open_store(url, host="host-a")
    hours = [one.footprint for one in reader.history.of("host-a") if one.span == 3600]
    reader.close()
    assert len(hours) >= 10
    assert set(hours) == {21 * GIB}


def opened(path: Path, busy: float = 10.0) -> HostStore:
    return open_host_store(f"sqlite:///{path}", host="host-a", busy=busy)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_store_is_made_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = opened(tmp_path / "lib" / "memhint.db")
    finally:
        os.umask(before)
    assert isinstance(store, LightStore)
    assert read(store)
    store.close()
    assert (mode(tmp_path / "lib"), mode(tmp_path / "lib" / "memhint.db")) == (0o750, 0o640)


def test_a_store_of_a_newer_memhint_is_left_alone(tmp_path: Path, empty: Path) -> None:
    path = shutil.copy(empty, tmp_path / "memhint.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreVersion, match="9999"):
        opened(path)


def test_a_file_that_is_no_database_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "memhint.db"
    path.write_text("this is no database, however long it is looked at\n" * 100)
    with pytest.raises(StoreDamaged, match=r"see that \[store\] url names memhint's own file, then move that away"):
        opened(path)


def spoilt(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def no_tables(path: Path) -> None:
    path.write_bytes(b"")


def instead_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def torn(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 8092 + content[8192:])


SPOILS: dict[str, tuple[Callable[[Path], object], type[StoreError], str]] = {
    "missing": (Path.unlink, StoreMissing, "there is no store at .*memhint.db: start the agent"),
    "empty": (no_tables, StoreMissing, "has no tables yet: start the agent"),
    "no version": (lambda path: spoilt(path, "DELETE FROM alembic_version"), StoreMissing, "no tables yet"),
    "older": (
        lambda path: spoilt(path, "UPDATE alembic_version SET version_num = '0001'"),
        StoreVersion,
        r"of an older memhint \(0001\): restart the agent",
    ),
    "newer": (
        lambda path: spoilt(path, "UPDATE alembic_version SET version_num = '9999'"),
        StoreVersion,
        r"of a newer memhint \(9999, this one knows up to \d+\): "
        r"upgrade memhint, put back the copy of the store from before its upgrade, or choose another place",
    ),
    "no database": (lambda path: path.write_text("no database\n" * 400), StoreDamaged, "then move that away"),
    "torn": (torn, StoreDamaged, "then move that away"),
    "a directory": (instead_a_directory, StoreError, "unable to open database file; run as root"),
}


def failures(path: Path) -> list[tuple[type[StoreError], str]]:
    """Of both stores, where they are to make nothing."""
    found = []
    for opens in (open_store, open_host_store):
        before = sorted(path.parent.iterdir())
        with pytest.raises(StoreError) as failure:
            opens(f"sqlite:///{path}", host="host-a", create=False)
        found.append((failure.type, str(failure.value)))
        assert sorted(path.parent.iterdir()) == before
    return found


@pytest.mark.parametrize("name", SPOILS)
def test_a_store_that_is_not_made_fails_as_the_whole_one_does(tmp_path: Path, empty: Path, name: str) -> None:
    spoil, kind, words = SPOILS[name]
    path = Path(shutil.copy(empty, tmp_path / "memhint.db"))
    spoil(path)
    whole, light = failures(path)
    assert light == whole
    assert light[0] is kind
    assert re.search(words, light[1])


@pytest.mark.parametrize("refused", ["memhint.db", "lib"])
def test_a_store_that_may_not_be_used_fails_as_the_whole_one_does(
    tmp_path: Path, empty: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    (tmp_path / "lib").mkdir()
    path = Path(shutil.copy(empty, tmp_path / "lib" / "memhint.db"))
    monkeypatch.setattr(os, "access", lambda asked, mode: Path(asked).name != refused)  # root may do everything
    whole, light = failures(path)
    assert light == whole
    assert re.search(f"{refused} is not .*writable here; run as root or as the owner", light[1])


def test_what_is_there_is_opened_without_making_anything(tmp_path: Path, empty: Path) -> None:
    path = shutil.copy(empty, tmp_path / "memhint.db")
    store = open_host_store(f"sqlite:///{path}", host="host-a", create=False)
    assert isinstance(store, LightStore)
    assert store.reports.newest("host-a") is None
    store.close()


@pytest.mark.parametrize("table", ["report", "reclaim"])
def test_a_damaged_record_is_told_as_the_whole_store_tells_it(tmp_path: Path, empty: Path, table: str) -> None:
    path = shutil.copy(empty, tmp_path / "memhint.db")
    stores = (opened(path), open_store(f"sqlite:///{path}", host="host-a"))
    stores[0].reports.save(report(NOW, 1, [(WEB, MIB)], False))
    stores[0].reclaims.add(Reclaim(builders.reclaim_request(id="req-1")))
    spoilt(path, f"UPDATE {table} SET document = '{{'")
    told = []
    for store in stores:
        with pytest.raises(StoreDamaged) as failure:
            store.reports.newest("host-a") if table == "report" else store.reclaims.get("req-1")
        told.append(str(failure.value))
        store.close()
    assert told[0] == told[1]


def test_a_damaged_request_is_passed_over_and_ends(tmp_path: Path, empty: Path) -> None:
    for number, store in enumerate(both(tmp_path, empty)):
        good = Reclaim(builders.reclaim_request(id="req-2"))
        store.reclaims.add(Reclaim(builders.reclaim_request(id="req-1")))
        store.reclaims.add(good)
        path = (tmp_path / "whole.db", tmp_path / "light.db")[number]
        spoilt(path, "UPDATE reclaim SET document = '{', interrupted = 'no more' WHERE id = 'req-1'")
        assert store.reclaims.newest() == (good,)
        assert store.reclaims.open() == (good,)
        assert store.reclaims.interrupted() == {}
        store.close()
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT id, state FROM reclaim ORDER BY id").fetchall() == [
                ("req-1", "failed"),
                ("req-2", "queued"),
            ]


def test_an_operators_wishes_are_changed_all_or_none(tmp_path: Path, empty: Path) -> None:
    for store in both(tmp_path, empty):
        store.policies.set_operator(WEB, {"reporting": "off"})
        before = store.policies.read(WEB)
        with pytest.raises(PolicyError):
            store.policies.set_operator(WEB, {"dedup": "on", "reporting": "perhaps"}, ["reporting"])
        with pytest.raises(PolicyError):
            store.policies.set_operator(WEB, {"fast_min": "60%", "fast_max": "40%"})
        with pytest.raises(StoreRefused):
            store.policies.set_operator(WEB, {"dedup": "on"}, ["reporting", "\udc80"])
        assert store.policies.read(WEB) == before
        store.close()


def test_a_store_that_another_process_keeps_is_named_and_waited_for_once(tmp_path: Path, empty: Path) -> None:
    path = shutil.copy(empty, tmp_path / "memhint.db")
    clock = [0.0]
    database = Database(path, 0.3, lambda: clock[0])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with pytest.raises(StoreError, match="another process keeps it"), database.write():
            raise AssertionError("it is kept")
    assert database._patience.seconds() < 0.3
    clock[0] = 1.0
    assert database._patience.seconds() == 0.3
    with database.read() as connection:  # who reads does not wait
        assert connection.execute("SELECT COUNT(*) FROM mark").fetchone() == (0,)
    other.execute("COMMIT")
    with database.write():
        pass
    other.close()
    database.close()


def test_a_full_disk_loses_the_whole_report_and_says_so(tmp_path: Path, empty: Path) -> None:
    path = shutil.copy(empty, tmp_path / "memhint.db")
    store = opened(path)
    assert isinstance(store, LightStore)
    store.reports.save(report(NOW, 1, [(WEB, MIB)], False))
    before = contents(path)
    (connection,) = store.database._idle
    connection.execute("PRAGMA max_page_count = 1")  # as many as there are
    large = report(NOW + 10, 2, [(f"{number:036}", number * MIB) for number in range(1, 300)], False)
    with pytest.raises(StoreError, match="full; make room on that disk"):
        store.reports.save(large)
    assert contents(path) == before
    store.reports.save(large)  # there is room again: the connection that had none is gone
    store.close()


def test_what_the_database_does_not_take_is_refused(tmp_path: Path, empty: Path) -> None:
    store = opened(shutil.copy(empty, tmp_path / "memhint.db"))
    with pytest.raises(StoreRefused):
        store.marks.put(builders.mark(at=2**70))
    with pytest.raises(StoreRefused):
        store.marks.put(builders.mark(at=float("nan")))
    with pytest.raises(StoreRefused):
        store.marks.put(builders.mark(before="\udc80"))
    assert store.marks.all() == ()
    store.close()


PLAIN = ("sqlite:////var/lib/memhint/memhint.db", "sqlite:///beside.db", "sqlite:////a place/ä+b#c.db")


@pytest.mark.parametrize(
    "url",
    [
        *PLAIN,
        "sqlite:////a place/50%25/x.db",
        "sqlite:////var/lib/m.db?timeout=5",
        "sqlite:///:memory:",
        "sqlite://",
        "sqlite+pysqlite:////var/lib/m.db",
        "postgresql+psycopg://a:b@c/d",
        "nonsense",
    ],
)
def test_a_plain_file_is_the_one_that_sqlalchemy_would_open(url: str) -> None:
    path = light_path(url)
    assert (path is not None) == (url in PLAIN)
    if path is not None:
        assert str(path) == make_url(url).database
