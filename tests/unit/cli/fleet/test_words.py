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
from memhint.cli.fleet import events, hosts, reclaims, vms
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
