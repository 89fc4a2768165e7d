"""The whole plan: capacity rises slowly and falls at once, stale data means nominal, actions follow the policies."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.host import Scope
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName
from memhint.objects.ownership import HOST
from memhint.objects.plan import Bound
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.earned_ratio import ALL, evidence
from memhint.planner.ladder import LadderState, RungState
from memhint.planner.plan import Sight, plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from memhint.planner.window import BUCKETS, Window
from tests.unit import builders

SETTINGS = PlannerSettings(reserve=1 * GIB, reserve_percent=0, raise_percent_per_minute=10.0)
HOST_SEEN = builders.host_observation(
    memory=builders.host_memory(total=64 * GIB, available=60 * GIB, swap_total=64 * GIB), ksm=None
)


def policies(domains, **values: str):
    return {one.uuid: effective({Origin.OPERATOR: values}) for one in domains}


def run(now: float, state: PlannerState, host=HOST_SEEN, domains=(), sight=Sight.CLEAR, **values: str):
    return plan(host, domains, policies(domains, **values), state, now, SETTINGS, sight=sight)


def test_the_first_plan_promises_what_nominal_accounting_would_and_no_more_than_there_is() -> None:
    first = run(0.0, start(SETTINGS)).plan.capacity
    assert first.bound is not Bound.RATE
    assert first.headroom == min(first.model, first.now, first.back) <= first.nominal_headroom()
    idle = [builders.domain_observation(facts=builders.facts(memory=32 * GIB))]
    packed = run(0.0, start(SETTINGS), domains=idle).plan.capacity
    assert packed.headroom <= max(0, packed.nominal_headroom())
    scarce = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=3 * GIB))
    assert run(0.0, start(SETTINGS), host=scarce).plan.capacity.headroom <= 2 * GIB


def test_capacity_rises_by_its_rate_and_falls_at_once() -> None:
    scarce = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=3 * GIB))
    first = run(0.0, replace(start(SETTINGS), at=-1.0))
    assert (first.plan.capacity.headroom, first.plan.capacity.bound) == (int(64 * GIB * 0.10 / 60), Bound.RATE)
    second = run(60.0, first.state)
    assert second.plan.capacity.headroom - first.plan.capacity.headroom == int(64 * GIB * 0.10)
    third = run(61.0, second.state, host=scarce)
    # What is not VMs is other work: its peak now holds, and what is free now is little.
    assert third.plan.capacity.headroom <= 2 * GIB


def test_under_pressure_nothing_is_promised() -> None:
    state = run(600.0, run(0.0, start(SETTINGS)).state).state
    pressed = replace(HOST_SEEN, pressure=builders.pressure(some_avg10=50.0))
    found = run(601.0, state, host=pressed).plan
    assert (found.capacity.headroom, found.capacity.bound) == (0, Bound.PRESSURE)
    assert not found.pressure.admitting


def test_swap_in_is_a_rate_between_two_cycles() -> None:
    state = run(600.0, run(0.0, start(SETTINGS)).state).state
    swapping = replace(HOST_SEEN, swap=replace(HOST_SEEN.swap, swapped_in=100 * MIB))
    assert run(601.0, state, host=swapping).plan.pressure.detail.startswith("swap-in")


def four_idle_vms() -> list[DomainObservation]:
    return [
        builders.domain_observation(
            uuid=f"vm-{pid}",
            facts=builders.facts(memory=15 * GIB),
            process=builders.process(pid=pid, rss=1 * GIB, ksm_zero=0),
        )
        for pid in range(4)
    ]


def test_stale_data_promises_no_more_than_nominal() -> None:
    domains = four_idle_vms()
    state = start(SETTINGS)
    for now in range(0, 7200, 600):
        state = run(float(now), state, domains=domains).state
    fresh = run(7200.0, state, domains=domains).plan.capacity
    stale = run(7200.0, state, domains=domains, sight=Sight.STALE).plan.capacity
    blind = run(7200.0, state, domains=domains, sight=Sight.BLIND).plan.capacity
    assert fresh.headroom > stale.headroom == max(0, stale.nominal_headroom())
    assert stale.bound is Bound.STALE
    assert (blind.headroom, blind.bound) == (0, Bound.STALE)
    # By assigned memory alone nothing is let in either: what all VMs were given is not known.
    assert (blind.blind, blind.nominal_headroom()) == (True, min(0, stale.nominal_headroom()))
    nobody = run(0.0, start(SETTINGS), domains=[], sight=Sight.BLIND).plan.capacity
    assert (nobody.assigned, nobody.nominal_slots(GIB)) == (0, 0)


def test_one_look_at_less_than_all_costs_the_promise_of_one_cycle_only() -> None:
    domains = four_idle_vms()
    state = start(SETTINGS)
    for now in range(0, 7200, 600):
        state = run(float(now), state, domains=domains).state
    before = state.headroom
    stale = run(7200.0, state, domains=domains, sight=Sight.STALE)
    assert stale.plan.capacity.headroom < before == stale.state.headroom
    assert run(7210.0, stale.state, domains=domains).plan.capacity.headroom >= before
    # What was promised to nobody for want of sight rises slowly.
    blind = run(7200.0, state, domains=domains, sight=Sight.BLIND)
    assert blind.state.headroom == 0
    assert run(7210.0, blind.state, domains=domains).plan.capacity.headroom < before


def test_a_vm_of_which_little_is_known_counts_and_is_asked_for_nothing() -> None:
    vm = builders.domain_observation(facts=builders.facts(memory=8 * GIB))
    pressed = replace(HOST_SEEN, pressure=builders.pressure(some_avg10=90.0))
    state = replace(start(SETTINGS), ladder=LadderState((RungState(Rung.MIGRATION, 0.0, "short"),)))
    found = {}
    for unread in (frozenset(), frozenset({vm.uuid})):
        planned = plan(pressed, [vm], policies([vm]), state, 1.0, SETTINGS, unread=unread)
        assert [one.uuid for one in planned.plan.demands] == [vm.uuid]
        found[bool(unread)] = planned.plan.relief.migrate
    assert found == {False: vm.uuid, True: None}


def test_other_work_is_remembered_by_its_peak() -> None:
    busy = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=20 * GIB))
    state = run(0.0, start(SETTINGS), host=busy).state
    assert run(60.0, state).plan.capacity.other == 44 * GIB
    assert run(7300.0, state).plan.capacity.other == 4 * GIB  # it has left the window


def test_a_vm_whose_process_is_not_read_is_no_other_work() -> None:
    """As while it ends, or is started again: its memory is there still, and would count as others' for an hour."""
    taken = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=40 * GIB))
    vm = builders.domain_observation(
        facts=builders.facts(memory=32 * GIB), process=builders.process(rss=20 * GIB, swap=0, ksm_zero=0)
    )
    gone = replace(vm, process=None)
    state = run(10.0, run(0.0, start(SETTINGS), host=taken, domains=[vm]).state, host=taken, domains=[vm]).state
    once = run(20.0, state, host=taken, domains=[gone])
    assert once.plan.capacity.other == 4 * GIB
    again = run(30.0, once.state, host=taken, domains=[gone])
    assert again.plan.capacity.other == 4 * GIB, "however many looks that takes"
    more = replace(taken, memory=replace(taken.memory, available=30 * GIB))
    assert run(40.0, again.state, host=more, domains=[gone]).plan.capacity.other == 14 * GIB
    assert run(40.0, again.state, domains=[]).plan.capacity.other == 4 * GIB, "it has gone, with all that it held"
    off = replace(gone, state=DomainState.SHUTOFF)
    assert run(20.0, state, host=taken, domains=[off]).plan.capacity.other == 24 * GIB


def test_what_a_vm_holds_that_nobody_named_is_not_remembered_as_other_work() -> None:
    """Libvirt did not answer while it was started: when it does, the VM is one."""
    settings = replace(SETTINGS, max_ratio=1.5, earned_max_ratio=4.0)
    vm = builders.domain_observation(
        facts=builders.facts(memory=40 * GIB), process=builders.process(rss=40 * GIB, swap=0, ksm_zero=0)
    )
    taken = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=20 * GIB))

    def look(now: float, state: PlannerState, host, domains, sight: Sight):
        return plan(host, domains, policies(domains), state, now, settings, sight=sight)

    state = look(0.0, start(settings), HOST_SEEN, [], Sight.CLEAR).state
    stale = look(10.0, state, taken, [], Sight.STALE)
    assert stale.plan.capacity.other == 44 * GIB
    seen = look(20.0, stale.state, taken, [vm], Sight.CLEAR)
    assert seen.plan.capacity.other == 4 * GIB
    assert max(one.worst for one in seen.state.earned.days) < 1000, "the host did not run short"


def test_growth_of_one_vm_and_shrinkage_of_another_do_not_cancel_out() -> None:
    one = builders.domain_observation(process=builders.process(pid=1, rss=1 * GIB))
    two = builders.domain_observation(uuid=builders.DB, process=builders.process(pid=2, rss=3 * GIB))
    state = run(0.0, start(SETTINGS), domains=[one, two]).state
    one = replace(one, process=builders.process(pid=1, rss=2 * GIB))
    two = replace(two, process=builders.process(pid=2, rss=1 * GIB))
    state = run(10.0, state, domains=[one, two]).state
    assert state.fault_in.peak() == 1 * GIB / 10


def test_memory_that_arrives_by_migration_is_no_growth() -> None:
    def look(now: float, rss: int, state: PlannerState, domain_state: DomainState) -> PlannerState:
        process = builders.process(rss=rss, swap=0, ksm_zero=0)
        vm = builders.domain_observation(state=domain_state, process=process, facts=builders.facts(memory=32 * GIB))
        return run(now, state, domains=[vm]).state

    for domain_state, grew in ((DomainState.INCOMING, False), (DomainState.PAUSED, False), (DomainState.RUNNING, True)):
        state = look(0.0, 1 * GIB, start(SETTINGS), domain_state)
        state = look(10.0, 21 * GIB, state, domain_state)
        assert (state.fault_in.peak() > 0) is grew, domain_state


def test_the_last_of_what_arrives_by_migration_is_no_growth_either() -> None:
    """It runs by the time that it is seen: what came since the look before was no doing of its own."""
    state, size = start(SETTINGS), 1 * GIB
    for now, domain_state in ((0.0, DomainState.INCOMING), (10.0, DomainState.RUNNING), (20.0, DomainState.RUNNING)):
        process = builders.process(rss=size, swap=0, ksm_zero=0)
        vm = builders.domain_observation(state=domain_state, process=process, facts=builders.facts(memory=64 * GIB))
        state = run(now, state, domains=[vm]).state
        size += 20 * GIB
        assert (state.fault_in.peak() > 0) is (now == 20.0)


def test_a_vm_of_which_nothing_was_ever_read_leaves_no_memory_of_other_work() -> None:
    """An agent that was started anew knows of no process; nothing is learnt of what seems to be others'."""
    earning = replace(SETTINGS, max_ratio=1.5, earned_max_ratio=3.0)
    taken = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=8 * GIB))
    blind = builders.domain_observation(facts=builders.facts(memory=60 * GIB), process=None)
    seen = replace(blind, process=builders.process(rss=50 * GIB, swap=0, ksm_zero=0))

    def look(now: float, state: PlannerState, domain: DomainObservation):
        return plan(taken, [domain], policies([domain]), state, now, earning)

    first = look(0.0, start(earning), blind)
    assert first.plan.capacity.other == 56 * GIB, "for now it counts"
    second = look(10.0, first.state, seen)
    assert second.plan.capacity.other == 6 * GIB
    assert evidence(second.state.earned).share < ALL, "nor has the host run short"
    small = replace(blind, facts=builders.facts(memory=10 * GIB))
    first = look(0.0, start(earning), small)
    assert (
        look(10.0, first.state, replace(small, process=builders.process(rss=2 * GIB, swap=0))).plan.capacity.other
        == 54 * GIB
    )
    least = replace(taken, memory=replace(taken.memory, available=60 * GIB))
    later = plan(least, [], {}, first.state, 10.0, earning)
    assert later.plan.capacity.other == 56 * GIB - first.plan.demands[0].assigned, (
        "what it surely did not hold is other work, and remembered"
    )


def test_a_first_look_that_is_stale_begins_no_lower_than_nominal() -> None:
    domains = four_idle_vms()
    heads = {}
    for sight in (Sight.CLEAR, Sight.STALE):
        first = run(0.0, start(SETTINGS), domains=domains, sight=sight)
        heads[sight] = run(10.0, first.state, domains=domains).plan.capacity.headroom
    assert heads[Sight.STALE] == heads[Sight.CLEAR] > 0


def test_memory_that_is_a_file_is_not_available_to_others() -> None:
    """The kernel counts it as page cache, so it is in what is available, and in the process's resident memory."""
    found = {}
    for file_backed in (False, True):
        facts = builders.facts(memory=16 * GIB, file_backed=file_backed, shared_memory=file_backed, locked=True)
        vm = builders.domain_observation(facts=facts, process=builders.process(rss=16 * GIB, swap=0, ksm_zero=0))
        left = 28 * GIB + (16 * GIB if file_backed else 0)
        host = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=left))
        found[file_backed] = run(0.0, start(SETTINGS), host=host, domains=[vm]).plan.capacity
    assert (found[True].headroom, found[True].other) == (found[False].headroom, found[False].other)
    assert found[True].available == 28 * GIB


def test_actions_follow_the_policies_and_auto_asks_for_none() -> None:
    domain = builders.domain_observation(facts=builders.facts(project="p1"))
    assert run(0.0, start(SETTINGS), domains=[domain], reporting="auto").plan.actions == ()
    actions = run(0.0, start(SETTINGS), domains=[domain], reporting="off", dedup="on").plan.actions
    assert [(one.lever, one.subject, one.desired) for one in actions] == [
        (LeverName.REPORTING, domain.uuid, "off"),
        (LeverName.DEDUP, domain.uuid, "on"),
        (LeverName.DEDUP, HOST, "on"),
    ]


def test_planning_the_same_moment_again_gives_the_same_plan() -> None:
    domain = builders.domain_observation()
    state = run(0.0, start(SETTINGS), domains=[domain]).state
    assert run(10.0, state, domains=[domain]) == run(10.0, state, domains=[domain])


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 64 * GIB)), min_size=1, max_size=20))
def test_the_headroom_never_rises_faster_than_its_rate(steps: list[tuple[float, int]]) -> None:
    state, now, before = start(SETTINGS), 0.0, 0
    for step, available in steps:
        now += step
        host = replace(HOST_SEEN, memory=replace(HOST_SEEN.memory, available=available))
        found = run(now, state, host=host)
        if state.at is None:
            before = found.plan.capacity.nominal_headroom()
        allowed = 64 * GIB * 0.10 * (step if state.at is not None else 0) / 60
        assert found.plan.capacity.headroom <= before + allowed
        state, before = found.state, found.plan.capacity.headroom


@given(st.lists(st.tuples(st.floats(0.01, 500), st.floats(0, 1e9)), max_size=300))
def test_a_window_keeps_its_peak_and_stays_small(samples: list[tuple[float, float]]) -> None:
    window, now, kept = Window(1000.0), 0.0, []
    for step, value in samples:
        now += step
        window = window.add(now, value)
        kept.append((now, value))
    recent = [value for at, value in kept if now - at < 1000.0 * (1 - 1 / BUCKETS)]
    assert len(window.slots) <= BUCKETS
    if recent:
        assert window.peak() >= max(recent)
        assert window.quantile(1.0) == window.peak()


def test_a_cgroup_does_not_pay_for_huge_pages_and_a_machine_does() -> None:
    pools = (builders.HugetlbPool(2 * MIB, 512, 512),)
    machine = replace(HOST_SEEN, hugetlb=pools)
    cgroup = replace(machine, memory=replace(machine.memory, scope=Scope.CGROUP))
    assert run(0.0, start(SETTINGS), host=machine).plan.capacity.pool == 63 * GIB
    assert run(0.0, start(SETTINGS), host=cgroup).plan.capacity.pool == 64 * GIB
