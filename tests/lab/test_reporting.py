"""Free page reporting on real guests with stock kernels: the public acceptance rule, the lever, consent and undo."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.objects.lever import LeverName, Observed
from memhint.objects.policy import Origin
from memhint.objects.verdict import Answer, Reason
from memhint.virt.metadata import NAMESPACE
from tests.lab.watch import holds, lever_of, named, switch_reporting, wait_refusal, wait_verdict

WORK = 900 * MIB
FALL = 800 * MIB  # by which resident must fall within 30 s of the guest's free, with reporting on
DRIFT = 50 * MIB  # by which it may with reporting off
WINDOW = 30.0  # seconds


@pytest.fixture(scope="module", params=["6.1", "6.12"])
def stage(request: pytest.FixtureRequest) -> Iterator[tuple[AgentProcess, Guest, Guest, Guest]]:
    """An agent, a guest that may be changed, one that may not, and one that was started without the feature."""
    with Lab(guests=0, budget=6 * GIB, kernel=request.param) as lab:
        host = lab.hosts[0]
        wished = [
            {"name": "consenting", "memory": 1280 * MIB},
            {"name": "refusing", "memory": 512 * MIB},
            {"name": "without", "memory": 256 * MIB, "reporting": False},
        ]
        guests = host.add_guests(wished)
        with AgentProcess(host) as agent:
            yield agent, *guests


def use_and_free(guest: Guest) -> int:
    """Fill and free memory in the guest; what was resident just before the free."""
    guest.alloc("work", WORK, content="random")
    before = guest.resident()
    guest.free("work")
    return before


def test_resident_falls_stays_and_falls_again_as_the_lever_is_pulled(stage) -> None:
    agent, guest, _, _ = stage
    switch_reporting(agent, guest, Observed.ON)
    before = use_and_free(guest)
    wait_for(lambda: before - guest.resident() >= FALL, WINDOW, "resident to fall by 800 MiB with reporting on")

    switch_reporting(agent, guest, Observed.OFF)
    wait_verdict(agent, guest.name, LeverName.REPORTING, {Answer.UNCHANGED})
    before = use_and_free(guest)
    holds(lambda: before - guest.resident() < DRIFT, WINDOW, "resident falls by less than 50 MiB with reporting off")

    agent.memhint("set", guest.name, "reporting=on")
    if guest.kernel == "6.1":
        # Its switch only arms: the guest's next free of an order-9 block starts the reporting.
        guest.alloc("spark", 64 * MIB)
        guest.free("spark")
    wait_for(lambda: before - guest.resident() >= FALL, WINDOW, "resident to fall by 800 MiB with reporting on again")
    wait_for(lambda: guest.uuid not in owned(agent), 60.0, "nothing of it to be owned any more")


def owned(agent: AgentProcess) -> set[str]:
    """The UUIDs of guests of which something is to be put back."""
    return {mark.subject for mark in agent.store().marks.all()}


def test_without_consent_the_lever_says_so_and_the_guest_is_untouched(stage) -> None:
    agent, _, guest, _ = stage
    switch_reporting(agent, guest, Observed.ON)
    before = guest.meminfo()
    agent.memhint("set", guest.name, "guest_actions=deny")
    agent.memhint("set", guest.name, "reporting=off", "--no-wait")
    wait_verdict(agent, guest.name, LeverName.REPORTING, {Answer.REFUSED})
    assert "guest_actions" in wait_refusal(agent, "set", guest.name, "reporting=off").stderr
    state = lever_of(agent.domain(guest.name), LeverName.REPORTING)
    assert (state.verdict.answer, state.verdict.reason) == (Answer.REFUSED, Reason.CONSENT)
    assert (state.desired, state.observed) == ("off", Observed.ON)
    after = guest.meminfo()
    for name in ("page_reporting_order", "balloon", "boot_id"):
        assert after[name] == before[name]


def test_libvirt_metadata_is_policy(stage) -> None:
    agent, _, guest, _ = stage
    agent.memhint("set", guest.name, "guest_actions=inherit", "guest_unbind=inherit", "reporting=inherit", check=False)
    element = "<policy reporting='off' guest_actions='allow' guest_unbind='allow'/>"
    words = ["virsh", "-c", guest.host.uri, "metadata", guest.name, "--uri", NAMESPACE, "--live", "--config"]
    subprocess.run([*words, "--key", "memhint", "--set", element], check=True, capture_output=True)

    def wished() -> bool:
        found = named(agent.report())[guest.name].policy.settings["reporting"]
        return (found.value, found.origin) == ("off", Origin.METADATA)

    wait_for(wished, 60.0, "the metadata to be policy")
    wait_verdict(agent, guest.name, LeverName.REPORTING, {Answer.APPLIED, Answer.UNCHANGED})
    wait_for(lambda: named(agent.report())[guest.name].levers[0].observed is Observed.OFF, 60.0, "the guest to be off")
    shown = subprocess.run(words[:-2], check=True, capture_output=True, text=True).stdout
    assert 'reporting="off"' in shown.replace("'", '"')


def test_a_vm_started_without_the_feature_gets_it_for_its_next_start(stage) -> None:
    agent, _, _, guest = stage
    state = lever_of(agent.domain(guest.name), LeverName.REPORTING)
    assert state.observed is Observed.UNSUPPORTED
    agent.memhint("set", guest.name, "reporting=on")
    state = wait_verdict(agent, guest.name, LeverName.REPORTING, {Answer.PENDING})
    wait_for(lambda: "freePageReporting='on'" in inactive(guest), 60.0, "the definition to change")
    assert "freePageReporting='on'" not in guest.domain().XMLDesc()


def test_the_cli_tells_the_same_as_json_and_as_a_table(stage) -> None:
    agent, guest, _, _ = stage
    rows = json.loads(agent.memhint("domains", "--json").stdout)
    assert {row["name"] for row in rows} == {"consenting", "refusing", "without"}
    assert guest.name in agent.memhint("domains").stdout
    status = json.loads(agent.memhint("status", "--json").stdout)
    assert status["host"].endswith(guest.host.name)
    planned = agent.memhint("plan", "--dry-run").stdout
    assert "Dry run" in planned
    unknown = agent.memhint("set", "consentin", "reporting=off", check=False)
    assert unknown.returncode == 3
    assert "consenting" in unknown.stderr


def test_stopping_the_agent_puts_everything_back(stage) -> None:
    agent, guest, other, without = stage
    for one in (guest, other):
        switch_reporting(agent, one, Observed.OFF)
    agent.memhint("set", without.name, "reporting=on")
    wait_for(lambda: "freePageReporting='on'" in inactive(without), 60.0, "the definition to change")
    assert owned(agent) == {guest.uuid, other.uuid, without.uuid}
    assert agent.stop() == 0
    for one in (guest, other):
        inside = one.meminfo()
        assert inside["page_reporting_order"] == "9"
        assert inside["balloon"] is True
    assert "freePageReporting='on'" not in inactive(without)
    assert agent.store().marks.all() == ()
    agent.start()  # whatever test comes after this one


def inactive(guest: Guest) -> str:
    import libvirt

    return guest.domain().XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
