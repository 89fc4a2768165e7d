from __future__ import annotations

import pytest

from memhint.cli import openstack
from memhint.objects.provider import ProviderRecord
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
