"""Dedup on real guests: those who ask merge with their own project and nobody else, and all of it can be undone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.packages import candidate, fetch
from lab.paths import cache_dir
from lab.sizes import GIB, MIB
from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.ksm import KsmKnob, read_knob
from memhint.kernel.process import find_by_comm
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory, mergeable_bytes
from memhint.levers.dedup import OTHER_MANAGERS
from memhint.levers.dedup_merge import RESIDUE
from memhint.objects.lever import LeverName
from memhint.objects.ownership import HOST
from memhint.objects.verdict import Answer, Reason
from tests.lab.watch import lever_of, named, wait_refusal, wait_verdict

SAME = 192 * MIB  # of equal content in every guest

ROOT = KernelRoot()
FAST = {
    "virt": {"allow_monitor_commands": True},
    "dedup": {
        "advisor": "none",
        "pages_to_scan": 20000,
        "sleep_millisecs": 10,
        # No VM rests because its pages break: on a busy machine a test lasts for longer than a window in which that is
        # counted, and separating pages, which these tests do, counts as breaking them.
        "page_life": 0,
    },
}


def knobs() -> dict[KsmKnob, str]:
    """As they are, of those that this machine's kernel has."""
    found = {}
    for knob in KsmKnob:
        with contextlib.suppress(InterfaceMissing):
            found[knob] = read_knob(ROOT, knob)
    return found


def ksm_bytes(guest: Guest, name: str = "ksm_merging_pages") -> int:
    text = Path(f"/proc/{guest.pid()}/ksm_stat").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name))) * 4096


def merged_memory(guest: Guest) -> int:
    """Bytes merged in the guest's own memory: QEMU's firmware blocks are another matter."""
    merged, size = 0, 0
    for line in Path(f"/proc/{guest.pid()}/smaps").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "Size":
            size = int(value.split()[0]) * 1024
        elif name == "KSM" and size >= guest.memory:
            merged += int(value.split()[0]) * 1024
    return merged


def pss(guest: Guest) -> int:
    return deep_memory(ROOT, guest.pid(), 0.0).pss


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[AgentProcess, dict[str, Guest], dict[KsmKnob, str]]]:
    """Four guests with the same data: a, b and c of one project, d of another."""
    before = knobs()
    assert before[KsmKnob.RUN] == "0", "this machine's KSM is in use: the test needs it for itself"
    with Lab(guests=0, budget=5 * GIB) as lab:
        host = lab.hosts[0]
        wished = [{"name": name, "memory": 384 * MIB, "project": "p2" if name == "d" else "p1"} for name in "abcd"]
        guests = {one.name: one for one in host.add_guests(wished)}
        for one in guests.values():
            one.alloc("data", SAME, content="seed:7")
        with AgentProcess(host, FAST) as agent:
            yield agent, guests, before
    assert knobs() == before


def merge(agent: AgentProcess, guests: dict[str, Guest]) -> None:
    """Have all but c ask for merging, and wait for the two that may."""
    for name in "abd":
        agent.memhint("set", name, "dedup=on", "--no-wait")
    for name in "ab":
        wait_for(lambda name=name: ksm_bytes(guests[name]) >= 0.9 * SAME, 90.0, f"the pages of {name} to merge")


def part(agent: AgentProcess, guests: dict[str, Guest], before: dict[KsmKnob, str]) -> None:
    """Have nobody ask for merging, and wait until all is as it was."""
    for name in "abd":
        agent.memhint("set", name, "dedup=off", "--no-wait")
    for name in "ab":
        wait_for(lambda name=name: merged_memory(guests[name]) == 0, 60.0, f"the pages of {name} to separate")
    wait_for(lambda: knobs() == before, 60.0, "KSM to be as it was")
    wait_for(lambda: agent.store().marks.all() == (), 60.0, "nothing to be owned any more")


def test_while_another_manager_runs_the_verdict_is_conflict(stage, tmp_path: Path) -> None:
    agent, guests, before = stage
    part(agent, guests, before)
    package = candidate("ksmtuned")
    assert package is not None
    subprocess.run(["dpkg", "-x", fetch(package, cache_dir() / "packages"), tmp_path], check=True)
    # A session of its own: the script goes on in a child of its own. That one is only to be there: after its interval,
    # a minute unless it is told another, it would switch KSM on where memory is short.
    tuned = subprocess.Popen(
        [tmp_path / "usr/sbin/ksmtuned"],
        env={**os.environ, "KSM_MONITOR_INTERVAL": "86400"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: Path(f"/proc/{tuned.pid}/comm").read_text() == "ksmtuned\n", 60.0, "ksmtuned to run")
        agent.memhint("set", "a", "dedup=on", "--no-wait")
        state = wait_verdict(agent, "a", LeverName.DEDUP, {Answer.CONFLICT})
        assert state.verdict.reason is Reason.OTHER_MANAGER
        assert "ksmtuned" in wait_refusal(agent, "set", "a", "dedup=on").stderr
        agent.memhint("set", "a", "dedup=inherit", "--no-wait")
        wait_for(lambda: named(agent.report())["a"].policy.dedup == "off", 60.0, "nobody to ask for it any more")
        assert read_knob(ROOT, KsmKnob.RUN) == "0"
    finally:
        os.killpg(tuned.pid, signal.SIGKILL)
        tuned.wait()
    wait_for(lambda: not find_by_comm(ROOT, OTHER_MANAGERS), 60.0, "ksmtuned to be gone")
    assert read_knob(ROOT, KsmKnob.RUN) == "0"


def test_two_of_one_project_merge_and_nobody_else(stage) -> None:
    agent, guests, before = stage
    part(agent, guests, before)
    alone = pss(guests["a"])
    merge(agent, guests)
    wait_for(lambda: alone - pss(guests["a"]) >= 0.4 * SAME, 60.0, "two to share each page")
    for name in "cd":
        assert merged_memory(guests[name]) == 0
        assert mergeable_bytes(ROOT, guests[name].pid()) <= RESIDUE
    report = agent.report()
    refused = lever_of(named(report)["d"], LeverName.DEDUP)
    assert (refused.verdict.answer, refused.verdict.reason) == (Answer.REFUSED, Reason.TENANT)
    assert named(report)["a"].observation.process.ksm_merging >= 0.9 * SAME
    # What merging saves is not capacity: the footprint counts it.
    assert named(report)["a"].observation.footprint >= alone - 32 * MIB


def test_a_newcomer_is_kept_out_while_ksm_runs(stage) -> None:
    agent, guests, _ = stage
    merge(agent, guests)
    newcomer = guests["a"].host.add_guest("e", memory=256 * MIB, project="p1")
    try:
        wait_for(
            lambda: mergeable_bytes(ROOT, newcomer.pid()) <= RESIDUE, 60.0, "the newcomer to be set to merge=false"
        )
        newcomer.alloc("data", 64 * MIB, content="seed:7")
        scanned = int(Path("/sys/kernel/mm/ksm/full_scans").read_text())
        wait_for(lambda: int(Path("/sys/kernel/mm/ksm/full_scans").read_text()) >= scanned + 2, 60.0, "two full scans")
        assert merged_memory(newcomer) == 0
    finally:
        newcomer.destroy()


def test_off_separates_them_and_restores_the_host(stage) -> None:
    agent, guests, before = stage
    merge(agent, guests)
    merged = pss(guests["a"])
    part(agent, guests, before)
    assert pss(guests["a"]) - merged >= 0.4 * SAME
    assert lever_of(named(agent.report())["a"], LeverName.DEDUP).subject != HOST


def test_a_killed_agents_successor_undoes_it(stage) -> None:
    agent, guests, before = stage
    for name in "ab":
        agent.memhint("set", name, "dedup=on", "--no-wait")
    wait_for(lambda: read_knob(ROOT, KsmKnob.RUN) == "1", 60.0, "KSM to run")
    agent.kill()
    assert read_knob(ROOT, KsmKnob.RUN) == "1"
    agent.start()
    wait_verdict(agent, "a", LeverName.DEDUP, {Answer.APPLIED, Answer.UNCHANGED})
    assert agent.stop() == 0
    assert knobs() == before
    assert merged_memory(guests["a"]) == 0
    agent.start()  # whatever test comes after this one
