"""KSM that memhint switched on rests when its agent is dead, and the next agent takes that for no one else's doing."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.waiting import wait_for
from memhint.agent.rest_ksm import rest_ksm, say_rest
from memhint.kernel import ksm
from memhint.kernel.errors import WriteRejected
from memhint.kernel.root import KernelRoot
from memhint.levers.ksm_flag import PLACES, KsmFlag
from memhint.objects.verdict import Answer
from memhint.store.errors import StoreError
from tests.unit.levers.test_dedup import KSM, WAIT_S, Host

ROOT = Path(__file__).parents[3]
UNITS = sorted(ROOT.glob("etc/**/*.service"))
BOOT = "proc/sys/kernel/random/boot_id"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """KSM is off."""
    host = Host(tmp_path, advisor=None, target_scan_time=None, max_cpu=None)
    host.root.write(BOOT, f"{host.boot}\n")
    return host


def dies(host: Host) -> bool:
    """The agent is dead, and its unit ends; whether KSM was stopped by that."""
    rested = rest_ksm(host.root.kernel)
    host.lever = host.make()
    return rested


def flags(host: Host) -> list[str]:
    return [place for place in PLACES if (host.root.path / place / "ksm").is_file()]


def test_it_rests_when_the_agent_is_dead_and_what_is_merged_stays_so(host: Host) -> None:
    host.reconcile()
    marks = host.ledger.all()
    assert dies(host)
    assert (host.knob("run"), host.merging(), host.ledger.all()) == ("0", {"a", "b"}, marks)
    assert not dies(host), "an agent that cannot start, and ends again"
    assert host.knob("run") == "0"


def test_the_next_agent_goes_on_and_the_one_after_that(host: Host) -> None:
    host.reconcile()
    for _ in range(2):
        assert dies(host)
        assert (host.reconcile()[1].answer, host.knob("run")) == (Answer.APPLIED, "1")


def test_an_agent_that_lives_is_left_alone_by_one_that_was_started_beside_it_and_failed(host: Host) -> None:
    host.reconcile()
    flag = host.root.path / PLACES[0] / "ksm"
    flag.write_text(f"{host.boot} 77:5 runs\n")
    host.root.write("proc/77/stat", f"77 (memhint) S {'0 ' * 18}5 0")
    assert not rest_ksm(host.root.kernel)
    assert (host.knob("run"), flags(host)) == ("1", [PLACES[0]])
    host.root.write("proc/77/stat", f"77 (another) S {'0 ' * 18}6 0")
    assert rest_ksm(host.root.kernel)
    assert host.knob("run") == "0"


def test_an_agent_beside_another_that_lives_does_not_stop_what_that_one_runs(host: Host) -> None:
    """As where tests run several on one machine: KSM would rest for good, for the other takes it for an operator's."""
    host.reconcile()
    for mark in host.ledger.all():
        host.ledger.remove(mark.subject, mark.knob)
    host.lever = host.make()
    flag = host.root.path / PLACES[0] / "ksm"
    flag.write_text(f"{host.boot} 77:5 runs\n")
    host.root.write("proc/77/stat", f"77 (memhint) S {'0 ' * 18}5 0")
    host.lever.hold()
    assert (host.knob("run"), flags(host)) == ("1", [PLACES[0]])
    host.root.write("proc/77/stat", f"77 (another) S {'0 ' * 18}6 0")
    host.lever.hold()
    assert (host.knob("run"), flags(host)) == ("0", [])


def test_it_is_paused_though_the_store_was_lost_since(host: Host) -> None:
    host.reconcile()
    for mark in host.ledger.all():
        host.ledger.remove(mark.subject, mark.knob)
    host.lever = host.make()
    host.lever.arrived()
    wait_for(lambda: host.knob("run") == "0", WAIT_S, "KSM to rest")
    assert flags(host) == []


def test_who_takes_over_has_it_run_in_their_own_name(host: Host) -> None:
    host.reconcile()
    flag = host.root.path / PLACES[0] / "ksm"
    flag.write_text(f"{host.boot} 77:5 runs\n")
    host.lever = host.make()
    host.reconcile()
    assert flag.read_text().split()[1].startswith(f"{os.getpid()}:")


@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize("before", ["0", "2"])
def test_in_the_end_it_is_as_it_was_before_memhint(host: Host, before: str, further: bool) -> None:
    host.root.write(f"{KSM}/run", f"{before}\n")
    host.reconcile()
    assert dies(host)
    host.ksm_counters(0)
    if further:
        host.reconcile()
    assert host.lever.undo(host.domains, host.seen()).ok
    assert (host.knob("run"), host.ledger.all(), flags(host)) == (before, (), [])


def test_what_an_operator_runs_is_left_alone(host: Host) -> None:
    host.root.write(f"{KSM}/run", "1\n")
    host.reconcile()
    assert not dies(host)
    assert (host.knob("run"), flags(host)) == ("1", [])


@pytest.mark.parametrize("seen", [False, True])
def test_what_an_operator_stopped_and_runs_is_left_alone(host: Host, seen: bool) -> None:
    host.reconcile()
    host.root.write(f"{KSM}/run", "0\n")
    if seen:
        host.reconcile()
        assert flags(host) == []
    assert not dies(host)
    host.root.write(f"{KSM}/run", "1\n")
    assert not dies(host)
    assert host.knob("run") == "1"


def test_what_an_operator_stopped_before_memhint_ended_is_theirs_to_run(host: Host) -> None:
    host.reconcile()
    host.root.write(f"{KSM}/run", "0\n")
    assert host.lever.undo(host.domains, host.seen()).ok
    host.root.write(f"{KSM}/run", "1\n")
    assert not dies(host)
    assert host.knob("run") == "1"


def test_what_an_operator_runs_after_the_rest_is_left_alone(host: Host) -> None:
    host.reconcile()
    assert dies(host)
    host.root.write(f"{KSM}/run", "1\n")
    assert not dies(host)
    assert host.knob("run") == "1"


@pytest.mark.parametrize("way", ["hold", "undo", "wished no more"])
def test_what_memhint_runs_no_more_is_an_operators_to_run(host: Host, way: str) -> None:
    host.reconcile()
    assert flags(host) == [PLACES[0]]
    if way == "hold":
        host.lever.hold()
    elif way == "undo":
        host.lever.undo(host.domains, host.seen())
    else:
        host.asks = {}
        host.reconcile()
    assert (host.knob("run"), flags(host)) == ("0", [])
    host.root.write(f"{KSM}/run", "1\n")
    assert not dies(host)
    assert host.knob("run") == "1"


def test_another_boot_has_nothing_of_memhints(host: Host) -> None:
    host.reconcile()
    host.root.write(BOOT, "boot-2\n")
    assert not dies(host)
    assert host.knob("run") == "1"


def test_it_is_said_before_it_runs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    write = ksm.write_knob

    def watched(root: KernelRoot, knob: ksm.KsmKnob, value: str) -> None:
        if (knob, value) == (ksm.KsmKnob.RUN, "1"):
            said.append(KsmFlag(root, host.boot).is_up())
        write(root, knob, value)

    monkeypatch.setattr(ksm, "write_knob", watched)
    host.reconcile()
    assert said == [True]


def test_it_is_said_of_what_an_agent_without_a_flag_switched_on(host: Host) -> None:
    del host.domains[2:]  # nobody has to be kept out, for which KSM would rest
    host.reconcile()
    KsmFlag(host.root.kernel, host.boot).take_down()
    host.lever = host.make()
    assert host.reconcile()[1].answer is Answer.UNCHANGED
    assert dies(host)
    assert host.knob("run") == "0"


def test_an_agent_whose_store_cannot_be_read_knows_by_the_flag_that_it_has_to_stop_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise StoreError("the database does not answer")

    host.reconcile()
    host.lever = host.make()
    monkeypatch.setattr(host.ledger, "get", unreadable)
    host.lever.stopping()
    wait_for(lambda: host.knob("run") == "0", WAIT_S, "KSM to rest")


def test_where_the_first_place_cannot_be_written_there_is_a_second_one(host: Host) -> None:
    host.root.write(PLACES[0], "no directory")
    host.reconcile()
    assert flags(host) == [PLACES[1]]
    assert dies(host)
    assert host.reconcile()[1].answer is Answer.APPLIED
    assert host.lever.undo(host.domains, host.seen()).ok
    assert flags(host) == []


def test_where_no_place_can_be_written_it_runs_and_that_is_logged_once(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    for place in PLACES:
        host.root.write(place, "no directory")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert host.reconcile()[1].ok
    assert host.knob("run") == "1"
    assert sum("if this agent is killed" in one.getMessage() for one in caplog.records) == 1


def test_that_it_cannot_be_stopped_is_said(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(root: KernelRoot, relative: str, text: str) -> None:
        raise WriteRejected(root.path(relative), "no")

    host.reconcile()
    with monkeypatch.context() as patch:
        patch.setattr(KernelRoot, "write_text", refuses)
        assert not say_rest(host.root.kernel)
    assert "KSM may go on without an agent" in capsys.readouterr().err
    assert say_rest(host.root.kernel)
    assert "KSM rests" in capsys.readouterr().err
    assert say_rest(host.root.kernel)
    assert capsys.readouterr().err == ""


def test_it_needs_neither_store_nor_configuration() -> None:
    code = "import sys, memhint.agent.rest_ksm; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "memhint.levers.ksm_flag" in loaded
    assert not {name for name in loaded if name.startswith(("memhint.store", "memhint.conf", "oslo_config", "sqlite3"))}


def agents(units: list[Path]) -> list[Path]:
    return [unit for unit in units if re.search(r"^ExecStart=\S+/memhint agent\b", unit.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("unit", agents(UNITS), ids=lambda unit: unit.name)
def test_each_unit_of_an_agent_has_it_rest_when_the_agent_is_gone_for_whatever_reason(unit: Path) -> None:
    options = dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))
    programs = options["ExecStart"].removesuffix("memhint agent")
    assert options["ExecStopPost"] == f"{programs}python -m memhint.agent.rest_ksm"
    assert f"run/{options['RuntimeDirectory']}" == PLACES[0]
    assert options["RuntimeDirectoryPreserve"] == "yes"
    assert f"var/lib/{options['StateDirectory']}" == PLACES[1]


def test_there_is_a_unit_of_the_agent() -> None:
    assert [unit.name for unit in agents(UNITS)] == ["memhint-agent.service"]
