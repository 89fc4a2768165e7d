from __future__ import annotations

import json
from dataclasses import replace

import pytest

from memhint.objects.exclusion import Excluded, Exclusion, Mechanism
from memhint.objects.plan import Bound, DemandReason
from memhint.objects.policy import Origin
from memhint.objects.units import GIB
from tests.unit import builders
from tests.unit.cli.conftest import Bench


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("subject", [[], ["host"], ["host-a"]])
def test_the_host_is_a_sum_whose_end_is_the_headroom(bench: Bench, subject: list[str]) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("explain", *subject)
    assert (result.code, result.err) == (0, "")
    shown = lines(result.out)
    assert shown[0].startswith("Headroom of host-a: 16384 MiB, bounded by back: ")
    assert "| pool | 65536 | 65536 | memory for VMs and all else, without huge page pools |" in shown
    assert "| assigned | -51200 | 16384 | what all VMs were given, with QEMU's overhead |" in shown
    assert "| back | 16384 | bounds | what could be backed if every VM claimed all of its memory |" in shown
    assert "| model | 24576 | | what the forecast of all VMs leaves |" in shown
    assert "| db-1 | 4224 | 2058 | 4096 | 128 | new: seen for 5 s |" in shown


def test_the_host_for_machines_is_in_bytes(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    found = json.loads(bench.run("explain", "--json").out)
    assert (found["subject"], found["headroom"], found["bound"]) == ("host", 16 * GIB, "back")
    assert found["steps"][-1]["left"] == 16 * GIB
    assert found["rules"] == {"model": 24 * GIB, "now": 22 * GIB, "back": 16 * GIB}
    # 4 + 4 + 2 GiB were given, of 60 GiB
    assert found["ratio"] == 0.43
    assert [one["name"] for one in found["domains"]] == ["web-1", "db-1", "old"]


def test_what_is_held_back_is_a_step_of_its_own(bench: Bench) -> None:
    plan = builders.plan(capacity=builders.capacity(headroom=0, bound=Bound.PRESSURE))
    bench.store.reports.save(builders.report(plan=plan))
    result = bench.run("explain")
    assert "| pressure | -16384 | 0 | nothing is promised under pressure |" in lines(result.out)


def test_a_vm_shows_its_demand_its_policy_and_what_may_be_had_from_it(bench: Bench) -> None:
    excluded = (Excluded(Exclusion.NO_BALLOON, "it has no balloon device"),)
    demand = builders.demand(
        demand=4 * GIB + 128 * 2**20, reason=DemandReason.EXCLUDED, detail="it has no balloon device", excluded=excluded
    )
    seen = builders.domain_report(policy=builders.policy({Origin.AGGREGATE: {"min_mb": "512"}}))
    report = builders.report(domains=(seen,), plan=builders.plan(demands=(demand,)))
    bench.store.reports.save(report)
    result = bench.run("explain", "web-1")
    shown = lines(result.out)
    assert result.code == 0
    assert shown[0] == "Demand of web-1: 4224 MiB of 4224 assigned, excluded: it has no balloon device"
    assert "| min_mb | 512 MiB (aggregate) |" in shown
    assert "| return | no: it has no balloon device |" in shown
    assert "| swap | yes |" in shown
    found = json.loads(bench.run("explain", builders.WEB, "--json").out)
    assert set(found["ways"]) == set(Mechanism)
    assert found["ways"]["balloon"]["reason"] == "no_balloon"
    assert found["steps"][-1]["left"] == found["demand"]["demand"]
    assert found["cost"]["counted"] == found["demand"]["assigned"]  # bounded by back


def test_a_vm_that_has_the_hosts_name_comes_first(bench: Bench) -> None:
    one = builders.domain_report()
    named = replace(one, observation=replace(one.observation, name="host-a"))
    bench.store.reports.save(builders.report(domains=(named,)))
    assert json.loads(bench.run("explain", "host-a", "--json").out)["subject"] == "domain"


def test_who_is_not_there_is_told(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("explain", "web-2")
    assert result.code == 3
    assert "web-1" in result.err


def test_what_a_slower_tier_would_give_is_said_where_it_is_known_what_vms_use(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    shown = lines(bench.run("explain").out)
    (load,) = (line for line in shown if line.startswith("Active within a minute"))
    # 2 GiB of web-1 are resident, of which 1 GiB rests, give or take 40 MiB
    assert load.startswith("Active within a minute: 2128 MiB of 4116 that 2 VMs have (2 of them read")
    assert shown[-2].startswith("| 61440 | ")
    found = json.loads(bench.run("explain", "--tier", "16GiB", "--json").out)["tier"]
    (gain,) = found["gains"]
    assert gain["tier"] == 16 * GIB
    assert gain["vms"] >= gain["without"]
    assert gain["bound"] == "active"
    bench.store.reports.save(builders.report(domains=(), sequence=8))
    result = bench.run("explain", "--tier", "16GiB")
    assert "not known" in result.out
    assert json.loads(bench.run("explain", "--json").out)["tier"] is None


def test_a_tier_is_told_of_a_host_and_not_of_a_vm(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("explain", "web-1", "--tier", "16GiB")
    assert (result.code, result.out) == (2, "")
    assert "--tier" in result.err


@pytest.mark.parametrize("tier", ["0", "-1", "nan", "inf", "much", "9" * 400])
def test_a_tier_that_is_no_size_is_refused(bench: Bench, tier: str) -> None:
    result = bench.run("explain", "--tier", tier)
    assert result.code == 2
    assert "--tier" in result.err
