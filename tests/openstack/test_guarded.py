"""memhint on a real OpenStack when things happen at once, when parts die, and when Nova defines VMs anew."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from xml.etree import ElementTree

import libvirt
import pytest
import requests
from openstack.exceptions import HttpException

from lab.openstack import Stack
from lab.openstack.errors import ServerFailed
from lab.openstack.images import FLAVOR, flavor
from lab.openstack.installed import CONTROLLER, Installed
from lab.openstack.packing import ready
from lab.openstack.vm import Vm
from lab.sizes import GIB, MIB
from lab.waiting import wait_for
from memhint.bus.link import LinkSettings
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.objects.epoch import new_epoch
from memhint.objects.instance import Instance
from memhint.objects.provider import NovaCompute
from memhint.objects.units import MIB as MI
from tests.unit import builders

RELEASE = os.environ.get("MEMHINT_OPENSTACK_RELEASE", "34")
FAKE, ROOM = "fake-1", 10
TRIALS = int(os.environ.get("MEMHINT_TRIALS", "5"))
OVERHEAD = 160 * MI  # as the lab's agents and the plugin are told


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    made = Installed()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(installed: Installed) -> Iterator[Stack]:
    with Stack(
        RELEASE,
        computes=2,
        fakes=1,
        memory=4 * GIB,
        fake_memory=ROOM * GIB,
        reserved=0,
        swap=8 * GIB,
        extras=installed.extras(0),
        name=f"os-{os.getpid()}",
    ) as stack:
        installed.attach(stack)
        flavor(stack.cloud, "closed", 512 * MIB, **{"memhint:reporting": "off", "memhint:dedup": "off"})
        flavor(stack.cloud, "closed.large", 768 * MIB, **{"memhint:reporting": "off", "memhint:dedup": "off"})
        yield stack
        installed.close()


class Pretended:
    """Stands for the agent of a compute that only pretends: it sees a VM once Nova says that it runs."""

    def __init__(self, stack: Stack, installed: Installed) -> None:
        self._stack = stack
        compute = stack.compute(FAKE)
        self._provider = compute.uuid
        self._epoch = new_epoch(time.time(), None, "0000000a")
        links = LinkSettings((stack.broker_url(FAKE),), timeout=10, heartbeat=30, backoff_max=1.0)
        spool = Spool(installed.directory / "pretended.spool", 1000, 2**24)
        self._publisher = RabbitPublisher(links, FAKE, self._epoch, spool, flush=1.0)
        self._publisher.start()
        self._stop = threading.Event()
        self._sequence = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen: list[str] = []
        while not self._stop.wait(0.5):
            with suppress(Exception):  # Nova is away: its VMs are not
                seen = [one.id for one in self._stack.cloud.compute.servers(host=FAKE) if one.status == "ACTIVE"]
            self._sequence += 1
            room = ROOM * GIB + ROOM * OVERHEAD - len(seen) * (GIB + OVERHEAD)
            # It differs a little from report to report, so that the writer always has something to write.
            self._publisher.publish(self._report(seen, max(0, room - self._sequence % 3 * 40 * MI)))

    def _report(self, seen: list[str], headroom: int):
        base = builders.report()
        one = base.domains[0]
        facts = replace(one.observation.facts, memory=GIB)
        domains = tuple(replace(one, observation=replace(one.observation, uuid=vm, facts=facts)) for vm in seen)
        demands = tuple(replace(base.plan.demands[0], uuid=vm, assigned=GIB + OVERHEAD) for vm in seen)
        capacity = replace(base.plan.capacity, headroom=headroom, assigned=len(seen) * (GIB + OVERHEAD))
        pressure = replace(base.plan.pressure, admitting=True)
        plan = replace(base.plan, capacity=capacity, demands=demands, pressure=pressure, rungs=())
        observation = replace(base.observation, at=time.time(), pressure=None)
        return builders.report(
            host=FAKE, epoch=self._epoch, sequence=self._sequence, at=time.time(), period=5.0, slot=GIB + OVERHEAD,
            slot_overhead=OVERHEAD, observation=observation, domains=domains, plan=plan,
            nova=NovaCompute(self._provider),
        )  # fmt: skip

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._publisher.close()


@pytest.fixture(scope="module")
def pretended(stack: Stack, installed: Installed) -> Iterator[Pretended]:
    agent = Pretended(stack, installed)
    ready(installed, stack, FAKE)
    yield agent
    agent.close()


def used(stack: Stack) -> int:
    """MiB that Placement holds as claimed of the pretended compute."""
    provider = stack.compute(FAKE).uuid
    return int(stack.cloud.placement.get(f"/resource_providers/{provider}/usages").json()["usages"]["MEMORY_MB"])


def launched(stack: Stack, name: str) -> Vm | None:
    try:
        vm = stack.boot(name, flavor=FLAVOR, host=FAKE, wait=False)
        vm.wait("ACTIVE")
        return vm
    except (ServerFailed, HttpException):  # no place for it, or a service that has just lost its broker
        return None


@pytest.mark.parametrize("trial", range(TRIALS))
def test_sixteen_boots_at_once_into_room_for_ten(
    stack: Stack, installed: Installed, pretended: Pretended, trial: int
) -> None:
    with ThreadPoolExecutor(16) as pool:
        tried = list(pool.map(lambda number: launched(stack, f"burst-{trial}-{number}"), range(16)))
    running = [vm for vm in tried if vm is not None]
    assert len(running) <= ROOM
    assert used(stack) <= ROOM * 1024
    more = 0
    while len(running) < ROOM:
        more += 1
        assert more < 40, "it never became ten"
        vm = launched(stack, f"again-{trial}-{more}")
        running += [vm] if vm is not None else []
    assert launched(stack, f"beyond-{trial}") is None
    told = [one["detail"] for one in installed.get(f"/v1/events?host={FAKE}&kind=capacity&limit=1000")["events"]]
    assert any(one.startswith("ratio ") for one in told)
    assert not any("not written" in one or "left alone" in one for one in told)
    for server in list(stack.cloud.compute.servers()):
        Vm(stack, server.id).delete()


def test_whatever_dies_no_wrong_ratio_is_written_and_everything_catches_up(
    stack: Stack, installed: Installed, pretended: Pretended
) -> None:
    provider = stack.compute(FAKE)

    def near() -> bool:
        ratio = ratio_of(stack)
        return ratio is not None and 0.95 <= ratio <= 1.0

    wait_for(near, 60, "the ratio of ten VMs")
    seen: list[float] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            ratio = ratio_of(stack)
            seen.extend([] if ratio is None else [ratio])

    watching = threading.Thread(target=watch)
    watching.start()
    outcome: dict[str, str] = {}
    try:
        for number, name in enumerate((CONTROLLER, "rabbitmq", "mariadb", "placement")):
            # It stays: what Nova is asked just before its broker's power cut, Nova itself may never do.
            launched(stack, f"load-{number}")
            end(stack, installed, name)
            time.sleep(2.0)  # away for longer than anything waits here
            begin(stack, installed, name)
            stack.wait_for_computes()
            newest = sequence(installed)
            wait_for(lambda newest=newest: sequence(installed) > newest, 120, f"reports after {name} was killed")
            wait_for(lambda: ratio_of(stack) is not None, 60, "Placement's ratio")
            outcome[name] = f"{len(seen)} ratios seen, from {min(seen):g} to {max(seen):g}"
    finally:
        stop.set()
        watching.join()
    print(outcome)
    # VMs that run and room for more are ten together: never more than nominal, and never closed.
    assert min(seen) >= 0.85
    assert max(seen) <= 1.0
    wait_for(near, 60, "the ratio of ten VMs again")
    assert provider.uuid == stack.compute(FAKE).uuid


def ratio_of(stack: Stack) -> float | None:
    try:
        inventory = stack.inventory(stack.compute(FAKE))
    except Exception:  # noqa: BLE001 - it is just being killed
        return None
    return None if inventory is None else float(inventory["allocation_ratio"])


def sequence(installed: Installed) -> int:
    try:
        hosts = installed.get("/v1/hosts")["hosts"]
    except requests.RequestException:
        return -1  # its database is just being killed
    return max((one["sequence"] for one in hosts if one["name"] == FAKE), default=-1)


def end(stack: Stack, installed: Installed, name: str) -> None:
    (installed if name == CONTROLLER else stack).kill(name)


def begin(stack: Stack, installed: Installed, name: str) -> None:
    (installed if name == CONTROLLER else stack).start(name)


def test_an_opt_out_outlives_hard_reboot_resize_and_rebuild(stack: Stack, installed: Installed) -> None:
    for name in ("host-1", "host-2"):
        installed.agent(stack.compute(name))
        ready(installed, stack, name)
    try:
        vm = stack.boot("closed", flavor="closed", host="host-1")
    except ServerFailed as error:
        pytest.fail(f"{error} {installed.verdict()} {installed.get('/v1/hosts/host-1')}")
    wish = {"policy": {"overcommit": "deny"}}
    wait_for(lambda: known(installed, vm), 60, "the fleet to know the VM")
    answer = requests.put(
        f"{installed.url}/v1/domains/{vm.uuid}/policy",
        json=wish, headers={"X-Auth-Token": installed.token}, timeout=30,
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    server = stack.cloud.compute.get_server(vm.uuid)
    told = Instance(vm.uuid, server.project_id, server.hypervisor_hostname)
    wait_for(lambda: installed.store.instances.of(vm.uuid) == told, 120, "Nova's word on whose VM it is, and where")
    steps: list[tuple[str, Callable[[], None]]] = [
        ("boot", lambda: None),
        ("hard reboot", lambda: stack.cloud.compute.reboot_server(vm.uuid, "HARD")),
        ("rebuild", lambda: stack.cloud.compute.rebuild_server(vm.uuid, image=image(stack, vm))),
        ("resize", lambda: resized(stack, vm)),
    ]
    for what, do in steps:
        before = vm.pid()
        do()
        if what != "boot":
            wait_for(lambda before=before: restarted(vm, before), 180, f"the VM after a {what}", 0.5)
        vm.wait("ACTIVE")
        vm.ready()
        assert balloon(vm) == "off", what
        assert shares(vm) is False, what
        wait_for(lambda: effective(installed, vm) == "deny", 60, f"the operator's wish after a {what}", 0.5)
    vm.delete()


def image(stack: Stack, vm: Vm) -> str:
    return str(vm.show().image.id or next(iter(stack.cloud.image.images())).id)


def resized(stack: Stack, vm: Vm) -> None:
    larger = stack.cloud.compute.find_flavor("closed.large", ignore_missing=False)
    stack.cloud.compute.resize_server(vm.uuid, larger.id)
    vm.wait("VERIFY_RESIZE")
    stack.cloud.compute.confirm_server_resize(vm.uuid)


def restarted(vm: Vm, before: int) -> bool:
    try:
        return vm.pid() != before
    except ServerFailed:
        return False


def definition(vm: Vm) -> ElementTree.Element:
    host = vm.compute.host
    assert host is not None
    connection = libvirt.open(host.uri)
    try:
        return ElementTree.fromstring(connection.lookupByUUIDString(vm.uuid).XMLDesc())
    finally:
        connection.close()


def balloon(vm: Vm) -> str | None:
    found = definition(vm).find("devices/memballoon")
    return None if found is None else found.get("freePageReporting")


def shares(vm: Vm) -> bool:
    return definition(vm).find("memoryBacking/nosharepages") is None


def known(installed: Installed, vm: Vm) -> bool:
    return any(one["uuid"] == vm.uuid for one in installed.get("/v1/domains")["domains"])


def effective(installed: Installed, vm: Vm) -> str | None:
    """What the VM's host says that holds."""
    try:
        told = installed.get(f"/v1/domains/{vm.uuid}")["domain"]
    except requests.HTTPError:
        return None
    return str(told["policy"]["overcommit"]["value"])
