from __future__ import annotations

import json

import pytest

from memhint.objects.domain import DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.plan import Bound, PressureVerdict
from memhint.objects.report import Report
from memhint.objects.units import GIB, MIB
from tests.unit import builders
from tests.unit.cli.conftest import Bench

TABLE = """\
+----------------------+----------------------------------------------------------------------------------------+
| Field                | Value                                                                                  |
+----------------------+----------------------------------------------------------------------------------------+
| Host                 | host-a                                                                                 |
| Memory               | machine: 40960 of 65536 MiB available                                                  |
| Swap                 | 0 of 8192 MiB used                                                                     |
| Pressure             | 0.5 % some, 0.0 % full, over 10 s (machine)                                            |
| Dedup (KSM)          | running, saves 110 MiB                                                                 |
| Headroom             | 16384 MiB, bounded by back: what could be backed if every VM claimed all of its memory |
| More VMs of 1152 MiB | 14 measured, 8 nominal                                                                 |
| Admitting            | yes                                                                                    |
| Ladder               | no rung entered                                                                        |
| Reclaimable          | at most 600 MiB by reporting                                                           |
| Returned             | 2048 MiB                                                                               |
| VMs                  | 3: 2 running, 1 shutoff                                                                |
| Report               | 4 s old, every 10 s                                                                    |
| Agent                | 0.2 % of a core, 70 MiB                                                                |
| Gaps                 | libvirt: pending (connecting)                                                          |
|                      | and 1 of its VMs: memhint domains --long                                               |
+----------------------+----------------------------------------------------------------------------------------+
"""


def test_the_table_is_for_people(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("status")
    assert (result.code, result.err) == (0, "")
    assert result.out == TABLE


def test_json_is_complete_and_in_bytes(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    found = json.loads(bench.run("status", "--json").out)
    assert found["memory"]["total"] == 64 * GIB
    assert found["slots"] == {"size": 1152 * MIB, "measured": 14, "nominal": 8}
    assert found["capacity"]["bound"] == "back"
    assert found["capacity"]["nominal_headroom"] == 10 * GIB
    assert (found["admitting"], found["detail"]) == (True, "")
    assert found["reclaimable"] == {"reporting": {"at_most": 600 * MIB, "unknown": 0}}
    assert found["domains"] == {"total": 3, "running": 2, "shutoff": 1}
    assert found["age"] == 4.0
    assert found["gaps"] == [{"what": "libvirt", "reason": "pending", "detail": "connecting"}]
    assert found["domains_with_gaps"] == 1
    assert found["cost"]["rss"] == 70 * MIB


def test_json_is_the_same_as_format_json(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    assert bench.run("status", "--json").out == bench.run("status", "-f", "json").out


def test_a_missing_interface_is_unsupported_and_not_zero(bench: Bench) -> None:
    gaps = (Gap("pressure", GapReason.UNSUPPORTED), Gap("ksm", GapReason.UNREADABLE, "no permission"))
    seen = builders.host_observation(pressure=None, ksm=None, gaps=gaps)
    bench.store.reports.save(builders.report(observation=seen))
    out = bench.run("status").out
    assert "| Pressure             | unsupported " in out
    assert "| Dedup (KSM)          | unreadable " in out
    assert "| ksm: unreadable (no permission) " in out.replace("|                      |", "|")
    found = json.loads(bench.run("status", "--json").out)
    assert (found["pressure"], found["ksm"], found["ksm_saving"]) == (None, None, None)


def test_ksm_is_shown_with_what_its_kernel_can(bench: Bench) -> None:
    seen = builders.host_observation(ksm=builders.ksm(partitions=True, empty_only=True))
    bench.store.reports.save(builders.report(observation=seen))
    assert "running for empty pages only, keeps projects apart, saves 110 MiB" in bench.run("status").out


def test_a_host_that_does_not_admit_says_why(bench: Bench) -> None:
    plan = builders.plan(pressure=PressureVerdict(False, "memory pressure 12.0 %"))
    bench.store.reports.save(builders.report(plan=plan))
    assert "| Admitting            | no: memory pressure 12.0 % " in bench.run("status").out
    for command in ("status", "plan", "explain"):
        found = json.loads(bench.run(command, "--json").out)
        assert (found["admitting"], found["detail"]) == (False, "memory pressure 12.0 %")


def test_what_is_unknown_of_running_vms_is_counted_apart(bench: Bench) -> None:
    unknown = builders.idle_domain().reclaimable
    domains = (
        builders.domain_report(),
        builders.domain_report(observation=builders.domain_observation(uuid="u2"), reclaimable=unknown),
        builders.domain_report(observation=builders.domain_observation(uuid="u3"), reclaimable=()),
        builders.domain_report(observation=builders.domain_observation(uuid="u4", state=DomainState.SHUTOFF)),
    )
    bench.store.reports.save(builders.report(domains=domains))
    assert "at most 300 MiB by reporting, unknown for 2 VMs" in bench.run("status").out
    found = json.loads(bench.run("status", "--json").out)["reclaimable"]
    assert found == {"reporting": {"at_most": 300 * MIB, "unknown": 2}}


def test_nothing_known_is_unknown(bench: Bench) -> None:
    domain = builders.domain_report(reclaimable=builders.idle_domain().reclaimable, returned=None)
    bench.store.reports.save(builders.report(domains=(domain,)))
    out = bench.run("status").out
    assert "| Reclaimable          | unknown by reporting " in out
    assert "| Returned             | - " in out
    assert json.loads(bench.run("status", "--json").out)["returned"] is None


def test_columns_can_be_chosen(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    assert bench.run("status", "-f", "value", "-c", "host").out == "host-a\n"


def test_vms_that_libvirt_has_not_named_are_unknown_and_not_none(bench: Bench) -> None:
    bench.store.reports.save(unlisted())
    out = bench.run("status").out
    assert "bounded by stale: not all VMs of this host are known" in out
    assert "0 measured, unknown nominal" in out
    assert "| VMs                  | unknown: libvirt has not said which VMs there are " in out
    found = json.loads(bench.run("status", "--json").out)
    assert found["slots"] == {"size": 1152 * MIB, "measured": 0, "nominal": None}
    assert found["capacity"]["nominal_headroom"] is None
    assert found["domains"] == {"total": None}


@pytest.mark.parametrize("command", [["domains"], ["domains", "web-1"], ["explain", "web-1"], ["dedup", "estimate"]])
def test_a_command_about_vms_does_not_take_them_for_absent(bench: Bench, command: list[str]) -> None:
    bench.store.reports.save(unlisted())
    result = bench.run(*command, "--json")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "libvirt has not said which VMs there are on host-a: bulk statistics: unreadable (is libvirtd running?)\n"
    )


def unlisted() -> Report:
    capacity = builders.capacity(assigned=0, headroom=0, bound=Bound.STALE, blind=True)
    gaps = (Gap("bulk statistics", GapReason.UNREADABLE, "is libvirtd running?"),)
    return builders.report(domains=(), plan=builders.plan(capacity=capacity, demands=()), gaps=gaps)
