"""The words of the API that the commands offer are those that its server takes."""

from __future__ import annotations

import re

from memhint.api.microversion import VERSIONS
from memhint.api.schemas.domains import DOMAIN
from memhint.api.schemas.domains import LIST_QUERY as DOMAIN_QUERY
from memhint.api.schemas.events import KINDS, LIST_QUERY
from memhint.api.schemas.hosts import HOST
from memhint.api.schemas.hosts import LIST_QUERY as HOST_QUERY
from memhint.api.schemas.reclaims import RECLAIM
from memhint.cli import words
from memhint.cli.fleet import events, hosts, promises, reclaims, vms
from memhint.client.settings import MICROVERSION


def test_what_lists_are_sorted_by() -> None:
    for command, query in ((hosts.HostList, HOST_QUERY), (vms.VmList, DOMAIN_QUERY)):
        pattern = re.compile(query["properties"]["sort"]["pattern"])
        assert command.sort_keys
        assert all(pattern.search(key) for key in command.sort_keys)


def test_kinds_of_events() -> None:
    assert set(events.KINDS) == set(KINDS) == set(LIST_QUERY["properties"]["kind"]["enum"])


def test_columns_show_what_the_server_tells() -> None:
    for command, record in (
        (hosts.HostList, HOST),
        (vms.VmList, DOMAIN),
        (reclaims.ReclaimList, RECLAIM),
    ):
        keys = [one.key for one in command.columns]
        assert set(keys) <= set(record["properties"])
        assert set(command.short) <= set(keys)


def test_the_version_that_the_client_speaks_is_served() -> None:
    assert MICROVERSION in VERSIONS


def test_what_a_host_says_is_shown_also_where_it_is_no_moment_of_the_calendar() -> None:
    assert [words.moment(one) for one in (0, 1e300, -1e17, 1e17, None)] == ["1970-01-01 00:00:00", *"----"]


def test_a_promise_that_broke_once_does_not_hold_in_a_hundred_percent() -> None:
    worst = [{"at": 7200.0, "promised": 3 << 30, "came": -(1 << 30)}]
    kept = {"hours": 100_000, "held": 99_999, "since": 3600.0, "worst": worst}
    assert hosts.promise_line(None) == "no hour is judged yet"
    assert hosts.promise_line(kept) == (
        "held in 99.99 % of 100000 hours since 1970-01-01 01:00:00 UTC; at worst 3072 MiB were promised and 0 MiB were "
        "there, 1970-01-01 02:00:00 UTC"
    )
    held = {**kept, "held": 100_000, "worst": [{"at": 7200.0, "promised": 1, "came": 1}]}
    assert hosts.promise_line(held) == "held in 100 % of 100000 hours since 1970-01-01 01:00:00 UTC"


def test_the_fleet_s_promises_are_told_with_the_hosts_that_broke_one() -> None:
    since = "since 1970-01-01 01:00:00 UTC"
    assert promises.rows_of({"hours": 0, "since": 3600.0}) == {"Promises": f"no hour is judged {since}"}
    broken = [{"host": f"host-{one}", "hours": 168, "held": 167, "lacked": 3 << 30} for one in range(22)]
    one = {"hours": 1, "held": 0, "hosts": 1, "since": 3600.0, "broken": broken[:1]}
    assert promises.rows_of(one)["Promises"] == f"held in 0 % of 1 hour of 1 host {since}"
    found = promises.rows_of({"hours": 100_000, "held": 99_999, "hosts": 600, "since": 3600.0, "broken": broken})
    assert found["Promises"] == f"held in 99.99 % of 100000 hours of 600 hosts {since}"
    assert found["host-0"] == "held in 99.4 % of 168 hours; at worst 3072 MiB were missing"
    assert (len(found), found["More"]) == (22, "2 hosts: -f json has all")
