"""What memhint asks Nova, and how it reads the answers."""

from __future__ import annotations

from typing import Any

import pytest

from memhint.openstack.errors import OpenStackError
from memhint.openstack.nova import Nova, Placed

SERVER = "2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f10"


class Service:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def get(self, path: str) -> Any:
        self.asked.append(path)
        return self.answer

    def post(self, path: str, body: Any) -> Any:
        raise AssertionError(path)


@pytest.mark.parametrize(
    ("told", "placed"),
    [
        (
            {"status": "ACTIVE", "OS-EXT-STS:task_state": None, "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1"},
            ("c1", False),
        ),
        (
            {"status": "ACTIVE", "OS-EXT-STS:task_state": "migrating", "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1"},
            ("c1", True),
        ),
        ({"status": "SHUTOFF", "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1"}, ("c1", True)),
        ({"status": "ACTIVE"}, (None, False)),  # who may not see where it runs
    ],
)
def test_where_a_server_runs(told: dict[str, Any], placed: tuple[str | None, bool]) -> None:
    service = Service({"server": told})
    assert Nova(service).placed(SERVER) == Placed(*placed)
    assert service.asked == [f"/servers/{SERVER}"]


def test_the_hypervisor_of_a_provider() -> None:
    service = Service({"hypervisor": {"hypervisor_hostname": "c1"}})
    assert Nova(service).hypervisor(SERVER) == "c1"
    assert service.asked == [f"/os-hypervisors/{SERVER}"]


@pytest.mark.parametrize("answer", [None, [], {}, {"server": None}, {"server": "x"}])
def test_an_answer_that_is_none_is_an_error(answer: Any) -> None:
    with pytest.raises(OpenStackError):
        Nova(Service(answer)).placed(SERVER)
