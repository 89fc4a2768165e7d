"""Which hosts get a VM, and why the others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memhint_nova.claims import Said
from memhint_nova.client import News
from memhint_nova.counts import Counts
from memhint_nova.host import host
from memhint_nova.judge import Judge, Rules
from memhint_nova.reason import Reason
from memhint_nova.refresher import Refresher
from memhint_nova.snapshot import Snapshot
from memhint_nova.wish import Wish, wish

from tests.told import GIB, MIB, Aggregate, Compute, provider, told

NOW = 500.0
NO_LIMITS = {"guaranteed": 0.0, "burstable": 0.0, "best-effort": 0.0}
RULES = Rules(overhead=128, reserved=512, psi_limit=10.0, pass_unknown=False)


def judge(*hosts, rules=RULES, now=NOW) -> Judge:
    read = [host(one, wall=1000.0, monotonic=NOW) for one in hosts]
    return Judge(Snapshot().with_news(read, (), "t", NOW, whole=True), rules, now)


def vm(memory_mb: int, **specs: str) -> Wish:
    return wish(memory_mb, {f"memhint:{name}": value for name, value in specs.items()}, NO_LIMITS)


def test_what_fits_the_headroom_with_qemus_overhead_passes_and_a_mib_more_does_not() -> None:
    asked = judge(told())
    assert asked.veto(Compute(), vm(10240 - 128)) is None
    assert asked.veto(Compute(), vm(10240 - 127)) is Reason.HEADROOM


def test_measured_headroom_lets_in_what_nominal_accounting_would_not() -> None:
    assert judge(told()).veto(Compute(free_ram_mb=-4000 + 512, total_usable_ram_mb=608), vm(8192)) is None


def test_a_vm_placed_by_nova_and_not_seen_yet_takes_of_the_headroom() -> None:
    asked, compute = judge(told()), Compute()
    compute.place(4096)
    # 10240 − 4096 − 128 for the unseen one, − 128 for the new one
    assert asked.veto(compute, vm(5888)) is None
    assert asked.veto(compute, vm(5889)) is Reason.HEADROOM


def test_many_vms_of_one_request_never_get_more_than_the_headroom() -> None:
    asked, compute, placed = judge(told()), Compute(), 0
    while asked.veto(compute, vm(1024)) is None:
        compute.place(1024)
        placed += 1
    assert placed == 10240 // (1024 + 128)


def test_a_vm_that_the_report_has_is_charged_no_second_time() -> None:
    compute = Compute()
    compute.place(4096)
    seen = told(domains=3, assigned=2 * (2 * GIB + 128 * MIB) + 4 * GIB + 128 * MIB, headroom=6 * GIB)
    assert judge(seen).veto(compute, vm(6144 - 128)) is None


def test_vms_that_nova_does_not_know_raise_nothing() -> None:
    strangers = told(domains=9, assigned=12 * GIB)
    assert judge(strangers).veto(Compute(), vm(10240 - 127)) is Reason.HEADROOM


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"admitting": False, "detail": "memory pressure 12.0 % (enters at 10 %)"}, Reason.PRESSURE),
        ({"admitting": False, "detail": "swap-in 9.0 MiB/s (enters at 4)"}, Reason.SWAP_IN),
        ({"psi": 10.0}, Reason.PSI),
        ({"psi": 9.9}, None),
        ({"psi": None}, None),
    ],
)
def test_pressure_keeps_vms_out(change, reason) -> None:
    assert judge(told(**change)).veto(Compute(), vm(64)) is reason


def test_no_psi_limit_leaves_pressure_to_the_agent() -> None:
    assert judge(told(psi=99.0), rules=Rules(128, 512, None, False)).veto(Compute(), vm(64)) is None


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        ([told(state="stale")], Reason.STALE),
        ([told(state="silent")], Reason.STALE),
        ([told(at=969.0)], Reason.STALE),
        ([told(2)], Reason.UNKNOWN),
        ([told(2, name="host-1")], Reason.MISMATCH),
        ([told(provider=None)], Reason.MISMATCH),
        ([told(), told(name="host-1.example.org")], Reason.MISMATCH),
        ([told(name="liar")], Reason.UNKNOWN),
    ],
)
def test_without_usable_data_nominal_accounting_decides(hosts, reason) -> None:
    asked = judge(*hosts)
    assert asked.veto(Compute(free_ram_mb=2048), vm(2048)) is None
    assert asked.veto(Compute(free_ram_mb=2047), vm(2048)) is reason


FULL = Compute(free_ram_mb=-2048, num_instances=5)


@pytest.mark.parametrize("compute", [Compute(), FULL])
@pytest.mark.parametrize("own", [[], [told()], [told(headroom=0)], [told(state="silent")], [told(admitting=False)]])
@pytest.mark.parametrize(
    "claim",
    [
        told(name="liar"),
        told(name="liar", headroom=60 * GIB),
        told(name="liar", admitting=False),
        told(name="liar", state="silent"),
        told(name="host-1.liar.example.org", headroom=60 * GIB),
    ],
)
@pytest.mark.parametrize("pass_unknown", [False, True])
def test_the_claim_of_a_host_of_another_name_changes_nothing(compute, own, claim, pass_unknown) -> None:
    compute = replace(compute, host="host-1", nodename="host-1.example.org")
    rules = replace(RULES, pass_unknown=pass_unknown)
    without = judge(*own, told(9), rules=rules)
    claimed = [judge(*order, told(9), rules=rules) for order in ([*own, claim], [claim, *own])]
    for memory in (64, 1024, 20000):
        assert {one.veto(compute, vm(memory)) for one in claimed} == {without.veto(compute, vm(memory))}
    assert {one.weighed(compute) for one in claimed} == {without.weighed(compute)}


def roomy(**changes):
    return told(**{"headroom": 60 * GIB, **changes})


@pytest.mark.parametrize("name", ["host-1", "HOST-1", "host-1.example.org", "node-1", "node-1.example.org."])
def test_a_host_is_the_compute_by_either_name_with_or_without_domain(name) -> None:
    compute = replace(FULL, host="host-1", nodename="node-1.example.org")
    assert judge(roomy(name=name)).veto(compute, vm(1024)) is None


def test_a_host_that_was_renamed_is_known_by_its_new_name_while_the_old_one_is_silent() -> None:
    for old in ("old", "host-1.example.org"):
        assert judge(roomy(name=old, state="silent"), roomy()).veto(FULL, vm(1024)) is None


def test_the_operators_word_joins_names_that_differ_and_is_the_last() -> None:
    rules = replace(RULES, said=Said({"rack-7": provider(1).upper()}))
    assert judge(roomy(name="rack-7"), rules=rules).veto(FULL, vm(1024)) is None
    assert judge(roomy(name="rack-7"), told(headroom=0), rules=rules).veto(FULL, vm(1024)) is None
    assert judge(roomy(name="rack-7", provider=provider(2)), rules=rules).veto(FULL, vm(1024)) is Reason.UNKNOWN
    assert judge(roomy(), rules=rules).veto(FULL, vm(1024)) is Reason.MISMATCH
    assert judge(roomy(name="rack-7")).veto(FULL, vm(1024)) is Reason.UNKNOWN


def test_before_the_first_answer_nominal_accounting_decides() -> None:
    asked = Judge(Snapshot(), RULES, NOW)
    assert asked.veto(Compute(free_ram_mb=2048), vm(2048)) is None
    assert asked.veto(Compute(free_ram_mb=2047), vm(2048)) is Reason.NO_DATA


def test_a_report_is_of_use_for_three_periods_from_when_it_was_made() -> None:
    full = Compute(free_ram_mb=0, total_usable_ram_mb=4096 + 512)
    assert judge(told(at=990.0), now=NOW + 20.0).veto(full, vm(64)) is None
    assert judge(told(at=990.0), now=NOW + 20.1).veto(full, vm(64)) is Reason.STALE


def test_a_clock_that_is_ahead_gives_a_report_no_more_than_three_periods() -> None:
    full = Compute(free_ram_mb=0)
    assert judge(told(at=5000.0), now=NOW + 30.1).veto(full, vm(64)) is Reason.STALE


def test_unknown_hosts_can_be_left_to_the_other_filters_but_known_ones_cannot() -> None:
    rules = Rules(128, 512, 10.0, pass_unknown=True)
    full = Compute(free_ram_mb=-5000)
    assert judge(told(2), rules=rules).veto(full, vm(2048)) is None
    assert judge(told(state="stale"), rules=rules).veto(full, vm(2048)) is Reason.STALE
    assert Judge(Snapshot(), rules, NOW).veto(full, vm(2048)) is Reason.NO_DATA


OPEN = replace(RULES, pass_unknown=True)


def test_a_host_that_is_left_to_the_other_filters_still_has_to_be_what_the_flavor_and_the_aggregate_say() -> None:
    full = Compute(free_ram_mb=-5000)
    asked = judge(told(2), rules=OPEN)
    assert asked.veto(full, vm(2048, overcommit="deny")) is Reason.OPT_OUT
    assert asked.veto(full, vm(2048, max_ratio="1")) is Reason.MAX_RATIO
    limited = wish(2048, {"memhint:class": "guaranteed"}, {**NO_LIMITS, "guaranteed": 1.0})
    assert asked.veto(full, limited) is Reason.CLASS_LIMIT
    full.aggregates = [Aggregate({"memhint:overcommit": "deny"})]
    assert asked.veto(full, vm(2048)) is Reason.OPT_OUT
    assert asked.explain(full, vm(2048), Reason.OPT_OUT)


CROWDED = Compute(free_ram_mb=-100_000)


class Looks:
    """A server that tells of these hosts."""

    def __init__(self, *hosts, whole=True) -> None:
        self._news = News(hosts, (), "t", whole)

    def look(self, token):
        return self._news


def looked(*looks, rules=OPEN) -> Judge:
    """With what is known after these looks."""
    refresher = Refresher(lambda: None, Counts(), 5.0, clock=lambda: NOW, wall=lambda: 1000.0)
    for one in looks:
        refresher.refresh(one)
    return Judge(refresher._snapshot, rules, NOW)


BAD = [{"psi": 100.5}, {"period": 7200.0}, {"detail": "x" * 5000}, {"provider": "none"}, {"headroom": None}]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["host-1", "HOST-1", "host-1.example.org"])
def test_a_host_that_is_not_understood_is_not_left_to_the_other_filters(bad, name) -> None:
    asked = looked(Looks(told(name=name, **bad), told(2)))
    assert asked.veto(CROWDED, vm(2048)) is Reason.MISMATCH
    assert asked.veto(Compute(), vm(2048)) is None
    assert asked.veto(replace(CROWDED, host="host-3", nodename="host-3", uuid=provider(3)), vm(2048)) is None


def test_a_host_is_understood_or_not_as_it_was_last_told_of() -> None:
    bad, good, other = Looks(told(psi=200.0), told(2)), Looks(told(), whole=False), Looks(told(2))
    assert looked(bad, good).veto(CROWDED, vm(2048)) is Reason.HEADROOM
    assert looked(bad, Looks(told(2), whole=False)).veto(CROWDED, vm(2048)) is Reason.MISMATCH
    assert looked(other, Looks(told(psi=200.0), whole=False)).veto(CROWDED, vm(2048)) is Reason.MISMATCH
    assert looked(bad, other).veto(CROWDED, vm(2048)) is None  # it is no more


def test_a_host_that_the_operator_names_is_not_left_to_the_other_filters_either() -> None:
    rules = replace(OPEN, said=Said({"rack-7": provider(1)}))
    for rack in (told(name="rack-7", psi=200.0), told(name="rack-7", provider=None)):
        assert looked(Looks(rack, told(2)), rules=rules).veto(CROWDED, vm(2048)) is Reason.MISMATCH
        assert looked(Looks(rack, told(2))).veto(CROWDED, vm(2048)) is None


@pytest.mark.parametrize("looks", [[Looks()], [Looks(told(2)), Looks()]])
def test_a_list_of_no_hosts_leaves_nobody_to_the_other_filters(looks) -> None:
    assert looked(*looks).veto(CROWDED, vm(2048)) is Reason.NO_DATA
    assert looked(*looks).veto(Compute(), vm(2048)) is None


@pytest.mark.parametrize("name", ["host-1", "HOST-1.", "host-1.example.org"])
def test_a_host_without_uuid_is_known_with_or_without_domain(name) -> None:
    full = replace(CROWDED, host="host-1.example.org", nodename="host-1.example.org")
    assert looked(Looks(told(name=name, provider=None), told(2))).veto(full, vm(2048)) is Reason.MISMATCH
    stranger = Looks(told(name="host-1.other.example.org", provider=None))
    assert looked(stranger).veto(full, vm(2048)) is None


@pytest.mark.parametrize("hosts", [[], [told(2)], [told(provider=None)], [told(psi=200.0)]])
def test_bare_metal_is_left_alone(hosts) -> None:
    asked = looked(Looks(*hosts), rules=RULES)
    assert asked.veto(Compute(free_ram_mb=0, hypervisor_type="ironic"), vm(2048)) is None


def test_overcommit_deny_needs_nominal_room_beside_headroom() -> None:
    asked = judge(told())
    assert asked.veto(Compute(), vm(8192, overcommit="deny")) is None
    tight = Compute(free_ram_mb=1000, total_usable_ram_mb=1000 + 4096 + 512)
    assert asked.veto(tight, vm(2048)) is None
    assert asked.veto(tight, vm(2048, overcommit="deny")) is Reason.OPT_OUT
    assert asked.veto(tight, vm(2048, overcommit="dney")) is Reason.OPT_OUT  # misspelt is no consent
    assert judge(told(headroom=GIB)).veto(Compute(), vm(8192, overcommit="deny")) is Reason.HEADROOM


def test_an_aggregate_can_opt_its_hosts_out() -> None:
    tight = Compute(free_ram_mb=1000, total_usable_ram_mb=1000 + 4096 + 512)
    tight.aggregates = [Aggregate({"memhint:overcommit": "allow"}), Aggregate({"memhint:overcommit": "deny"})]
    assert judge(told()).veto(tight, vm(2048)) is Reason.OPT_OUT
    assert judge(told()).veto(tight, vm(1000)) is None


@pytest.mark.parametrize(
    ("said", "out"), [("deny", True), ("deny ", True), ("Deny", True), ("yes", True), ("allow", False), (None, False)]
)
def test_an_aggregates_misspelt_word_is_no_consent(said: str | None, out: bool) -> None:
    tight = Compute(free_ram_mb=1000, total_usable_ram_mb=1000 + 4096 + 512)
    tight.aggregates = [Aggregate({} if said is None else {"memhint:overcommit": said})]
    assert judge(told()).veto(tight, vm(2048)) is (Reason.OPT_OUT if out else None)


@pytest.mark.parametrize(
    "specs",
    [
        {"hw:locked_memory": "True"},
        {"hw:mem_encryption": "1"},
        {"hw:pmem": "6GB"},
        {"resources:VGPU": "1"},
        {"resources1:VGPU": "1"},
        {"resources_GPU-2:VGPU": "1"},
    ],
)
def test_a_vm_whose_memory_never_comes_back_needs_nominal_room(specs) -> None:
    tight = Compute(free_ram_mb=1000, total_usable_ram_mb=1000 + 4096 + 512)
    assert judge(told()).veto(tight, wish(2048, specs, NO_LIMITS)) is Reason.EXCLUDED_FLAVOR
    assert judge(told()).veto(tight, wish(2048, {"hw:locked_memory": "false"}, NO_LIMITS)) is None
    assert judge(told()).veto(tight, wish(2048, {}, NO_LIMITS, "it has a device")) is Reason.EXCLUDED_FLAVOR
    for other in ("resources1:VCPU", "resources:VGPU_DISPLAY_HEAD", "trait:VGPU", "trait:resources:VGPU"):
        assert judge(told()).veto(tight, wish(2048, {other: "1"}, NO_LIMITS)) is None


def test_a_class_can_be_kept_below_a_ratio() -> None:
    limits = {"guaranteed": 1.0, "burstable": 0.0, "best-effort": 1.25}
    tight = Compute(free_ram_mb=0)
    for qos, memory, reason in (
        ("guaranteed", 1, Reason.CLASS_LIMIT),
        ("gold", 1, Reason.CLASS_LIMIT),  # misspelt: the strictest
        ("burstable", 4096, None),
        ("best-effort", 4096, None),
        ("best-effort", 4097, Reason.CLASS_LIMIT),
    ):
        asked = wish(memory, {"memhint:class": qos}, limits)
        seen = told(assigned=15 * GIB + 512 * MIB, domains=0)
        assert judge(seen).veto(Compute(free_ram_mb=0, num_instances=0), asked) is reason
    assert judge(told()).veto(tight, wish(1, {}, {**limits, "burstable": 0.9})) is Reason.CLASS_LIMIT


def test_a_flavor_can_ask_for_hosts_below_a_ratio_stale_or_not() -> None:
    seen = told(assigned=15 * GIB + 512 * MIB, domains=0)
    full = Compute(free_ram_mb=0, num_instances=0)
    assert judge(seen).veto(full, vm(4096, max_ratio="1.25")) is None
    assert judge(seen).veto(full, vm(4097, max_ratio="1.25")) is Reason.MAX_RATIO
    assert judge(seen).veto(full, vm(1, max_ratio="much")) is Reason.MAX_RATIO
    assert judge(told(2)).veto(Compute(), vm(8192, max_ratio="0.5")) is Reason.MAX_RATIO


def test_a_weight_is_what_is_left_measured_or_nominal() -> None:
    compute = Compute()
    assert judge(told()).weighed(compute) == 10240
    compute.place(1024)
    assert judge(told()).weighed(compute) == 10240 - 1024 - 128
    assert judge(told(state="stale")).weighed(compute) == compute.free_ram_mb
    compute.aggregates = [Aggregate({"memhint:overcommit": "deny"})]
    assert judge(told()).weighed(compute) == compute.free_ram_mb


def test_every_veto_is_explained_with_its_figures() -> None:
    tight = Compute(free_ram_mb=-9000, total_usable_ram_mb=100)
    cases = [
        (judge(told(headroom=0)), vm(64), Reason.HEADROOM, "headroom 0 MiB"),
        (judge(told(admitting=False, detail="swap-in 9")), vm(64), Reason.SWAP_IN, "swap-in 9"),
        (judge(told(psi=50.0)), vm(64), Reason.PSI, "50.0 %"),
        (judge(told(2)), vm(64), Reason.UNKNOWN, "nominal room -9000 MiB for 64"),
        (judge(told()), vm(64, overcommit="deny"), Reason.OPT_OUT, "opts out"),
        (judge(told()), vm(64, max_ratio="1"), Reason.MAX_RATIO, "at most 1"),
    ]
    for asked, wished, reason, words in cases:
        assert asked.veto(tight, wished) is reason
        assert words in asked.explain(tight, wished, reason)


def test_what_flavor_and_class_refuse_is_explained_by_them_where_nothing_is_known_of_the_host_too() -> None:
    full = Compute(free_ram_mb=-9000)
    limited = wish(8192, {"memhint:class": "guaranteed"}, {**NO_LIMITS, "guaranteed": 0.5})
    ratio = "ratio 0.781 with the VM, at most 0.5"
    cases = [
        (judge(told(2)), Compute(), vm(8192, max_ratio="0.5"), Reason.MAX_RATIO, ratio),
        (judge(told(state="silent")), Compute(), limited, Reason.CLASS_LIMIT, ratio),
        (judge(told(2), rules=OPEN), full, vm(64, overcommit="deny"), Reason.OPT_OUT, "the flavor opts out"),
        (
            judge(told(2), rules=OPEN),
            full,
            wish(64, {"hw:locked_memory": "true"}, NO_LIMITS),
            Reason.EXCLUDED_FLAVOR,
            "hw:locked_memory",
        ),
    ]
    for asked, compute, wished, reason, words in cases:
        assert asked.veto(compute, wished) is reason
        assert words in asked.explain(compute, wished, reason)


@given(
    headroom=st.integers(0, 64 * GIB),
    assigned=st.integers(0, 64 * GIB),
    domains=st.integers(0, 100),
    free=st.integers(-65536, 65536),
    instances=st.integers(0, 100),
    need=st.integers(1, 65536),
)
def test_nobody_gets_in_beyond_the_headroom_whatever_nova_counts(
    headroom, assigned, domains, free, instances, need
) -> None:
    compute = Compute(free_ram_mb=free, total_usable_ram_mb=65536, num_instances=instances)
    asked = judge(told(headroom=headroom, assigned=assigned, domains=domains))
    if asked.veto(compute, vm(need)) is None:
        assert need + 128 <= headroom / MIB
        before = asked.left(compute, asked.snapshot.hosts["host-1"])
        compute.place(need)
        # what is placed is charged, unless VMs that Nova does not know hide it
        assert asked.left(compute, asked.snapshot.hosts["host-1"]) <= before
