"""A VM that migrates while a lever holds something of it: the host that it comes to gives it back."""

from __future__ import annotations

import json

import libvirt

from lab import Guest, Host, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import MIB
from memhint.agent.build_levers import TRAVELLING
from memhint.levers.balloon import BALLOON_KNOB
from memhint.levers.reporting_tuning import TUNED_ORDER_KNOB
from memhint.objects.verdict import Reason
from tests.lab.test_ladder import GUEST, LADDER, PRESSED, WILLING, actual
from tests.lab.watch import named

SPECS = {**WILLING, "memhint:guest_actions": "allow"}
HOW = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_UNSAFE  # both hosts see the same files, which libvirt cannot tell
)


def migrate(guest: Guest, to: Host, away_from: Host | None = None) -> None:
    """From the host that started it, unless it is at another one."""
    domain = (away_from or guest.host).connection().lookupByUUIDString(guest.uuid)
    domain.migrateToURI3(f"qemu+tcp://{to.record.address}/system", {}, HOW)


def size_at(host: Host, guest: Guest) -> int:
    """Bytes that its balloon leaves it, as the host says where it is now."""
    return int(host.connection().lookupByUUIDString(guest.uuid).info()[2]) * 1024


def owned(agent: AgentProcess, guest: Guest) -> set[str]:
    """What of the VM memhint owns by this host's word, of all that goes where it goes."""
    return {one.knob for one in agent.store().marks.all() if one.subject == guest.uuid} & TRAVELLING.keys()


def orders(agent: AgentProcess) -> int | None:
    """The order that the guest reports from, as its agent sees it."""
    seen = named(agent.report())["willing"].observation.guest_kernel
    return seen.order if seen is not None else None


def test_what_levers_hold_of_a_vm_is_given_back_where_it_comes_to() -> None:
    with Lab(hosts=2, guests=0, budget=1280 * MIB, kernel="6.12-memhint", agent="memhint", network="127.1.7") as lab:
        here, there = lab.hosts
        (guest,) = here.add_guests([{"name": "willing", "memory": GUEST, "extra_specs": SPECS}])
        guest.alloc("work", 300 * MIB)
        guest.fill_cache(200 * MIB)
        with AgentProcess(here, PRESSED) as source, AgentProcess(there, LADDER) as target:
            wait_for(lambda: orders(source) is not None, 60.0, "the guest to be asked")
            own = orders(source)
            source.memhint("set", "willing", "reporting_order=4", "--no-wait")
            wait_for(lambda: orders(source) == 4, 60.0, "the guest to report smaller blocks")
            # The balloon shrinks it meanwhile: on a busy machine its own pressure would end the hold first.
            words = ("reclaim", "willing", "--psi-limit", "100", "--hold", "10m", "--json")
            held = json.loads(source.memhint(*words).stdout)["request"]["id"]
            wait_for(
                lambda: actual(guest) < GUEST - 100 * MIB,
                120.0,
                "the guest to shrink",
                seen=lambda: f"{source.report().plan.rungs}, {source.report().plan.relief}",
            )
            assert owned(source, guest) == {BALLOON_KNOB, TUNED_ORDER_KNOB}
            migrate(guest, there)
            wait_for(lambda: "willing" in named(target.report()), 60.0, "the other agent to see it")
            wait_for(lambda: "willing" not in named(source.report()), 60.0, "its agent to see it gone")
            wait_for(
                lambda: size_at(there, guest) == GUEST,
                60.0,
                "all of it to be given back",
                seen=lambda: f"{size_at(there, guest) >> 20} MiB, {named(target.report())['willing'].levers}",
            )
            wait_for(lambda: orders(target) == own, 120.0, "the guest to report as it did")
            for agent in (source, target):
                wait_for(lambda agent=agent: not owned(agent, guest), 60.0, "nothing to be owned of it any more")
            ended = wait_for(
                lambda: (one := source.store().reclaims.get(held)) is not None and one.state.ended and one,
                60.0,
                "the hold to end",
            )
            assert ended.verdict.reason is Reason.NOT_RUNNING
