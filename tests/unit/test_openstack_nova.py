"""What memhint asks Nova, and how it reads the answers."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from memhint.objects.instance import Instance
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
            ("c1", True, True),
        ),
        ({"status": "MIGRATING", "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1"}, ("c1", True, True)),
        ({"status": "SHUTOFF", "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1"}, ("c1", True)),
        ({"status": "ACTIVE"}, (None, False)),  # who may not see where it runs
    ],
)
def test_where_a_server_runs(told: dict[str, Any], placed: tuple[Any, ...]) -> None:
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


class Pages(Service):
    """Servers in parts of two."""

    def __init__(self, *servers: dict[str, Any]) -> None:
        super().__init__(None)
        self.servers = servers

    def get(self, path: str) -> Any:
        self.asked.append(path)
        marker = parse_qs(urlsplit(path).query).get("marker", [""])[0]
        at = next((number + 1 for number, one in enumerate(self.servers) if one.get("id") == marker), 0)
        return {"servers": list(self.servers[at : at + 2])}


def server(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tenant_id": "blue", "status": "ACTIVE", "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1", **more}


def test_servers_of_all_projects_come_in_parts() -> None:
    down = {"id": "C", "tenant_id": "red", "status": "UNKNOWN"}  # its cell does not answer
    service = Pages(server("a"), server("b", status="DELETED"), down)
    found = [one for part in Nova(service).instances("2026-01-01T00:00:00Z") for one in part]
    assert found == [
        Instance("a", "blue", "c1"),
        Instance("b", "blue", "c1", gone=True),
        Instance("c", "red", None),
    ]
    assert service.asked[0] == "/servers/detail?all_tenants=1&limit=1000&changes-since=2026-01-01T00%3A00%3A00Z"
    assert [path.partition("marker=")[2].partition("&")[0] for path in service.asked] == ["", "b", "C"]


@pytest.mark.parametrize(
    "answer", [None, {}, {"servers": None}, {"servers": [{"id": "a"}]}, {"servers": ["a"]}, {"servers": [server("a")]}]
)
def test_a_list_that_is_none_or_does_not_go_on_is_an_error(answer: Any) -> None:
    with pytest.raises(OpenStackError):
        list(Nova(Service(answer)).instances(None))
