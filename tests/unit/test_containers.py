"""The compose file holds together: with the Containerfile, with the options, and with what `fleet` writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from memhint.conf.load import load

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "etc" / "containers"
TEXT = (FOLDER / "Containerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def test_every_service_has_a_health_check_or_an_image_that_has() -> None:
    stages = dict(re.findall(r"^FROM base AS (\w+)\n(.*?)(?=^FROM|\Z)", TEXT, re.MULTILINE | re.DOTALL))
    assert set(stages) == {"agent", "controller", "api"}
    assert all("HEALTHCHECK" in stage for stage in stages.values())
    for name, service in SERVICES.items():
        assert "healthcheck" in service or service["build"]["target"] in stages, name


def test_only_the_agent_is_root() -> None:
    assert re.findall(r"^FROM base AS (\w+)\nUSER memhint$", TEXT, re.MULTILINE) == ["controller", "api"]


def test_ports_are_on_loopback_unless_asked_otherwise() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(":-127.0.0.1}:" in port for port in ports)


def test_ours_have_no_rights_and_nothing_to_write_to() -> None:
    for name in ("controller", "api"):
        service = SERVICES[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["volumes"] == ["./conf:/etc/memhint:ro"]


@pytest.mark.parametrize("source", ["memhint.conf", "fleet"])
def test_the_configuration_is_one_that_memhint_takes(source: str, tmp_path: Path) -> None:
    text = (FOLDER / source).read_text()
    if source == "fleet":
        (text,) = re.findall(r"<<EOF\n(.*?)^EOF$", text, re.MULTILINE | re.DOTALL)
    written = tmp_path / "memhint.conf"
    written.write_text(re.sub(r"\$\w+", "secret", text))
    conf = load([written])
    # Where the health checks look, by name and port.
    assert f"http://{conf.metrics.listen}/metrics" in TEXT
    (address,) = conf.api.listen
    assert f":{address.rpartition(':')[2]}/healthz" in TEXT
    if source == "fleet":
        user = SERVICES["broker"]["environment"]["RABBITMQ_DEFAULT_USER"]
        assert f"//{user}:" in conf.bus.urls[0]
        assert "@broker:" in conf.bus.urls[0]
        assert "@database/memhint" in conf.store.url


def test_fleet_says_how_it_is_used_and_refuses_what_is_no_host() -> None:
    def fleet(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([FOLDER / "fleet", *words], capture_output=True, text=True, check=False)

    assert "fleet host NAME" in fleet().stderr
    for words in ((), ("host",), ("host", "a b"), ("host", "a;b"), ("host", ".*")):
        assert fleet(*words).returncode == 2, words


def _control(folder: Path, users: int) -> tuple[Path, Path]:
    """A rabbitmqctl in place of the broker's, which lists so many users, and where it says what it was asked."""
    stub, asked = folder / "rabbitmqctl", folder / "asked"
    stub.write_text(
        f'#!/bin/sh\nset -e\necho "$2 $3" >>{asked}\n[ "$2" = list_users ] || exit 0\n'
        f"echo 'compute-0\t[]'\nseq -f 'compute-%.0f.of-a-long-domain.example.org\t[]' {users}\n"
    )
    stub.chmod(0o755)
    return stub, asked


def test_a_host_that_has_a_user_gets_a_new_password_among_however_many(tmp_path: Path) -> None:
    stub, asked = _control(tmp_path, 20_000)  # more than a pipe takes
    done = subprocess.run(
        [FOLDER / "fleet", "host", "compute-0"], env={**os.environ, "RABBITMQCTL": str(stub)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "change_password compute-0" in asked.read_text()
    assert "add_user" not in asked.read_text()


@pytest.mark.parametrize("name", ["memhint-controller", "guest"])
def test_a_host_does_not_get_the_user_of_another_part(name: str, tmp_path: Path) -> None:
    stub, asked = _control(tmp_path, 1)
    done = subprocess.run(
        [FOLDER / "fleet", "host", name], env={**os.environ, "RABBITMQCTL": str(stub)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"fleet: {name} is a user of the broker" in done.stderr
    assert not asked.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to the containers' user, as root")
def test_init_writes_what_only_the_containers_read_and_does_it_once(tmp_path: Path) -> None:
    folder, stub = tmp_path / "containers", tmp_path / "compose"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns(".env", "conf"))
    # In place of `docker compose run --rm --no-deps -T api …`: the same command of this checkout.
    stub.write_text(
        f'#!/bin/sh\n[ -s .env ] || exit 9\necho "$1 $2" >>{tmp_path}/asked\n[ "$1" = run ] || exit 0\n'
        f'shift 5\nexec {sys.executable} -m memhint.cli.main "$@"\n'
    )
    stub.chmod(0o755)

    def init(*words: str) -> dict[str, str]:
        done = subprocess.run(
            [folder / "fleet", "init", *words], env={**os.environ, "COMPOSE": str(stub), "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return {str(path.relative_to(folder)): path.read_text() for path in (folder / ".env", *folder.glob("conf/*"))}

    first = init("--no-cache")
    assert (tmp_path / "asked").read_text() == "build --no-cache\nrun --rm\n"
    assert set(first) == {".env", "conf/memhint.conf", "conf/tokens"}
    passwords = re.findall(r"=([0-9a-f]{48})$", first[".env"], re.MULTILINE)
    assert len(set(passwords)) == 2
    assert all(one in first["conf/memhint.conf"] for one in passwords)
    assert first["conf/tokens"].startswith("admin")
    for path, mode in (
        (folder / "conf", 0o750),
        (folder / "conf/memhint.conf", 0o640),
        (folder / "conf/tokens", 0o640),
    ):
        assert (path.stat().st_mode & 0o777, path.stat().st_uid, path.stat().st_gid) == (mode, 0, 10790), path
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    assert init() == first
    assert len((tmp_path / "asked").read_text().splitlines()) == 2
