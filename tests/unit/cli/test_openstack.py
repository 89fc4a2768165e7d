from __future__ import annotations

import pytest

from memhint.cli import openstack
from memhint.objects.provider import Inventory, ProviderRecord
from memhint.openstack.errors import OpenStackError
from tests.unit.cli.conftest import Bench


def test_nothing_to_show_is_said(bench: Bench) -> None:
    assert bench.run("openstack", "status").out.strip() == "There are none: no controller has written a ratio yet."
    assert bench.run("openstack", "status", "--json").out.strip() == "[]"


def test_what_was_put_back_is_shown_where_another_one_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        bench.store.capacities.adopt(f"provider-{number}", f"compute-{number}", 1.5)

    def release(one: ProviderRecord, *_: object) -> str:
        if one.host == "compute-2":
            raise OpenStackError("Placement is away")
        return "put back"

    monkeypatch.setattr(openstack, "release", release)
    monkeypatch.setattr(openstack, "placement_of", lambda conf: None)
    result = bench.run("openstack", "uninstall", "-f", "value", "-c", "host", "-c", "detail")
    assert result.code == 1
    assert result.out == "compute-1 put back\n"
    assert result.err == "compute-2: Placement is away\n"


def test_a_dry_run_knows_what_was_written_since_its_list_was_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacities = bench.store.capacities
    for number in (1, 2):
        capacities.adopt(f"provider-{number}", f"compute-{number}", 1.5)

    class Placement:
        """In which a controller writes meanwhile."""

        def inventory(self, provider: str) -> Inventory:
            standing = capacities.one("provider-2")
            assert standing is not None
            if standing.written is None:
                assert capacities.begin(standing, 1.2, "one")
                capacities.end("provider-2", "one", 1.2, standing.tenure, "")
            return Inventory(1, 8192, 0, {"provider-1": 1.5, "provider-2": 1.2}[provider])

    monkeypatch.setattr(openstack, "placement_of", lambda conf: Placement())
    result = bench.run("openstack", "uninstall", "--dry-run", "-f", "value", "-c", "host", "-c", "detail")
    assert result.out == "compute-1 1.5 -> 1.5\ncompute-2 1.2 -> 1.5\n"
