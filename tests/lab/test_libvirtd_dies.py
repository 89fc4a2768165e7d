"""libvirtd dies again and again while KSM separates pages and balloons move, as a guest could make it.

What holds in the end is what operators wish, and the marks say so.
"""

from __future__ import annotations

import signal

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.kernel.ksm import KsmKnob, read_knob
from memhint.kernel.root import KernelRoot
from memhint.levers.qos_pass import OOM_KNOB
from memhint.objects.lever import LeverName
from tests.lab.test_dedup import FAST, SAME, knobs, ksm_bytes, merged_memory
from tests.lab.test_ladder import GUEST, PRESSED, WILLING, actual
from tests.lab.watch import named
from tests.told import pulls

DEATHS = 4
SETTINGS = {**FAST, **PRESSED}


def killed(guest: Guest) -> None:
    """libvirtd dies as by a crash, and is started again."""
    guest.host.record.processes["libvirtd"].kill(signal.SIGKILL)
    guest.host.restart_libvirtd()


def sees(agent: AgentProcess) -> bool:
    """Whether the newest report has no gap of the host's: libvirt answers again."""
    report = agent.report()
    return not report.gaps and len(report.domains) == 3


def test_what_is_wished_holds_though_libvirtd_dies_in_the_middle() -> None:
    before = knobs()
    assert before[KsmKnob.RUN] == "0", "this machine's KSM is in use: the test needs it for itself"
    with Lab(guests=0, budget=3 * GIB, kernel="6.12") as lab:
        host = lab.hosts[0]
        twins = [{"name": name, "memory": 384 * MIB, "project": "p1"} for name in "ab"]
        a, b, willing = host.add_guests([*twins, {"name": "willing", "memory": GUEST, "extra_specs": WILLING}])
        for one in (a, b):
            one.alloc("data", SAME, content="seed:7")
        with AgentProcess(host, SETTINGS) as agent:

            def wish(dedup: str, balloon: str) -> None:
                for name in "ab":
                    agent.memhint("set", name, f"dedup={dedup}", "--no-wait")
                agent.memhint("set", "willing", f"balloon={balloon}", "--no-wait")

            def merged() -> bool:
                return all(ksm_bytes(one) >= 0.9 * SAME for one in (a, b))

            def shrunk() -> bool:
                return actual(willing) < GUEST - 100 * MIB

            def said() -> str:
                report = agent.report()
                pulled = {name: [str(state) for state in one.levers] for name, one in named(report).items()}
                return f"{[str(one.rung) for one in report.plan.rungs]}, {report.plan.relief}, {pulled}"

            def ksm() -> str:
                return f"{[ksm_bytes(one) for one in (a, b)]} bytes merged, {knobs()}, {said()}"

            wish("on", "allow")
            wait_for(merged, 120.0, "two to merge", seen=ksm)
            wait_for(shrunk, 120.0, "the third to shrink", seen=said)
            for number in range(DEATHS):
                # Now it separates and deflates, then it merges and inflates; each time libvirtd dies on the way.
                wish(*(("off", "deny") if number % 2 == 0 else ("on", "allow")))
                killed(a)
                wait_for(lambda: sees(agent), 120.0, "libvirt to be read again")
            wait_for(merged, 120.0, "two to merge again", seen=ksm)
            wait_for(shrunk, 120.0, "the third to shrink again", seen=said)
            wish("off", "deny")
            killed(a)
            wait_for(lambda: actual(willing) == GUEST, 120.0, "all memory to be given back")
            for one in (a, b):
                wait_for(lambda one=one: merged_memory(one) == 0, 120.0, f"the pages of {one.name} to separate")
            wait_for(lambda: knobs() == before, 120.0, "KSM to be as it was")
            # Of its class, which it still has, the third keeps who is killed first.
            wait_for(
                lambda: {one.knob for one in agent.store().marks.all()} == {OOM_KNOB},
                120.0,
                "nothing else to be owned any more",
                seen=lambda: f"{agent.store().marks.all()}, {said()}",
            )
            wait_for(lambda: named(agent.report())["a"].policy.dedup == "off", 60.0, "the report to say so")
            told = {one.lever for one in pulls(agent.store(), limit=500)}
            assert {LeverName.DEDUP, LeverName.BALLOON} <= told
    assert read_knob(KernelRoot(), KsmKnob.RUN) == before[KsmKnob.RUN]
