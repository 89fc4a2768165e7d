"""`memhint dedup estimate`: what the agent found, for people and for machines, and nothing that it did not find."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from memhint.objects.report import Report
from memhint.objects.units import GIB, MIB
from memhint.store.codec import dump, parse
from tests.unit import builders
from tests.unit.cli.conftest import Bench


def report(**changes: object) -> Report:
    return builders.report(**{"dedup": builders.dedup_estimate(), **changes})


def group(**changes: object):
    (found,) = builders.dedup_estimate().groups
    return replace(found, **changes)


def test_people_get_each_vm_and_each_project_with_advice(bench: Bench) -> None:
    bench.store.reports.save(report())
    done = bench.run("dedup", "estimate")
    assert done.code == 0
    web = next(line for line in done.out.splitlines() if "web-1" in line)
    assert [cell.strip() for cell in web.strip("|").split("|")] == ["web-1", "2048", "100", "20", "300", "50", "64 s"]
    assert "merge: 696 MiB are sure" in done.out
    assert "Not looked at yet: old" in done.out
    assert "0.50 % of a core" in done.out


def test_one_vm_shows_its_project_whole(bench: Bench) -> None:
    bench.store.reports.save(report())
    done = bench.run("dedup", "estimate", "web-1")
    assert "db-1" not in done.out
    assert "merge: 696 MiB are sure" in done.out


def test_it_says_by_which_way_it_was_made(bench: Bench) -> None:
    bench.store.reports.save(report())
    done = bench.run("dedup", "estimate")
    assert "by the finder, from every page, with 2 workers: 800 MiB of candidates, 2.5 % of them without" in done.out
    found = json.loads(bench.run("dedup", "estimate", "--json").out)
    assert (found["made_by"], found["finder"]["candidates"]) == ("finder", 800 * MIB)
    finder = builders.dedup_estimate().finder
    assert finder is not None
    slow = replace(builders.dedup_estimate(), finder=replace(finder, compiled=False))
    bench.store.reports.save(report(dedup=slow))
    assert "2 workers, slowly: the package was built without a compiler" in bench.run("dedup", "estimate").out
    bench.store.reports.save(report(dedup=replace(slow, finder=None)))
    assert "Estimated from samples" in bench.run("dedup", "estimate").out
    found = json.loads(bench.run("dedup", "estimate", "--json").out)
    assert (found["made_by"], found["finder"]) == ("samples", None)


def test_an_unknown_vm_is_named(bench: Bench) -> None:
    bench.store.reports.save(report())
    assert bench.run("dedup", "estimate", "nobody").code == 3


def test_machines_get_bytes_and_whether_it_is_worth_it(bench: Bench) -> None:
    bench.store.reports.save(report())
    found = json.loads(bench.run("dedup", "estimate", "--json").out)
    (project,) = found["projects"]
    assert (project["project"], project["saving"], project["profit"]) == ("p1", 780 * MIB, 716 * MIB)
    assert project["recommended"] is True
    assert found["domains"][0]["across"] == 300 * MIB
    assert found["waiting"] == ["old"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"error": 600 * MIB}, "leave: 116 MiB (3 %) are sure, 10 % and 256 MiB are wanted"),
        ({"saving": 10 * MIB}, "leave: KSM would take more memory than it saves"),
    ],
)
def test_the_advice_is_what_auto_would_do(bench: Bench, changes: dict[str, int], words: str) -> None:
    bench.store.reports.save(report(dedup=replace(builders.dedup_estimate(), groups=(group(**changes),))))
    assert words in bench.run("dedup", "estimate").out
    assert json.loads(bench.run("dedup", "estimate", "--json").out)["projects"][0]["recommended"] is False


def test_a_vm_of_nobody_stands_for_itself(bench: Bench) -> None:
    alone = group(project=None, members=(builders.WEB,))
    bench.store.reports.save(report(dedup=replace(builders.dedup_estimate(), groups=(alone,))))
    assert "- (web-1)" in bench.run("dedup", "estimate").out


def test_where_nothing_is_estimated_it_says_what_to_set(bench: Bench) -> None:
    bench.store.reports.save(report(dedup=None))
    done = bench.run("dedup", "estimate")
    assert done.code == 5
    assert "estimate_cpu_percent" in done.err


def test_without_an_agent_there_is_no_report(bench: Bench) -> None:
    assert bench.run("dedup", "estimate").code == 4


def test_a_report_with_an_estimate_survives_the_store() -> None:
    assert parse(dump(report())) == report()
    assert parse(dump(report())).dedup.asking_of("p1").looked == 4 * GIB
