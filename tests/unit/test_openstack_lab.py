"""What can be said of the OpenStack lab without bringing it up."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from lab.debian_root import mounts_of, programs_argv
from lab.openstack import packages, settings
from lab.openstack.compute import Compute
from lab.openstack.errors import UnknownRelease
from lab.openstack.extras import PARTS
from lab.openstack.network import Network
from lab.openstack.packages import Ground
from lab.openstack.releases import COMPUTE_PACKAGES, NEWEST, PACKAGES, RELEASES, find
from lab.openstack.stack import Stack

VARIABLES = {
    name: f"<{name}>"
    for name in (
        "name", "service", "logs", "data", "state", "venv", "address", "region", "user", "password", "debug",
        "keystone_url", "glance_url", "transport_url", "driver", "reserved_mib", "instances", "config_files",
        "virt_type", "cpu_mode", "cpu_models", *(f"database_{one}" for one in settings.DATABASES),
    )
}  # fmt: skip


@pytest.mark.parametrize("kind", settings.TEMPLATES)
def test_a_configuration_is_complete_and_what_is_added_comes_last(kind: str, tmp_path: Path) -> None:
    file = settings.write(tmp_path, kind, VARIABLES, "service", "[DEFAULT]\ndebug = mine\n")
    assert file == tmp_path / "service.conf"
    text = file.read_text()
    assert "$" not in text
    assert text.endswith("[DEFAULT]\ndebug = mine\n")
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.read_string(text)
    assert parsed["DEFAULT"]["debug"] == "mine"
    if kind != "keystone":
        assert parsed["keystone_authtoken"]["username"] == "<user>"
    with pytest.raises(KeyError):
        settings.write(tmp_path, kind, {})


@pytest.mark.parametrize("kind", ["libvirt", "fake"])
def test_a_compute_leaves_the_ratio_to_others_and_the_database_alone(kind: str, tmp_path: Path) -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.read(settings.write(tmp_path, kind, VARIABLES))
    assert "ram_allocation_ratio" not in parsed["DEFAULT"]
    assert parsed["DEFAULT"]["initial_ram_allocation_ratio"] == "1.0"
    assert not {"database", "api_database"} & set(parsed.sections())


def test_every_part_that_can_be_added_to_has_a_configuration() -> None:
    assert set(PARTS) == {"api", "conductor", "scheduler", "compute", "libvirt"}
    assert {part if part == "libvirt" else f"nova-{part}" for part in PARTS if part != "compute"} <= set(
        settings.TEMPLATES
    )


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.nova)
def test_a_release_is_pinned_whole(release) -> None:
    lines = release.constraints.read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.+!-]*", line) for line in lines)
    pinned = {re.sub(r"[._-]+", "-", line.split("==")[0]).lower(): line.split("==")[1] for line in lines}
    assert {re.sub(r"[._-]+", "-", name).lower() for name in (*PACKAGES, *release.unsaid)} <= set(pinned)
    assert pinned["nova"].startswith(f"{release.nova}.")
    assert find(release.series) == find(release.nova) == release


def test_an_unknown_release_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownRelease, match=f"{NEWEST.nova} .{NEWEST.series}."):
        find("12")


def test_each_directory_has_a_loopback_network_of_its_own() -> None:
    networks = {Network.of(Path(f"/var/tmp/x/{number}")) for number in range(200)}
    assert len(networks) > 190
    for network in networks:
        first, second, third = (int(word) for word in network.prefix.split("."))
        assert first == 127
        assert 1 <= second <= 254  # 127.0.x.y is what everybody else takes
        assert 0 <= third <= 255
    assert Network("127.1.2").url(80, "/x") == "http://127.1.2.1:80/x"


class EnteredHost:
    """A lab host that is only entered."""

    @staticmethod
    def enter_argv() -> list[str]:
        return ["enter"]


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    made = Stack(computes=0, name="unit", state_dir=tmp_path)
    made.record.venv, made.record.compute_venv = "/of-services", "/of-hosts"
    made.computes = [
        Compute("host-1", "127.1.2.11", tmp_path / "host-1", EnteredHost()),  # type: ignore[arg-type]
        Compute("fake-1", "127.1.2.1", tmp_path / "fake-1", None),
    ]
    return made


@pytest.mark.parametrize(
    ("service", "venv", "enter"),
    [
        ("nova-compute-host-1", "/of-hosts", ["enter"]),
        ("nova-compute-fake-1", "/of-services", []),
        ("nova-conductor", "/of-services", []),
    ],
)
def test_a_compute_with_a_libvirt_runs_from_the_virtualenv_of_its_host(
    stack: Stack, service: str, venv: str, enter: list[str]
) -> None:
    argv, environment = stack._command(service)
    assert argv[: len(enter) + 1] == [*enter, f"{venv}/bin/python"]
    assert f"{venv}/bin" in environment["PATH"].split(":")
    others = {"/of-services", "/of-hosts"} - {venv}
    assert not [word for word in (*argv, *environment.values()) for other in others if other in word]


def test_what_takes_the_place_of_the_machines_own_is_mounted_with_usr_last(tmp_path: Path) -> None:
    assert [there for _, there in mounts_of(tmp_path)][-1] == "/usr"
    assert all(here == f"{tmp_path}{there}" for here, there in mounts_of(tmp_path))
    argv = programs_argv(tmp_path)
    assert argv[argv.index("/usr") - 1 :] == [f"{tmp_path}/usr", "/usr", "--"]


def test_a_virtualenv_is_made_again_for_another_python_of_its_ground(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MEMHINT_CACHE", str(tmp_path))
    ran: list[list[str]] = []

    def run(ground: Ground, words: list[str]) -> None:
        ran.append([*ground.enter, *words])
        if "venv" in words:
            Path(words[-1]).mkdir(parents=True)

    monkeypatch.setattr(packages, "_run", run)
    first = Ground("/usr/bin/python3", "python3 3.13.5", ("over",))
    for ground in (first, first, Ground("/usr/bin/python3", "python3 3.14.0", ("over",))):
        packages.compute_virtualenv(NEWEST, ground, lambda *_: None)
    made = [words for words in ran if "venv" in words]
    assert len(made) == len({words[-1] for words in made}) == 2
    assert all(words[:2] == ["over", "/usr/bin/python3"] for words in made)
    installed = next(words for words in ran if "install" in words)
    assert set(COMPUTE_PACKAGES) <= set(installed)
    assert "neutron" not in installed
