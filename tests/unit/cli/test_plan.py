from __future__ import annotations

import json

import pytest
from oslo_config import cfg

from memhint.agent import oneshot
from memhint.objects.plan import Capacity, Evidence
from memhint.objects.report import Report
from memhint.objects.units import GIB
from tests.unit import builders
from tests.unit.cli.conftest import Bench


def test_every_term_of_the_formula_is_shown(bench: Bench) -> None:
    bench.store.reports.save(builders.report(plan=builders.plan(capacity=builders.capacity(storm=31))))
    result = bench.run("plan")
    assert (result.code, result.err) == (0, "")
    shown = {line.split("|")[1].strip() for line in result.out.splitlines() if line.count("|") == 4}
    beside = {"bound", "storm", "max_ratio", "evidence", "together", "blind"}
    assert set(Capacity.__dataclass_fields__) - beside <= shown
    assert result.out.startswith("Headroom: 16384 MiB, bounded by back: ")
    assert "\nStorm: " in result.out
    assert "\nStorm reserve: for 31 % of all VMs\n" in result.out


def test_what_the_host_has_earned_is_a_sentence(bench: Bench) -> None:
    earned = builders.capacity(max_ratio=1.98, evidence=Evidence(702, 324), together=True)
    bench.store.reports.save(builders.report(plan=builders.plan(capacity=earned)))
    sentence = (
        "Earned: 1.98 times its memory: in 702 hours VMs used together no more than 32.4 % of what they were given"
    )
    assert sentence in bench.run("plan").out.splitlines()
    assert sentence in bench.run("explain").out.splitlines()


def test_demands_and_actions_name_the_vm(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    lines = [" ".join(line.split()) for line in bench.run("plan").out.splitlines()]
    assert "| db-1 | 4224 | 2058 | 4096 | new: seen for 5 s |" in lines
    assert "| db-1 | reporting | off | asked for by operator |" in lines


def test_a_plan_without_actions_says_so(bench: Bench) -> None:
    bench.store.reports.save(builders.report(plan=builders.plan(actions=())))
    assert bench.run("plan").out.endswith("No actions.\n")


def test_json_is_the_whole_plan_in_bytes(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    found = json.loads(bench.run("plan", "--json").out)
    assert found["dry_run"] is False
    assert found["capacity"]["model"] == 24 * GIB
    assert found["demands"][0]["name"] == "web-1"
    assert found["demands"][0]["reason"] == "forecast"
    assert found["actions"][0]["subject"] == builders.DB
    assert {one["name"] for one in found["levers"]} == {"host", "web-1", "db-1", "old"}


def test_a_dry_run_shows_the_same_plan_and_the_verdicts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.reports.save(builders.report())
    published = bench.run("plan").out
    bench.store.reports.save(builders.report(plan=builders.plan(actions=())))
    asked: list[str] = []

    def dry_run(conf: cfg.ConfigOpts) -> Report:
        asked.append(conf.host_name)
        return builders.report()

    monkeypatch.setattr(oneshot, "dry_run", dry_run)
    result = bench.run("plan", "--dry-run")
    assert (result.code, asked) == (0, ["host-a"])
    assert result.out.startswith(published)
    assert "refused (consent)" in result.out
    assert result.out.endswith("Dry run: nothing was pulled.\n")


def test_a_dry_run_that_cannot_look_fails_in_one_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def dry_run(conf: cfg.ConfigOpts) -> Report:
        raise RuntimeError("no\nsuch thing")

    monkeypatch.setattr(oneshot, "dry_run", dry_run)
    result = bench.run("plan", "--dry-run")
    assert result.code == 1
    assert result.err.startswith("unexpected RuntimeError: no such thing; run it again with --debug")
    assert result.err.count("\n") == 1
