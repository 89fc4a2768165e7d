from __future__ import annotations

import json
from dataclasses import replace

from memhint.objects.discarded import Agreement
from memhint.objects.gap import Gap, GapReason
from memhint.objects.merging import Merging
from memhint.objects.units import GIB, MIB
from tests.unit import builders
from tests.unit.cli.conftest import Bench

TABLE = """\
+-------+---------+----------+----------+------+------------+----------+-----------+-------------+
| Name  | State   | Assigned | Resident | Free | Unreported | Returned | Reporting | Dedup       |
+-------+---------+----------+----------+------+------------+----------+-----------+-------------+
| db-1  | running |     4096 |     1900 |    - |          - |     1024 | on        | unsupported |
| old   | shutoff |     2048 |        - |    - |          - |        - | unknown   | -           |
| web-1 | running |     4096 |     1900 | 2500 |          - |     1024 | on        | off         |
+-------+---------+----------+----------+------+------------+----------+-----------+-------------+
Memory in MiB.
db-1: reporting off: refused (consent): the guest may not be changed; memhint set db-1 guest_actions=allow
"""

DETAILS = """\
+--------------------------+-------------------------------------------------+
| Field                    | Value                                           |
+--------------------------+-------------------------------------------------+
| Name                     | web-1                                           |
| UUID                     | 6f1d3c2a-0000-4000-8000-000000000001            |
| State                    | running                                         |
| Assigned                 | 4096 MiB                                        |
| Resident                 | 1900 MiB                                        |
| Footprint                | 2058 MiB                                        |
| Demand                   | 2200 MiB (forecast: decaying peak)              |
| Free                     | 2500 MiB                                        |
| Reported                 | -                                               |
| Unreported               | -                                               |
| Said by                  | proc, 8 s ago                                   |
| Guest kernel             | 6.12.1                                          |
| Returned                 | 1024 MiB                                        |
| Huge pages               | 50 % of what is resident, 75 % as KVM maps it (34 s ago) |
| Remote memory            | 0 %                                             |
| On fast nodes            | 100 %                                           |
| Active                   | 548 MiB ± 40 MiB (damon, 0.20 % of a core)      |
| Idle for 10 s            | 1500 MiB (9 s ago)                              |
| Idle for 60 s            | 1024 MiB (9 s ago)                              |
| Idle for 600 s           | 512 MiB (9 s ago)                               |
| Merged                   | 60 MiB, 300 pages of it broken up in a minute, a page stays merged for 3072 s |
| Reclaimable by reporting | at most 300 MiB (proc, 8 s ago)                 |
| Lever reporting          | on, wish auto: unchanged                        |
| Lever dedup              | off, wish off: unchanged                        |
| Policy reporting         | auto (default)                                  |
| Policy dedup             | off (default)                                   |
| Policy guest_actions     | deny (default)                                  |
| Policy guest_unbind      | deny (default)                                  |
| Policy project           | - (default)                                     |
| Policy class             | burstable (default)                             |
| Policy min_mb            | 0 MiB (default)                                 |
| Policy overcommit        | allow (default)                                 |
| Policy group             | - (default)                                     |
| Policy balloon           | deny (default)                                  |
| Policy swap_out          | deny (default)                                  |
| Policy recycler          | auto (default)                                  |
| Policy thp               | auto (default)                                  |
| Policy tiering           | deny (default)                                  |
| Policy fast_min          | 0% (default)                                    |
| Policy fast_max          | 100% (default)                                  |
| Policy reporting_order   | auto (default)                                  |
| Policy reporting_delay_ms | auto (default)                                 |
| Gaps                     | none                                            |
+--------------------------+-------------------------------------------------+
"""


def test_the_list_is_for_people(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("domains")
    assert (result.code, result.err) == (0, "")
    assert result.out == TABLE


def test_the_list_fits_into_120_columns(bench: Bench) -> None:
    seen = builders.domain_observation(
        uuid=builders.DB,
        name="instance-0000001a",
        facts=builders.facts(memory=512 * GIB),
        guest=builders.guest_memory(free=512 * GIB, unreported=512 * GIB),
    )
    bench.store.reports.save(
        builders.report(domains=(*builders.report().domains, builders.domain_report(observation=seen)))
    )
    table = [line for line in bench.run("domains").out.splitlines() if line.startswith(("+", "|"))]
    assert max(len(line) for line in table) <= 120


def test_one_domain_is_shown_whole(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    by_name, by_uuid = bench.run("domains", "web-1"), bench.run("domains", builders.WEB.upper())
    assert by_name.code == 0
    assert _squeezed(by_name.out) == _squeezed(DETAILS)
    assert by_uuid.out == by_name.out


def test_a_vm_that_may_have_no_huge_pages_is_said_to(bench: Bench) -> None:
    small = replace(builders.domain_observation(), process=builders.process(small_pages=True))
    bench.store.reports.save(builders.report(domains=(builders.domain_report(observation=small),)))
    assert (
        "50 % of what is resident, 75 % as KVM maps it (34 s ago), and it may have none"
        in bench.run("domains", "web-1").out
    )


def test_what_is_merged_is_shown_with_where_and_how_much_of_it_is_empty(bench: Bench) -> None:
    merging = Merging(merged=60 * MIB, zero=10 * MIB, partition=4711)
    bench.store.reports.save(builders.report(domains=(builders.domain_report(merging=merging),)))
    assert "60 MiB, 10 MiB of it empty pages, in partition 4711 of KSM" in bench.run("domains", "web-1").out


def test_json_has_all_that_is_known(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    found = {one["name"]: one for one in json.loads(bench.run("domains", "--json").out)}
    web, old, db = found["web-1"], found["old"], found["db-1"]
    assert (web["assigned"], web["resident"], web["footprint"]) == (4 * GIB, 1900 * MIB, 2058 * MIB)
    assert web["demand"]["demand"] == 2200 * MIB
    assert web["guest"]["source"] == "proc"
    assert web["guest_age"] == 8.0
    assert web["reclaimable"][0]["at_most"] == 300 * MIB
    assert web["deep"]["by_node"] == {"0": 1900 * MIB}
    assert web["facts"]["reporting_offered"] is True
    assert db["policy"]["reporting"] == {"value": "off", "origin": "operator"}
    assert db["levers"][0]["verdict"]["reason"] == "consent"
    assert old["gaps"] == [{"what": "process", "reason": "gone", "detail": "is not running"}]
    assert (old["resident"], old["guest"], old["returned"]) == (None, None, None)


def test_json_of_one_domain_is_a_list_of_one(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    assert [one["name"] for one in json.loads(bench.run("domains", "web-1", "--json").out)] == ["web-1"]


def test_long_adds_wishes_and_verdicts(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    line = next(line for line in bench.run("domains", "--long").out.splitlines() if "db-1" in line)
    assert "refused (consent)" in line


def test_long_counts_and_lists_what_could_not_be_seen_of_each_vm(bench: Bench) -> None:
    """All that the alert counts, and nothing of what a VM does not have."""
    more = (Gap("guest", GapReason.UNSUPPORTED), Gap("balloon_actual", GapReason.TIMEOUT, "5 s"))
    domains = (
        builders.domain_report(observation=builders.domain_observation(gaps=more)),
        builders.domain_report(observation=builders.domain_observation(uuid="u2", name="web-2", gaps=())),
    )
    bench.store.reports.save(builders.report(domains=domains))
    out = bench.run("domains", "--long").out
    assert [line for line in out.splitlines() if ": gap " in line] == ["web-1: gap balloon_actual: timeout (5 s)"]
    rows = [json.loads(bench.run("domains", "-f", "json").out)[number]["gaps"] for number in (0, 1)]
    assert [len(one) for one in rows] == [2, 0]
    assert bench.run("domains", "-f", "value", "-c", "Name", "-c", "Gaps").out == "web-1 1\nweb-2 0\n"
    assert ": gap " not in bench.run("domains").out


def test_a_guest_that_claims_too_much_is_named_and_one_that_does_not_is_only_shown(bench: Bench) -> None:
    def saved(**changes: object) -> None:
        seen = builders.domain_observation(
            balloon_reporting=builders.balloon_reporting(600 * MIB, inhibited=8 * MIB),
            reporting_check=builders.reporting_check(**changes),
        )
        bench.store.reports.save(builders.report(domains=(builders.domain_report(observation=seen),)))

    saved()
    assert "claimed" not in bench.run("domains").out
    whole = bench.run("domains", "web-1").out
    assert "600 MiB of 608 MiB reported, 8 MiB skipped" in whole
    assert "agrees: no more than the host discarded; 500 MiB claimed, 600 MiB discarded" in whole
    saved(claimed=5000 * MIB, agreement=Agreement.OVERCLAIMS)
    assert (
        "web-1: overclaims: more than the host discarded, so its word is not used; 5000 MiB claimed, 600 MiB discarded,"
        " resident moved by -400 MiB\n" in bench.run("domains").out
    )
    assert "overclaims" in bench.run("domains", "--long").out
    (found,) = json.loads(bench.run("domains", "--json").out)
    assert found["balloon_reporting"]["discarded"] == {"ranges": 6, "bytes": 600 * MIB}
    assert found["reporting_check"]["agreement"] == "overclaims"
    saved(at=None, agreement=Agreement.PENDING)
    assert "pending: not compared yet" in bench.run("domains", "web-1").out


def test_values_for_scripts_are_bytes(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    out = bench.run("domains", "-f", "value", "-c", "Name", "-c", "Assigned", "-c", "Age").out
    assert out.splitlines()[2] == f"web-1 {4 * GIB} 8.0"


def test_a_host_without_vms_has_an_empty_list(bench: Bench) -> None:
    bench.store.reports.save(builders.report(domains=()))
    assert bench.run("domains").code == 0
    assert json.loads(bench.run("domains", "--json").out) == []


def test_text_of_a_guest_cannot_steer_the_terminal(bench: Bench) -> None:
    gap = Gap("guest", GapReason.MALFORMED, "\x1b[2Jgone")
    seen = builders.domain_observation(name="a\x1b]0;b", gaps=(gap,))
    bench.store.reports.save(builders.report(domains=(builders.domain_report(observation=seen),)))
    for words in (["domains"], ["domains", builders.WEB], ["plan"]):
        out = bench.run(*words).out
        assert "\N{REPLACEMENT CHARACTER}" in out
        assert "\x1b" not in out


def test_an_unknown_domain_names_its_neighbours(bench: Bench) -> None:
    bench.store.reports.save(builders.report())
    result = bench.run("domains", "web-2")
    assert (result.code, result.out) == (3, "")
    assert result.err == "no domain 'web-2' on host-a: did you mean web-1?\n"
    assert bench.run("domains", "zzz").err == "no domain 'zzz' on host-a: see: memhint domains\n"


def test_an_ambiguous_name_asks_for_the_uuid(bench: Bench) -> None:
    twin = builders.domain_report(observation=builders.domain_observation(uuid=builders.DB))
    bench.store.reports.save(builders.report(domains=(builders.domain_report(), twin)))
    result = bench.run("domains", "web-1")
    assert result.code == 2
    assert builders.WEB in result.err
    assert builders.DB in result.err


def _squeezed(table: str) -> list[str]:
    return [" ".join(line.split()) for line in table.splitlines() if line.startswith("|")]


def test_a_host_without_vms_says_so_and_gives_programs_an_empty_list(bench: Bench) -> None:
    bench.store.reports.save(replace(builders.report(), domains=()))
    assert bench.run("domains").out.strip() == "There are none."
    assert json.loads(bench.run("domains", "--json", "-c", "name").out) == []
