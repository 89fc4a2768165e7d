"""The agent's parts by themselves: which deep read is due, and where policy comes from."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from lab.waiting import wait_for
from memhint.agent.deep_reads import DeepReads, next_due
from memhint.agent.lock import AlreadyRunning, HostLock
from memhint.agent.policies import Policies
from memhint.kernel.process import process_memory
from memhint.objects.domain import DeepMemory
from memhint.objects.policy import Mode, Origin, QosClass, remembered
from memhint.store import open_store
from memhint.store.rows.policies import StoredPolicies
from memhint.store.tables import policy
from tests.unit import builders
from tests.unit.kernel.fake_root import FakeRoot

UUID = builders.WEB


@pytest.fixture
def host(tmp_path: Path) -> FakeRoot:
    return FakeRoot(tmp_path).process(4711)


def test_the_oldest_deep_reading_is_due_first_and_a_new_vm_before_all() -> None:
    wanted = {"a": builders.process(), "b": builders.process(), "c": builders.process()}
    assert next_due(wanted, {"a": 10.0, "b": 5.0, "c": 7.0}, 100.0, 60.0) == "b"
    assert next_due(wanted, {"a": 10.0, "b": 5.0}, 100.0, 60.0) == "c"
    assert next_due(wanted, {"a": 90.0, "b": 90.0, "c": 90.0}, 100.0, 60.0) is None
    assert next_due({}, {}, 100.0, 60.0) is None


def test_deep_reads_rest_in_proportion_to_what_they_took(host) -> None:
    deep = DeepReads(host.kernel, 4096, cpu_percent=1.0, interval=60.0, wall=lambda: 5.0)
    deep.want({UUID: process_memory(host.kernel, 4711)})
    rest = deep.read_next(now=0.0)
    assert 0.0 < rest < 100.0  # a read of some milliseconds, times a hundred
    assert deep.newest(UUID).at == 5.0
    assert deep.taken() == 1
    assert deep.read_next(now=30.0) == 1.0  # nothing is due: it looks again in a second


def test_a_restarted_qemu_has_no_deep_reading(host) -> None:
    deep = DeepReads(host.kernel, 4096, cpu_percent=1.0, interval=60.0)
    deep.want({UUID: process_memory(host.kernel, 4711)})
    deep.read_next(now=0.0)
    deep.want({UUID: builders.process(pid=5000)})
    assert deep.newest(UUID) is None


def test_a_defect_in_one_deep_read_keeps_no_other_from_being_made(host, monkeypatch) -> None:
    """Zero pages of which nobody knows would count for nothing."""

    def read(_root, pid: int, at: float, _page_size: int) -> DeepMemory:
        if pid == 1:
            raise ValueError("a defect")
        return DeepMemory(at, 0, 0, 0)

    monkeypatch.setattr("memhint.agent.deep_reads.deep_memory", read)
    deep = DeepReads(host.kernel, 4096, cpu_percent=100.0, interval=0.01)
    deep.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    deep.start()
    try:
        wait_for(lambda: deep.newest("b"), 20.0, "the other's reading")
        assert deep.newest("a") is None
    finally:
        deep.close()


class Store:
    def __init__(self) -> None:
        self.kept: dict[str, dict[Origin, dict[str, str]]] = {}
        self.writes = 0

    def of(self, uuids):
        return StoredPolicies(self.kept, {})

    def replace(self, uuid, origin, values) -> None:
        self.writes += 1
        self.kept.setdefault(uuid, {})[origin] = dict(values)


def test_the_operator_comes_before_metadata_and_that_before_the_flavor() -> None:
    store = Store()
    policies = Policies(store, {Origin.DEFAULT: {"reporting": "auto"}})
    facts = builders.facts(policy={"reporting": "off"}, flavor_specs={"reporting": "on", "dedup": "on"})
    found = policies.update({UUID: facts}).policies[UUID]
    assert (found.settings["reporting"].value, found.settings["reporting"].origin) == ("off", Origin.METADATA)
    assert (found.settings["dedup"].value, found.settings["dedup"].origin) == ("on", Origin.FLAVOR)
    store.kept[UUID][Origin.OPERATOR] = {"reporting": "auto"}
    found = policies.update({UUID: facts}).policies[UUID]
    assert (found.reporting, found.settings["reporting"].origin) == (Mode.AUTO, Origin.OPERATOR)


def test_an_aggregate_comes_before_the_host_and_after_the_flavor() -> None:
    host = {Origin.AGGREGATE: {"class": "guaranteed", "dedup": "on"}, Origin.DEFAULT: {"class": "best-effort"}}
    found = Policies(Store(), host).update({UUID: builders.facts(flavor_specs={"dedup": "off"})}).policies[UUID]
    assert (found.qos, found.settings["class"].origin) == (QosClass.GUARANTEED, Origin.AGGREGATE)
    assert (found.dedup, found.settings["dedup"].origin) == (Mode.OFF, Origin.FLAVOR)


def test_an_opt_out_outlives_the_metadata_and_an_opt_in_does_not() -> None:
    store = Store()
    policies = Policies(store, {})
    policies.update({UUID: builders.facts(policy={"reporting": "off", "dedup": "on"})})
    found = policies.update({UUID: builders.facts(policy={})}).policies[UUID]  # Nova wrote the XML anew
    assert found.reporting is Mode.OFF
    assert found.settings["dedup"].origin is Origin.DEFAULT
    found = policies.update({UUID: builders.facts(policy={"reporting": "on"})}).policies[UUID]
    assert found.reporting is Mode.ON


def test_the_store_is_written_only_when_something_changed() -> None:
    store = Store()
    policies = Policies(store, {})
    facts = {UUID: builders.facts(policy={"reporting": "off"})}
    policies.update(facts)
    policies.update(facts)
    assert store.writes == 1


def test_a_dry_run_writes_nothing() -> None:
    store = Store()
    found = Policies(store, {}, dry_run=True).update({UUID: builders.facts(policy={"reporting": "off"})})
    assert found.policies[UUID].reporting is Mode.OFF
    assert store.writes == 0


OTHER = "6f1d3c2a-0000-4000-8000-00000000000f"


@pytest.mark.parametrize("column", ["key", "value", "origin"])
def test_after_a_restart_one_unreadable_row_costs_its_own_vm_only(tmp_path: Path, column: str) -> None:
    kept = open_store(f"sqlite:///{tmp_path}/memhint.db")
    for uuid in (UUID, OTHER):
        kept.policies.set_operator(uuid, {"class": "guaranteed", "guest_actions": "deny", "swap_out": "deny"})
    with kept.database.write() as connection:
        damaged = (policy.c.domain_uuid == UUID) & (policy.c.key == "guest_actions")
        connection.execute(update(policy).where(damaged).values({column: "perhaps"}))
    willing = {"guest_actions": "allow", "swap_out": "allow", "balloon": "allow", "class": "best-effort"}
    facts = builders.facts(policy={"reporting": "off"}, flavor_specs=willing)
    host = {Origin.DEFAULT: {"reporting_order": "7"}}
    found = Policies(kept.policies, host).update({UUID: facts, OTHER: facts})
    kept.close()
    assert set(found.unreadable) == {UUID}
    assert "perhaps" in found.unreadable[UUID]
    hurt, well = found.policies[UUID], found.policies[OTHER]
    assert (well.qos, well.guest_actions, well.swap_out) == (QosClass.GUARANTEED, False, False)
    assert hurt.qos is QosClass.GUARANTEED  # what of it can be read holds
    assert (hurt.overcommit, hurt.guest_actions, hurt.swap_out, hurt.balloon) == (False,) * 4
    assert hurt.settings["swap_out"].origin is Origin.OPERATOR  # who denied it is not forgotten
    for one in (hurt, well):
        assert (one.reporting, one.reporting_order) == (Mode.OFF, 7)  # metadata and the host's defaults apply


def test_no_wish_is_read_but_of_vms_that_are_there() -> None:
    class Asked(Store):
        def of(self, uuids):
            asked.append(list(uuids))
            return super().of(uuids)

    asked: list[list[str]] = []
    store = Asked()
    store.kept = {f"gone-{number}": {Origin.METADATA: {"reporting": "off"}} for number in range(3)}
    assert Policies(store, {}).update({UUID: builders.facts()}).policies.keys() == {UUID}
    assert asked == [[UUID]]


def test_what_cannot_be_read_is_left_for_who_can(tmp_path: Path) -> None:
    kept = open_store(f"sqlite:///{tmp_path}/memhint.db")
    kept.policies.replace(UUID, Origin.METADATA, {"reporting": "off"})
    with kept.database.write() as connection:
        connection.execute(update(policy).values({"value": "perhaps"}))
    Policies(kept.policies, {}).update({UUID: builders.facts(policy={"dedup": "on"})})
    assert kept.policies.read().unreadable
    kept.close()


def test_without_the_store_definitions_and_configuration_speak_and_nothing_is_allowed() -> None:
    host = {Origin.DEFAULT: {"guest_actions": "allow", "reporting_order": "7"}}
    facts = builders.facts(policy={"reporting": "off", "balloon": "allow"})
    found = Policies(Store(), host).without_store({UUID: facts})[UUID]
    assert (found.reporting, found.reporting_order) == (Mode.OFF, 7)
    assert (found.overcommit, found.guest_actions, found.balloon) == (False,) * 3


values = st.dictionaries(st.sampled_from(["reporting", "dedup"]), st.sampled_from(["on", "off", "auto"]))


@given(values, values)
def test_what_is_said_now_holds_and_only_opt_outs_survive(before: dict[str, str], now: dict[str, str]) -> None:
    found = remembered(before, now)
    assert {key: found[key] for key in now} == now
    assert all(before[key] == "off" == found[key] for key in set(found) - set(now))


def test_a_host_has_one_agent() -> None:
    first, second = HostLock("unit-test-host"), HostLock("unit-test-host")
    first.take()
    with pytest.raises(AlreadyRunning):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_share_of_nothing_reads_nothing(host) -> None:
    deep = DeepReads(host.kernel, 4096, cpu_percent=0.0, interval=60.0)
    deep.start()
    assert deep._thread is None
