"""What `memhint host show` says of a host that is not well."""

from __future__ import annotations

import pytest

from memhint.cli.fleet.hosts import _rows
from memhint.objects.units import GIB


@pytest.mark.parametrize(
    ("state", "admits"), [("fresh", "yes"), ("stale", "no: its report is stale"), ("silent", "no")]
)
def test_only_a_fresh_host_admits(state: str, admits: str) -> None:
    assert _rows({"state": state, "admitting": True})["Admitting"].startswith(admits)


def test_what_a_host_promises_is_said_once_as_of_now() -> None:
    rows = _rows(
        {"state": "silent", "headroom": GIB, "bound": "stale", "capacity": {"headroom": 9 * GIB, "bound": "now"}}
    )
    assert rows["Headroom"] == "1024 MiB, bounded by stale"
    assert not [name for name in rows if name.startswith("Term")]


def test_vms_of_which_something_is_missing_are_counted_beside_the_hosts_gaps() -> None:
    gap = {"what": "ksm", "reason": "unreadable", "detail": ""}
    vms = "2 of its VMs: memhint domains --long on a"
    assert _rows({"name": "a", "gaps": [gap], "domains_with_gaps": 2})["Gaps"] == f"ksm: unreadable\nand {vms}"
    assert _rows({"name": "a", "gaps": [], "domains_with_gaps": 2})["Gaps"] == vms
    assert _rows({"name": "a", "gaps": []})["Gaps"] == "none"


def test_terms_that_are_no_memory_are_not_shown_as_memory() -> None:
    capacity = {"pool": GIB, "node": None, "storm": 10, "max_ratio": 1.5, "together": False, "blind": True}
    rows = _rows({"capacity": capacity})
    assert {name: rows[f"Term {name}"] for name in capacity} == {
        "pool": "1024 MiB", "node": "-", "storm": "10 %", "max_ratio": "1.5", "together": "no", "blind": "yes"
    }  # fmt: skip
