"""What kolla-ansible is given fits the plugin and the agent's unit."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import yaml

from memhint.conf.load import load

ROOT = Path(__file__).parents[2]
KOLLA = ROOT / "etc" / "kolla"
PLUGIN = ROOT / "nova_plugin" / "memhint_nova"
SCHEDULER = (KOLLA / "config/nova/nova-scheduler.conf").read_text()
KEYSTONE = {
    "auth_type", "auth_url", "username", "password", "project_name", "user_domain_name", "project_domain_name",
    "region_name", "cafile", "endpoint_override",
}  # fmt: skip
"""Options of keystoneauth, which Nova gives to each service that it asks."""


def test_the_schedulers_file_names_what_the_plugin_has() -> None:
    for module, name in re.findall(r"memhint_nova\.(\w+)\.(\w+)", SCHEDULER):
        assert f"class {name}(" in (PLUGIN / f"{module}.py").read_text()
    assert len(re.findall(r"memhint_nova\.\w+\.\w+", SCHEDULER)) == 2
    assert re.search(r"^enabled_filters = .*,MemhintFilter$", SCHEDULER, re.MULTILINE)


def test_every_option_is_the_plugins_or_keystones() -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(SCHEDULER)
    own = set(re.findall(r'cfg\.\w+Opt\(\s*"(\w+)"', (PLUGIN / "conf.py").read_text()))
    assert own
    assert set(parser.options("memhint")) <= own | KEYSTONE


def test_the_agents_container_has_the_rights_of_its_unit() -> None:
    (play,) = yaml.safe_load((KOLLA / "memhint-agent.yml").read_text())
    container: dict[str, Any] = play["tasks"][-1]["kolla_container"]
    unit = (ROOT / "etc/systemd/memhint-agent.service").read_text()
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    assert {f"CAP_{name}" for name in container["cap_add"]} == set(line.split())
    assert (container["pid_mode"], container["cgroupns_mode"]) == ("host", "host")
    assert "privileged" not in container


def test_its_mounts_are_those_of_the_containers_page() -> None:
    (play,) = yaml.safe_load((KOLLA / "memhint-agent.yml").read_text())
    mounts = play["tasks"][-1]["kolla_container"]["volumes"]
    page = (ROOT / "doc/containers.md").read_text()
    # What nova-compute keeps in the host's own directories, it keeps in a volume and a directory of kolla's.
    nova = {"/var/lib/nova:ro": "/var/lib/nova:/var/lib/nova:ro", "/etc/nova:ro": "/etc/nova:/etc/nova:ro"}
    as_on_a_host = {nova.get(mount.partition(":")[2], mount) for mount in mounts}
    assert as_on_a_host == set(re.findall(r"-v (/\S+:\S+)", page))
    assert as_on_a_host >= set(nova.values())


def test_the_agent_sees_the_nova_compute_of_its_host() -> None:
    (play,) = yaml.safe_load((KOLLA / "memhint-agent.yml").read_text())
    mounts = play["tasks"][-1]["kolla_container"]["volumes"]
    inside = {mount.split(":")[1] for mount in mounts}
    conf = load([])
    for name in (conf.nova.compute_id, *conf.nova.config_files):
        assert str(Path(name).parent) in inside
    assert "{{ nova_instance_datadir_volume | default('nova_compute') }}:/var/lib/nova:ro" in mounts
    assert "{{ node_config_directory }}/nova-compute:/etc/nova:ro" in mounts
