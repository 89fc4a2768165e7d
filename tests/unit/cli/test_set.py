from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from memhint.objects.domain import DomainState
from memhint.objects.lever import LeverName
from memhint.objects.policy import Origin, effective
from memhint.objects.report import Report
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.builders import WEB
from tests.unit.cli.conftest import Bench


def agent(bench: Bench, verdict: Verdict, lever: LeverName = LeverName.REPORTING) -> Callable[[], None]:
    """What an agent does while the command waits: one more report with the policy that is stored by now."""

    def cycle() -> None:
        last = bench.store.reports.newest()
        assert last is not None
        policy = effective(bench.store.policies.inputs().get(WEB, {}))
        state = builders.lever_state(lever=lever, desired="off", verdict=verdict)
        domain = builders.domain_report(policy=policy, levers=(state,))
        bench.store.reports.save(replace(last, sequence=last.sequence + 1, at=bench.now, domains=(domain,)))

    return cycle


def save(bench: Bench, report: Report | None = None) -> None:
    bench.store.reports.save(report or builders.report())


def stored(bench: Bench) -> dict[str, str]:
    return bench.store.policies.inputs().get(WEB, {}).get(Origin.OPERATOR, {})


def test_a_wish_is_stored_and_its_verdict_awaited(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = agent(bench, Verdict(Answer.APPLIED))
    result = bench.run("set", "web-1", "reporting=off", "guest_actions=allow")
    assert (result.code, result.err) == (0, "")
    assert stored(bench) == {"reporting": "off", "guest_actions": "allow"}
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "| reporting | auto (default) | off (operator) |" in lines
    assert "| dedup | off (default) | off (default) |" in lines
    assert "| web-1 | reporting | off | on | applied |" in lines


def test_no_name_steers_a_terminal(bench: Bench) -> None:
    evil = replace(builders.domain_report().observation, name="a\x1b[2Jx")
    save(bench, replace(builders.report(), domains=(replace(builders.domain_report(), observation=evil),)))
    for result in (bench.run("set", WEB, "reporting=off", "--dry-run"), bench.run("set", "a[2J", "reporting=off")):
        assert "a\N{REPLACEMENT CHARACTER}[2Jx" in result.out + result.err
        assert "\x1b" not in result.out + result.err


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer.APPLIED, 0),
        (Answer.UNCHANGED, 0),
        (Answer.PENDING, 0),
        (Answer.REFUSED, 5),
        (Answer.CONFLICT, 5),
        (Answer.UNSUPPORTED, 5),
        (Answer.FAILED, 1),
    ],
)
def test_the_verdict_decides_the_exit_code(bench: Bench, answer: Answer, code: int) -> None:
    save(bench)
    bench.on_sleep = agent(bench, Verdict(answer, Reason.KERNEL, "this is why"))
    result = bench.run("set", "web-1", "reporting=off")
    assert result.code == code
    assert ("this is why" in result.err) is (code != 0)
    assert "this is why" in result.out


def test_a_guest_that_was_slow_is_waited_for_as_the_agent_asks_it_again(bench: Bench) -> None:
    save(bench)
    slow = agent(bench, Verdict(Answer.FAILED, Reason.GUEST_TIMEOUT, "no answer within 2 s"))
    done = agent(bench, Verdict(Answer.APPLIED))
    looks = iter((slow, slow, done))
    bench.on_sleep = lambda: next(looks)()
    result = bench.run("set", "web-1", "reporting=off")
    assert (result.code, result.err) == (0, "")


def test_a_lever_that_was_not_named_is_not_answered_for(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = agent(bench, Verdict(Answer.REFUSED, Reason.CONSENT), LeverName.DEDUP)
    assert bench.run("set", "web-1", "reporting=off", "guest_actions=deny").code == 0


def test_a_report_from_before_the_wish_does_not_end_the_wait(bench: Bench) -> None:
    save(bench)
    rounds: list[int] = []
    cycle = agent(bench, Verdict(Answer.APPLIED))

    def old_then_new() -> None:
        rounds.append(1)
        if len(rounds) == 1:
            save(bench, builders.report(sequence=8, at=bench.now))  # made before the store was read
        else:
            cycle()

    bench.on_sleep = old_then_new
    assert json.loads(bench.run("set", "web-1", "reporting=off", "--json").out)["sequence"] == 9
    assert len(rounds) == 2


def test_waiting_ends_after_three_periods_and_five_seconds(bench: Bench) -> None:
    save(bench)
    start = bench.now
    result = bench.run("set", "web-1", "reporting=off")
    assert result.code == 4
    assert result.err.startswith("stored, but no report showed it within 35 s")
    assert bench.now - start == 35.0
    assert stored(bench) == {"reporting": "off"}


@pytest.mark.parametrize("acts", [True, False])
@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_a_clock_that_is_set_meanwhile_makes_the_wait_no_other(bench: Bench, step: float, acts: bool) -> None:
    save(bench)

    def set_it() -> None:
        bench.now += step
        bench.on_sleep = agent(bench, Verdict(Answer.APPLIED)) if acts else lambda: None

    bench.on_sleep = set_it
    result = bench.run("set", "web-1", "reporting=off")
    assert (result.code, bench.waited) == ((0, 0.5) if acts else (4, 35.0))


def test_no_wait_stores_and_ends(bench: Bench) -> None:
    save(bench)
    start = bench.now
    result = bench.run("set", "web-1", "reporting=off", "--no-wait")
    assert (result.code, bench.now) == (0, start)
    assert stored(bench) == {"reporting": "off"}
    assert "memhint domains" in result.out


def test_without_an_agent_the_wish_is_stored_and_nobody_waited_for(bench: Bench) -> None:
    save(bench)
    bench.now += 100
    start = bench.now
    result = bench.run("set", "web-1", "reporting=off")
    assert (result.code, bench.now) == (4, start)
    assert "the agent is not running" in result.err
    assert stored(bench) == {"reporting": "off"}


def test_a_dry_run_stores_nothing(bench: Bench) -> None:
    save(bench)
    result = bench.run("set", "web-1", "dedup=on", "--dry-run")
    assert result.code == 0
    assert re.search(r"^\| dedup +\| off \(default\) +\| on \(operator\) +\|$", result.out, re.MULTILINE)
    assert result.out.endswith("Dry run: nothing was stored.\n")
    assert bench.store.policies.inputs() == {}


def test_inherit_takes_a_wish_back(bench: Bench) -> None:
    save(bench)
    bench.store.policies.set_operator(WEB, {"reporting": "off"})
    bench.store.policies.replace(WEB, Origin.FLAVOR, {"reporting": "on"})
    bench.on_sleep = agent(bench, Verdict(Answer.APPLIED))
    result = bench.run("set", "web-1", "reporting=inherit")
    assert result.code == 0
    assert stored(bench) == {}
    assert re.search(r"^\| reporting +\| off \(operator\) +\| on \(flavor\) +\|$", result.out, re.MULTILINE)


def test_the_hosts_defaults_are_part_of_what_holds(bench: Bench) -> None:
    save(bench)
    bench.config.write_text(bench.config.read_text() + "[policy]\nguest_actions = allow\n")
    found = json.loads(bench.run("set", "web-1", "reporting=off", "--dry-run", "--json").out)
    assert found["before"]["guest_actions"] == {"value": "allow", "origin": "default"}
    assert found["after"]["reporting"] == {"value": "off", "origin": "operator"}
    assert found["stored"] is False
    (reporting,) = found["levers"]
    assert (reporting["lever"], reporting["desired"], reporting["verdict"]["answer"]) == ("reporting", "off", "planned")


def test_a_dry_run_says_what_would_come_of_it(bench: Bench) -> None:
    save(bench)
    result = bench.run("set", "web-1", "reporting=off", "--dry-run")
    assert re.search(r"^\| web-1 +\| reporting +\| off +\| on +\| refused \(consent\): .*\|$", result.out, re.MULTILINE)
    assert result.code == 0


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ("reporting", "write KEY=VALUE"),
        ("reporting=perhaps", "use one of on, off, auto"),
        ("colour=red", "not a policy key"),
        ("colour=inherit", "not a policy key"),
        ("project=a b", "letters"),
    ],
)
def test_a_wish_that_cannot_be_stores_nothing(bench: Bench, wish: str, text: str) -> None:
    save(bench)
    result = bench.run("set", "web-1", "dedup=off", wish)
    assert result.code == 2
    assert text in result.err
    assert bench.store.policies.inputs() == {}


def test_a_key_is_said_once(bench: Bench) -> None:
    save(bench)
    assert bench.run("set", "web-1", "reporting=off", "reporting=inherit").code == 2


def test_an_unknown_domain_stores_nothing(bench: Bench) -> None:
    save(bench)
    assert bench.run("set", "web-2", "reporting=off").code == 3
    assert bench.store.policies.inputs() == {}


def test_a_vm_that_goes_away_meanwhile_ends_the_wait(bench: Bench) -> None:
    save(bench)
    gone = builders.report(sequence=8, domains=())
    bench.on_sleep = lambda: save(bench, gone)
    assert bench.run("set", "web-1", "reporting=off").code == 3


@pytest.mark.parametrize("begun", [False, True])
def test_who_waited_for_a_vm_that_goes_away_hears_that_the_wish_is_stored(bench: Bench, begun: bool) -> None:
    save(bench)
    begin = agent(bench, Verdict(Answer.PENDING)) if begun else lambda: None
    gone = builders.report(sequence=9, domains=())
    looks = iter((begin, lambda: save(bench, gone)))
    bench.on_sleep = lambda: next(looks)()
    result = bench.run("set", "web-1", "reporting=off", "--json")
    assert result.code == 3
    assert result.err == "stored, but web-1 is no longer on host-a\n"
    found = json.loads(result.out)
    assert (found["name"], found["stored"], found["levers"]) == ("web-1", True, None)
    assert found["after"]["reporting"] == {"value": "off", "origin": "operator"}
    assert stored(bench) == {"reporting": "off"}


def _blind(sequence: int) -> Report:
    """What an agent says in a cycle in which libvirt does not answer."""
    return builders.report(sequence=sequence, domains=(), plan=builders.plan(capacity=builders.capacity(blind=True)))


def test_a_report_without_a_list_of_vms_does_not_end_the_wait(bench: Bench) -> None:
    save(bench)
    looks = iter((lambda: save(bench, _blind(8)), agent(bench, Verdict(Answer.APPLIED))))
    bench.on_sleep = lambda: next(looks)()
    result = bench.run("set", "web-1", "reporting=off", "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["sequence"] == 9


def test_where_libvirt_stays_away_the_wish_is_stored(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = lambda: save(bench, _blind(8))
    result = bench.run("set", "web-1", "reporting=off")
    assert result.code == 4
    assert result.err.startswith("stored, but no report showed it within 35 s")


def test_a_vm_that_is_off_can_be_set(bench: Bench) -> None:
    off = builders.domain_report(observation=builders.domain_observation(state=DomainState.SHUTOFF, process=None))
    save(bench, builders.report(domains=(off,)))
    assert bench.run("set", "web-1", "reporting=off", "--no-wait").code == 0


def test_who_ends_the_waiting_hears_that_the_wish_is_stored(bench: Bench) -> None:
    save(bench)
    bench.on_sleep = _interrupted
    result = bench.run("set", "web-1", "reporting=off")
    assert result.code == 130
    assert result.err.strip() == "stored, and the agent acts on it; see: memhint domains web-1"
    assert stored(bench) == {"reporting": "off"}


def _interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["Before", "Key"])
def test_a_vm_may_be_called_as_a_column_is(bench: Bench, name: str) -> None:
    named = replace(builders.domain_report().observation, name=name)
    save(bench, replace(builders.report(), domains=(replace(builders.domain_report(), observation=named),)))
    result = bench.run("set", name, "reporting=off", "--dry-run")
    assert (result.code, result.err) == (0, "")
    assert f"| {name} " in result.out
