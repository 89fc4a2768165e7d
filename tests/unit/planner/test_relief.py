"""Who gives what on each rung: nobody who did not agree to it, and never a guaranteed VM."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Excluded, Exclusion
from memhint.objects.guest import GuestKernel
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName
from memhint.objects.policy import Origin, Policy, effective
from memhint.objects.tuning import Tuning
from memhint.objects.units import GIB, MIB
from memhint.planner.actions import relief_actions
from memhint.planner.activity import keep_tuning
from memhint.planner.cold import Cold
from memhint.planner.relief.balloon import MARGIN
from memhint.planner.relief.relieve import fruitless, relieve
from memhint.planner.relief.tuning import BESIDE_SINGLES
from memhint.planner.settings import LadderSettings
from tests.unit import builders

SETTINGS = LadderSettings()
EVERY = frozenset(Rung)
PATCHED = GuestKernel(
    builders.NOW, "6.12.1", "boot-1", 9, "virtio3", True, True, ("enabled", "order", "delay-ms"), True
)


def vm(name: str, *, rss: int = 2 * GIB, cached: int = 512 * MIB, **changes: object) -> DomainObservation:
    process = builders.process(pid=abs(hash(name)) % 90000 + 100, rss=rss, swap=0, ksm_zero=0)
    guest = builders.guest_memory(total=4000 * MIB, available=3000 * MIB, cached=cached)
    facts = builders.facts(memory=4 * GIB, balloon=True)
    base = builders.domain_observation(
        uuid=name, name=name, process=process, guest=guest, facts=facts, balloon_actual=4 * GIB, guest_kernel=PATCHED
    )
    return replace(base, **changes)


def policy(**values: str) -> Policy:
    names = {name.rstrip("_"): value for name, value in values.items()}
    return effective({Origin.OPERATOR: names})


WILLING = {
    "guest_actions": "allow",
    "class_": "best-effort",
    "balloon": "allow",
    "swap_out": "allow",
    "min_mb": "512",
}


def ask(rungs, domains, policies, idle=None, shortage=1 * GIB, migrate=None, kept=None):
    everyone = frozenset(one.process.instance for one in domains if one.process)
    idle = everyone if idle is None else idle
    return relieve(frozenset(rungs), domains, policies, idle, shortage, SETTINGS, migrate, kept=kept or {})


def test_a_willing_idle_vm_gives_on_every_rung() -> None:
    one = vm("a")
    found = ask(EVERY, [one], {"a": policy(**WILLING)})
    assert found.tuning == {"a": Tuning(order=4, delay_ms=200)}
    assert found.tuning["a"].flush
    assert found.cache == {"a": 512 * MIB}
    assert found.balloon == {"a": 4 * GIB - int(4 * GIB * 0.10)}
    assert found.swap_out == {"a": int(2 * GIB * 0.05)}
    assert found.dedup
    assert found.migrate == "a"
    assert {action.lever for action in relief_actions(found)} == {
        LeverName.REPORTING,
        LeverName.CACHE,
        LeverName.BALLOON,
        LeverName.SWAP_OUT,
        LeverName.MIGRATION,
    }
    assert fruitless(found, SETTINGS) == {Rung.ADMISSION, Rung.RECYCLER}  # its guest marks nothing


def test_nothing_is_asked_while_no_rung_is_entered() -> None:
    found = ask([], [vm("a")], {"a": policy(**WILLING)})
    assert relief_actions(found) == ()
    assert fruitless(found, SETTINGS) == EVERY - {Rung.MIGRATION}


ALWAYS = replace(SETTINGS, always=frozenset({Rung.REPORTING, Rung.CACHE, Rung.ORDER}))


def calm(domains, policies, idle, settings=ALWAYS):
    return relieve(frozenset(), domains, policies, frozenset(idle), 1, settings)


def test_what_always_holds_is_done_to_idle_vms_of_a_calm_host_and_nothing_else() -> None:
    idle, busy = vm("a"), vm("b")
    policies = {"a": policy(**WILLING), "b": policy(**WILLING)}
    found = calm([idle, busy], policies, [idle.process.instance])
    assert found.tuning == {"a": Tuning(order=4, delay_ms=200)}
    assert found.tuning["a"].flush
    assert found.cache == {"a": 512 * MIB}  # all of it, though next to nothing is short
    assert (found.balloon, found.swap_out, found.dedup, found.migrate) == ({}, {}, False, None)
    whys = {action.why for action in relief_actions(found, calm=True)}
    assert whys == {"the VM is idle", "policy, or the VM is idle"}


def test_the_ladder_does_not_wait_for_what_held_before_it_was_climbed() -> None:
    found = relieve(EVERY, [vm("a")], {"a": policy(**WILLING)}, frozenset({vm("a").process.instance}), GIB, ALWAYS)
    assert fruitless(found, ALWAYS) == {Rung.ADMISSION, Rung.REPORTING, Rung.RECYCLER, Rung.ORDER}


def test_what_always_holds_needs_the_same_consent() -> None:
    one = vm("a")
    for refusing in (policy(), policy(**{**WILLING, "class_": "guaranteed"})):
        found = calm([one], {"a": refusing}, [one.process.instance])
        assert not found.tuning
        assert not found.cache


def test_what_rests_goes_to_swap_where_that_always_holds_and_what_is_short_on_its_rung() -> None:
    one, policies = vm("a"), {"a": policy(**WILLING)}
    cold = {one.process.instance: Cold(60.0, 0, left=700 * MIB)}
    idle = frozenset({one.process.instance})
    always = replace(SETTINGS, always=frozenset({Rung.SWAP_OUT}))

    def asked(rungs, settings, idle=idle):
        return relieve(frozenset(rungs), [one], policies, idle, GIB, settings, cold=cold)

    assert asked([], SETTINGS).swap_out == {}
    assert asked([], always).swap_out == {"a": 700 * MIB}
    assert asked([Rung.CACHE], always).swap_out == {"a": 700 * MIB}
    assert asked([], always, frozenset()).swap_out == {}
    pressed = asked([Rung.SWAP_OUT], always)
    assert pressed.swap_out == asked([Rung.SWAP_OUT], SETTINGS).swap_out == {"a": int(2 * GIB * 0.05)}
    assert Rung.SWAP_OUT not in fruitless(pressed, always)


def test_the_cache_rung_under_pressure_is_not_changed_by_what_always_holds() -> None:
    domains = [vm("a"), vm("b", cached=256 * MIB)]
    policies = {name: policy(**WILLING) for name in "ab"}
    for idle in (frozenset(), frozenset(one.process.instance for one in domains)):
        asked = [
            relieve(frozenset({Rung.CACHE}), domains, policies, idle, 300 * MIB, settings).cache
            for settings in (SETTINGS, replace(SETTINGS, always=frozenset({Rung.CACHE})))
        ]
        assert asked[0] == asked[1]
        assert asked[0]


def test_a_small_cache_is_left_alone_while_the_host_is_calm_too() -> None:
    one = vm("a", cached=SETTINGS.cache_least - 1)
    assert not calm([one], {"a": policy(**WILLING)}, [one.process.instance]).cache


@pytest.mark.parametrize(
    "policy_of",
    [policy(), policy(**{**WILLING, "guest_actions": "deny", "balloon": "deny", "swap_out": "deny"})],
)
def test_who_did_not_agree_gives_nothing(policy_of: Policy) -> None:
    found = ask(EVERY, [vm("a")], {"a": policy_of})
    assert not found.tuning
    assert not found.cache
    assert not found.balloon
    assert not found.swap_out


def test_a_guaranteed_vm_gives_nothing_and_is_not_moved() -> None:
    found = ask(EVERY, [vm("a")], {"a": policy(**{**WILLING, "class_": "guaranteed"})})
    assert relief_actions(found) == ()


def test_a_busy_vm_keeps_its_reporting_and_its_balloon() -> None:
    one = vm("a")
    found = ask(EVERY, [one], {"a": policy(**WILLING)}, idle=frozenset())
    assert not found.tuning
    assert not found.balloon
    assert not found.swap_out
    shrunk = replace(one, balloon_actual=3 * GIB)
    assert ask(EVERY, [shrunk], {"a": policy(**WILLING)}, idle=frozenset()).balloon == {"a": 3 * GIB}


def test_policy_s_own_order_and_delay_hold_without_and_against_the_ladder() -> None:
    chosen = policy(**WILLING, reporting_order="2", reporting_delay_ms="5000")
    assert ask([], [vm("a")], {"a": chosen}).tuning == {"a": Tuning(2, 5000)}
    assert ask(EVERY, [vm("a")], {"a": chosen}).tuning == {"a": Tuning(2, 5000)}
    assert not ask([], [vm("a")], {"a": chosen}).tuning["a"].flush
    assert ask(EVERY, [vm("a")], {"a": chosen}).tuning["a"].flush


def test_the_largest_caches_go_first_until_the_shortage_is_covered() -> None:
    domains = [vm("a", cached=300 * MIB), vm("b", cached=900 * MIB), vm("c", cached=10 * MIB)]
    policies = {one.uuid: policy(**WILLING) for one in domains}
    assert ask(EVERY, domains, policies, shortage=1 * GIB).cache == {"b": 512 * MIB, "a": 300 * MIB}
    assert ask(EVERY, domains, policies, shortage=700 * MIB).cache == {"b": 350 * MIB, "a": 300 * MIB}
    assert ask(EVERY, domains, policies, shortage=50 * MIB).cache == {"b": 64 * MIB}


def ballooned(actual: int, uses: int, *, counts: bool = True) -> DomainObservation:
    """A VM of 4 GiB whose kernel keeps 96 MiB.

    :param counts: whether what the balloon holds is in its total, as where a balloon deflates itself
    """
    held = 4 * GIB - actual
    total = 4000 * MIB - (0 if counts else held)
    guest = builders.guest_memory(total=total, available=4000 * MIB - held - uses)
    return vm("a", balloon_actual=actual, guest=guest)


@pytest.mark.parametrize("counts", [True, False])
def test_a_balloon_stops_at_the_minimum_and_at_what_the_guest_uses(counts: bool) -> None:
    low = ballooned(1300 * MIB, 1000 * MIB, counts=counts)
    used = (96 + 1000) * MIB + MARGIN
    assert ask(EVERY, [low], {"a": policy(**WILLING)}).balloon == {"a": used}
    assert ask(EVERY, [low], {"a": policy(**{**WILLING, "min_mb": "2048"})}).balloon == {"a": 2048 * MIB}
    assert not ask(EVERY, [low], {"a": policy(**{**WILLING, "min_mb": "0"})}).balloon


@pytest.mark.parametrize("counts", [True, False])
def test_a_balloon_comes_to_rest_where_the_guest_has_its_margin_left(counts: bool) -> None:
    seen = [4 * GIB]
    for _ in range(20):
        found = ask(EVERY, [ballooned(seen[-1], 1000 * MIB, counts=counts)], {"a": policy(**WILLING)})
        seen.append(found.balloon["a"])
    assert seen == sorted(seen, reverse=True)
    assert ballooned(seen[-1], 1000 * MIB, counts=counts).guest.available == MARGIN


def test_a_balloon_at_rest_does_not_follow_each_change_of_what_its_guest_uses() -> None:
    willing = {"a": policy(**WILLING)}
    rest = (96 + 1000) * MIB + MARGIN
    for uses in (980, 1000, 1031):
        assert ask(EVERY, [ballooned(rest, uses * MIB)], willing).balloon == {"a": rest}
    assert ask(EVERY, [ballooned(rest, 1040 * MIB)], willing).balloon == {"a": rest + 40 * MIB}
    assert ask(EVERY, [ballooned(rest, 960 * MIB)], willing).balloon == {"a": rest - 40 * MIB}
    least = {"a": policy(**{**WILLING, "min_mb": str((rest >> 20) + 10)})}
    assert ask(EVERY, [ballooned(rest, 1000 * MIB)], least).balloon == {"a": rest + 10 * MIB}


def test_whom_to_move_is_best_effort_first_then_the_largest_and_stays_the_same() -> None:
    domains = [vm("a", rss=3 * GIB), vm("b", rss=1 * GIB), vm("c", rss=2 * GIB)]
    policies = {"a": policy(), "b": policy(class_="best-effort"), "c": policy(class_="best-effort")}
    assert ask([Rung.MIGRATION], domains, policies).migrate == "c"
    assert ask([Rung.MIGRATION], domains, policies, migrate="b").migrate == "b"
    pinned = [replace(one, facts=replace(one.facts, vfio=True)) for one in domains]
    assert ask([Rung.MIGRATION], pinned, policies, migrate="b").migrate is None


def test_a_guest_is_not_asked_for_what_its_kernel_has_no_setting_for() -> None:
    one = replace(vm("a"), guest_kernel=replace(PATCHED, settable=()))
    willing = {"a": policy(**WILLING)}
    assert ask(EVERY, [one], willing).tuning == {}
    slow = replace(one, guest_kernel=replace(PATCHED, settable=("order",)))
    assert ask(EVERY, [slow], willing).tuning == {"a": Tuning(order=SETTINGS.fine_order)}
    # asking tells
    assert ask(EVERY, [replace(one, guest_kernel=None)], willing).tuning["a"].delay_ms == SETTINGS.delay_ms
    # what a person wished is answered, not dropped
    assert ask(EVERY, [one], {"a": policy(**WILLING, reporting_order="4")}).tuning == {"a": Tuning(order=4)}


def test_a_vm_that_is_busy_for_a_moment_keeps_its_tuning_and_is_asked_for_nothing_new() -> None:
    one = vm("a")
    willing = {"a": policy(**WILLING)}
    nobody: frozenset[str] = frozenset()
    tuned = ask([Rung.REPORTING], [one], willing).tuning
    assert tuned == {"a": Tuning(delay_ms=200)}
    assert tuned["a"].flush
    kept = keep_tuning(tuned, [one], {one.process.instance: SETTINGS.busy_for - 1}, nobody, SETTINGS)
    assert kept == tuned
    assert keep_tuning(tuned, [one], {one.process.instance: SETTINGS.busy_for}, nobody, SETTINGS) == {}
    # A rung entered meanwhile waits until it is idle; one that is left gives it its own settings back at once.
    both = [Rung.REPORTING, Rung.ORDER]
    held = ask(both, [one], willing, idle=nobody, kept=kept).tuning
    assert held == tuned
    assert not held["a"].flush  # while it allocates, what is free is not had from it in one go
    assert ask([Rung.ORDER], [one], willing, idle=nobody, kept=kept).tuning == {}
    assert ask(both, [one], willing, idle=nobody).tuning == {}
    # Consent that was taken back meanwhile holds at once, too.
    assert ask(both, [one], {"a": policy()}, idle=nobody, kept=kept).tuning == {}


def test_a_vm_that_came_to_rest_is_asked_once_more() -> None:
    one = vm("a")
    itself, policies = frozenset({one.process.instance}), {"a": policy(**WILLING)}
    tuned = ask([Rung.REPORTING], [one], policies).tuning
    for rested, rests in ((frozenset(), 0), (itself, 1), (frozenset(), 1), (itself, 2)):
        kept = keep_tuning(tuned, [one], {}, rested, SETTINGS)
        tuned = ask([Rung.REPORTING], [one], policies, kept=kept).tuning
        assert tuned["a"].rests == rests
    # Also where no burst is short enough for it to keep its tuning.
    assert keep_tuning(tuned, [one], {}, itself, replace(SETTINGS, busy_for=0.0))["a"].rests == 3
    # What it has by policy alone is flushed by nobody.
    chosen = policy(**WILLING, reporting_order="2")
    assert ask([], [one], {"a": chosen}, kept=keep_tuning(tuned, [one], {}, itself, SETTINGS)).tuning["a"].rests == 0


NUMBERS = st.none() | st.integers(-(2**62), 2**62)


@given(
    st.integers(0, 64 * GIB),
    st.integers(0, 1 << 40),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.sampled_from(list(DomainState)),
)
def test_whatever_a_guest_says_it_keeps_its_minimum_and_what_is_asked_is_sane(
    rss: int, shortage: int, total: int | None, available: int | None, cached: int | None, state: DomainState
) -> None:
    one = vm("a", rss=rss)
    said = builders.guest_memory(total=total, available=available, cached=cached)
    found = ask(EVERY, [replace(one, guest=said, state=state)], {"a": policy(**WILLING)}, shortage=shortage)
    for size in found.balloon.values():
        assert 512 * MIB <= size <= 4 * GIB
    for size in found.swap_out.values():
        assert 0 < size <= max(0, rss - 512 * MIB)
    if state is not DomainState.RUNNING:
        assert relief_actions(found) == ()


@pytest.mark.parametrize(
    ("reason", "rung", "given"),
    [
        (Exclusion.UNSUPPORTED, Rung.CACHE, "cache"),
        (Exclusion.REALTIME, Rung.BALLOON, "balloon"),
        (Exclusion.FILE_BACKED, Rung.SWAP_OUT, "swap_out"),
        (Exclusion.PASSTHROUGH, Rung.REPORTING, "tuning"),
    ],
)
def test_nobody_is_asked_for_what_an_exclusion_forbids(reason: Exclusion, rung: Rung, given: str) -> None:
    said = {
        "class": "best-effort",
        "guest_actions": "allow",
        "balloon": "allow",
        "swap_out": "allow",
        "min_mb": "256",
    }
    one = builders.domain_observation(guest_kernel=PATCHED)
    policies = {one.uuid: effective({Origin.OPERATOR: said})}
    idle = frozenset({one.process.instance})
    excluded = {one.uuid: (Excluded(reason, "so it is"),)}
    rungs = frozenset({Rung.ADMISSION, rung})
    settings = LadderSettings()
    asked = relieve(rungs, [one], policies, idle, 1 * GIB, settings)
    spared = relieve(rungs, [one], policies, idle, 1 * GIB, settings, excluded=excluded)
    assert one.uuid in getattr(asked, given)
    assert one.uuid not in getattr(spared, given)


def recycling(name: str, *, negotiated: bool = True, **changes: object) -> DomainObservation:
    counters = builders.balloon_reporting(recycler=builders.recycler_counters(negotiated=negotiated))
    return vm(name, balloon_reporting=counters, **changes)


def test_single_pages_are_taken_of_idle_vms_that_mark_them_and_of_who_wishes_it_always() -> None:
    names = ("idle", "busy", "wished", "opted-out", "guaranteed", "no-driver")
    domains = [recycling(name, negotiated=name != "no-driver") for name in names] + [vm("stock")]
    idle = frozenset(one.process.instance for one in domains if one.uuid not in ("busy", "wished"))
    policies = {
        **{one.uuid: policy() for one in domains},
        "wished": policy(recycler="on"),
        "opted-out": policy(recycler="off"),
        "guaranteed": policy(class_="guaranteed", recycler="on"),
    }
    pressed = ask({Rung.RECYCLER}, domains, policies, idle)
    assert pressed.recycler == dict.fromkeys(("idle", "wished"), SETTINGS.recycler_bytes)
    assert Rung.RECYCLER not in fruitless(pressed, SETTINGS)
    assert ask(set(), domains, policies, idle).recycler == {"wished": SETTINGS.recycler_bytes}
    always = replace(SETTINGS, always=frozenset({Rung.RECYCLER}))
    assert set(calm(domains, policies, idle, always).recycler) == {"idle", "wished"}
    actions = [one for one in relief_actions(pressed) if one.lever is LeverName.RECYCLER]
    assert [one.desired for one in actions] == ["256 MiB a second"] * 2


def test_a_guest_whose_pages_are_recycled_reports_no_single_ones_and_what_its_table_leaves_out() -> None:
    finest = replace(SETTINGS, fine_order=0, always=frozenset({Rung.ORDER, Rung.RECYCLER}), split_least=0)
    domains = [recycling("marks"), recycling("opted-out"), recycling("no-driver", negotiated=False), vm("stock")]
    policies = {one.uuid: policy(guest_actions="allow") for one in domains}
    policies["opted-out"] = policy(guest_actions="allow", recycler="off")
    idle = frozenset(one.process.instance for one in domains)

    def orders(settings: LadderSettings, idle=idle, kept=None) -> dict[str, int | None]:
        asked = relieve(frozenset(), domains, policies, idle, 0, settings, kept=kept or {})
        return {uuid: one.order for uuid, one in asked.tuning.items()}

    alone = {"opted-out": 0, "no-driver": 0, "stock": 0}
    assert orders(finest) == {"marks": BESIDE_SINGLES, **alone}
    # where the order alone is asked for nobody recycles, and coarser than this it is as the operator has it
    assert orders(replace(finest, always=frozenset({Rung.ORDER}))) == {"marks": 0, **alone}
    assert orders(replace(finest, fine_order=7)) == dict.fromkeys(policies, 7)
    # one that is busy for a moment is not recycled, and is not called for another order in the middle of its burst
    kept = {"marks": Tuning(order=BESIDE_SINGLES), "stock": Tuning(order=0)}
    assert orders(finest, idle=frozenset(), kept=kept) == {"marks": BESIDE_SINGLES, "stock": 0}
