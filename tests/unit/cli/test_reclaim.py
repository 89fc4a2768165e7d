from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from memhint.cli.words import hold_line
from memhint.objects.reclaim import Compaction, Hold, Reclaim, ReclaimState, Stop, released
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.cli.conftest import Bench

DONE = {
    "state": ReclaimState.DONE,
    "verdict": Verdict(Answer.APPLIED, Reason.NONE, "500 of 500 MiB reclaimed, compacted"),
    "asked": 500 * MIB,
    "reclaimed": 500 * MIB,
    "compaction": Compaction.DONE,
    "stop": Stop.DONE,
    "pressure": 1.25,
    "flushed": 480 * MIB,
    "calls": 3,
    "before": 900 * MIB,
    "after": 410 * MIB,
}


def agent(bench: Bench, **changes: Any) -> Callable[[], None]:
    """What an agent does while the command waits: first it begins, then it ends the request."""

    def cycle() -> None:
        for one in bench.store.reclaims.open():
            if one.state is ReclaimState.QUEUED:
                bench.store.reclaims.save(replace(one, state=ReclaimState.RUNNING, begun=bench.now))
            else:
                bench.store.reclaims.save(replace(one, **({"ended": bench.now} | DONE | changes)))

    return cycle


def asked(bench: Bench) -> Reclaim:
    (one,) = bench.store.reclaims.newest()
    return one


def save(bench: Bench) -> None:
    bench.store.reports.save(builders.report())


def test_a_request_is_queued_followed_and_shown(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = agent(bench)
    result = bench.run("reclaim", "web-1")
    assert (result.code, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "| Verdict | applied: 500 of 500 MiB reclaimed, compacted |" in lines
    assert "| Returned | 490 MiB (seen by the host) |" in lines
    assert "| Pressure | 1.2 % at most, limit 10 % |" in lines
    request = asked(bench).request
    assert (request.size, request.psi_limit, request.timeout, request.dry_run) == (None, 10.0, 60.0, False)
    assert request.by.startswith("operator ")


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (["--bytes", "512MiB"], 512 * MIB),
        (["--bytes", "1.5G"], 1536 * MIB),
        (["--percent", "50"], 250 * MIB),
        (["--all"], None),
    ],
)
def test_how_much(bench: Bench, words: list[str], size: int | None) -> None:
    save(bench)
    assert bench.run("reclaim", "web-1", "--no-wait", *words).code == 0
    assert asked(bench).request.size == size


def test_machines_get_bytes_and_the_request(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = agent(bench)
    result = bench.run("reclaim", "web-1", "--json", "--psi-limit", "5", "--timeout", "20", "--reason", "migration")
    found = json.loads(result.out)
    assert (found["name"], found["state"], found["returned"]) == ("web-1", "done", 490 * MIB)
    assert found["request"]["psi_limit"] == 5.0
    assert found["request"]["timeout"] == 20.0
    assert found["request"]["reason"] == "migration"


def test_a_dry_run_is_asked_for_as_one(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = agent(bench, verdict=Verdict(Answer.PLANNED, Reason.DRY_RUN, "ask the guest for 500 MiB"))
    result = bench.run("reclaim", "web-1", "--dry-run")
    assert result.code == 0
    assert "ask the guest for 500 MiB" in result.out
    assert asked(bench).request.dry_run


@pytest.mark.parametrize(
    ("state", "answer", "code"),
    [
        (ReclaimState.REFUSED, Answer.REFUSED, 5),
        (ReclaimState.REFUSED, Answer.UNSUPPORTED, 5),
        (ReclaimState.FAILED, Answer.FAILED, 1),
        (ReclaimState.EXPIRED, Answer.FAILED, 4),
    ],
)
def test_how_it_ended_decides_the_exit_code(bench: Bench, state: ReclaimState, answer: Answer, code: int) -> None:
    save(bench)
    bench.on_sleep = agent(bench, state=state, verdict=Verdict(answer, Reason.KERNEL, "this is why"))
    result = bench.run("reclaim", "web-1")
    assert result.code == code
    assert "this is why" in result.err
    assert "this is why" in result.out


def test_no_wait_queues_and_ends(bench: Bench) -> None:
    save(bench)
    start = bench.now
    result = bench.run("reclaim", "web-1", "--no-wait", "--json")
    assert (result.code, bench.now) == (0, start)
    assert json.loads(result.out)["state"] == "queued"
    assert json.loads(result.out)["request"]["id"] == asked(bench).request.id


def test_waiting_ends_where_nobody_begins_and_where_nobody_ends(bench: Bench) -> None:
    save(bench)
    start = bench.now
    result = bench.run("reclaim", "web-1")
    assert result.code == 4
    assert "still queued" in result.err
    assert bench.now - start <= 81.0
    bench.store.reports.save(builders.report(sequence=8, at=bench.now))
    cycle = agent(bench)

    def begin() -> None:
        if any(one.state is ReclaimState.QUEUED for one in bench.store.reclaims.open()):
            cycle_once()

    def cycle_once() -> None:
        for one in bench.store.reclaims.open():
            bench.store.reclaims.save(replace(one, state=ReclaimState.RUNNING, begun=bench.now))

    assert cycle is not None
    bench.on_sleep = begin
    result = bench.run("reclaim", "web-1", "--timeout", "5")
    assert result.code == 4
    assert "still running" in result.err


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("step", [-7200.0, 7200.0])
@pytest.mark.parametrize("when", [1, 3])
def test_a_clock_that_is_set_meanwhile_makes_the_wait_no_other(
    bench: Bench, when: int, step: float, ends: bool
) -> None:
    """Set before the guest is asked, or while it gives back."""
    save(bench)
    sleeps = 0

    def happen() -> None:
        nonlocal sleeps
        sleeps += 1
        if sleeps == when:
            bench.now += step
        if sleeps == 2 or (sleeps == 4 and ends):
            agent(bench)()

    bench.on_sleep = happen
    result = bench.run("reclaim", "web-1", "--timeout", "5")
    assert (result.code, asked(bench).state) == ((0, ReclaimState.DONE) if ends else (4, ReclaimState.RUNNING))
    assert bench.waited == (1.0 if ends else pytest.approx(25.5, abs=0.5))


def test_it_is_followed_until_it_holds(bench: Bench) -> None:
    save(bench)
    held = Hold(bench.now + 2, bench.now + 602, kept=40 * MIB, used=30 * MIB)
    bench.on_sleep = agent(bench, state=ReclaimState.HOLDING, ended=None, held=held)
    result = bench.run("reclaim", "web-1", "--hold", "10m")
    assert (result.code, result.err) == (0, "")
    assert asked(bench).request.hold == 600.0
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "| State | holding |" in lines
    (row,) = [line for line in lines if line.startswith("| Hold ")]
    assert "UTC, 0 MiB reclaimed again in 0 goes" in row
    over = released(asked(bench), Stop.PRESSURE, bench.now + 60)
    assert hold_line(over.request.hold, over.held) == "ended (pressure), 0 MiB reclaimed again in 0 goes"
    assert hold_line(90.0, None) == "90 s, not begun"


def test_without_an_agent_nothing_is_queued(bench: Bench) -> None:
    save(bench)
    bench.now += 100
    result = bench.run("reclaim", "web-1")
    assert result.code == 4
    assert "the agent is not running" in result.err
    assert bench.store.reclaims.newest() == ()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--bytes", "much"], 2, "write 512MiB"),
        (["--bytes", "0"], 2, "ask for"),
        (["--percent", "0"], 2, "more than 0"),
        (["--percent", "101"], 2, "100 at most"),
        (["--psi-limit", "101"], 2, "0 to 100"),
        (["--timeout", "0"], 2, "timeout"),
        (["--hold", "2h"], 2, "0 to 3600"),
        (["--hold", "long"], 2, "write 90s, 15m"),
        (["--hold", "90"], 2, "write 90s, 15m"),
        (["--reason", ""], 2, "reason"),
        (["--bytes", "1G", "--all"], 2, "not allowed"),
    ],
)
def test_a_request_that_cannot_be_is_not_queued(bench: Bench, words: list[str], code: int, text: str) -> None:
    save(bench)
    result = bench.run("reclaim", "web-1", *words)
    assert result.code == code
    assert text in result.err
    assert bench.store.reclaims.newest() == ()


def test_a_percentage_of_what_nobody_knows_is_refused(bench: Bench) -> None:
    save(bench)
    result = bench.run("reclaim", "db-1", "--percent", "50")
    assert result.code == 5
    assert "is unknown" in result.err


def test_an_unknown_domain_queues_nothing(bench: Bench) -> None:
    save(bench)
    assert bench.run("reclaim", "web-2").code == 3
    assert bench.store.reclaims.newest() == ()


def test_who_ends_the_waiting_hears_that_the_request_goes_on(bench: Bench) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    save(bench)
    bench.on_sleep = interrupted
    result = bench.run("reclaim", "web-1")
    assert result.code == 130
    assert "goes on, within its limits" in result.err
