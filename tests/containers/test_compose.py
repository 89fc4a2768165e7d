"""doc/containers.md's quickest way to a fleet, word for word, by a real Docker engine and its compose plugin.

Run by `make containers`, as root, with buildah, mmdebstrap and slirp4netns. No registry is asked: Debian as mmdebstrap
makes it, and its PostgreSQL and RabbitMQ, take the place of the published images (standins/Containerfile).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import wait_for
from tests.containers.engine import Engine
from tests.containers.images import ROOT, STANDINS, archive, checkout

CHECKOUT = "/srv/memhint"
FOLDER = f"{CHECKOUT}/etc/containers"
DOC = ROOT / "doc/containers.md"
INDEX_CERTIFICATE = "/etc/ssl/certs/package-index.crt"
API = "http://127.0.0.1:8790"
SOON = 180.0  # seconds
HOST = "host-1.example"


@pytest.fixture(scope="module")
def engine(standins: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has a checkout, what takes the place of published images, and nothing else."""
    scratch = tmp_path_factory.mktemp("images")
    checkout(scratch / "memhint")
    with Engine({CHECKOUT: scratch / "memhint"}) as one:
        for target, name in STANDINS.items():
            file = scratch / f"{target}.tar"
            archive(f"localhost/standin-{target}", name, file)
            one.load(file)
        yield one


def commands(heading: str) -> list[str]:
    """The commands of the first block below a heading of the page."""
    _, _, below = DOC.read_text().partition(f"\n## {heading}\n")
    block = re.search(r"^((?:    .+\n)+)", below, re.MULTILINE)
    assert block is not None, heading
    return [line.partition("#")[0].strip() for line in block.group(1).splitlines()]


def shell(engine: Engine, command: str) -> subprocess.CompletedProcess[str]:
    done = engine.run("/bin/bash", "-c", command, folder=FOLDER)
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:], logs(engine))
    return done


def logs(engine: Engine) -> str:
    return engine.run("docker", "compose", "logs", "--no-color", "--tail", "30", folder=FOLDER).stdout[-6000:]


def services(engine: Engine) -> dict[str, dict[str, Any]]:
    said = engine.check("docker", "compose", "ps", "--all", "--format", "json", folder=FOLDER)
    rows = [json.loads(line) for line in said.splitlines()]
    return {row["Service"]: row for row in rows}


def memhint(engine: Engine, token: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of this checkout, asked from the network of the engine."""
    argv = engine.network(sys.executable, "-m", "memhint.cli.main", "--api", API, *words)
    env = {**os.environ, "MEMHINT_TOKEN": token, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=env, cwd=ROOT, timeout=60)


def hosts(engine: Engine, token: str) -> set[str]:
    done = memhint(engine, token, "hosts", "-f", "json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    return {row["name"] for row in json.loads(done.stdout)}


@contextmanager
def agent(engine: Engine, told: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An agent of this checkout that has what `fleet host` told, and no libvirt; it has to end in order."""
    rest = (
        f"[virt]\nuri = qemu+unix:///system?socket={folder}/none\nrun_dir = {folder}\n"
        f"[store]\nurl = sqlite:///{folder}/memhint.db\n"
    )
    (folder / "memhint.conf").write_text(told.replace("[bus]\n", "period = 1\n[bus]\n") + rest)
    log = folder / "agent.log"
    words = ("-m", "memhint.cli.main", "agent", "--config-file", str(folder / "memhint.conf"))
    with log.open("wb") as out:
        process = subprocess.Popen(
            engine.network(sys.executable, *words), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        yield process
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        try:
            code = process.wait(60.0)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert code == 0, log.read_text()[-3000:]


def test_the_quickest_way_to_a_fleet(engine: Engine, tmp_path: Path) -> None:
    steps = commands("The quickest way to a fleet")
    assert steps[0] == "cd etc/containers"
    init, up = steps[1:]
    # The package index may show a certificate that only this machine knows. The second time everything is there.
    said = [shell(engine, words) for words in (f"{init} --build-arg PIP_CERT={INDEX_CERTIFICATE}", init)]
    tokens = [re.findall(r"^[\w-]{43}$", one.stdout + one.stderr, re.MULTILINE) for one in said]
    assert [len(found) for found in tokens] == [1, 0], said
    ((token,), _) = tokens
    shell(engine, up)

    found = services(engine)
    assert set(found) == {"database", "broker", "controller", "api"}
    assert {row["Health"] for row in found.values()} == {"healthy"}
    assert memhint(engine, "wrong", "hosts").returncode != 0
    assert hosts(engine, token) == set()
    page = engine.network("curl", "-sf", f"{API}/dashboard/")
    assert b"<title>" in subprocess.run(page, capture_output=True, check=True).stdout

    told = shell(engine, f"./fleet host {HOST} amqp://127.0.0.1:5672").stdout
    assert told.startswith(f"[DEFAULT]\nhost_name = {HOST}\n[bus]\n")
    with agent(engine, told, tmp_path):
        wait_for(lambda: HOST in hosts(engine, token), SOON, "the API to have the host", 1.0)

    shell(engine, "docker compose down")
    assert services(engine) == {}
    assert memhint(engine, token, "hosts").returncode != 0
    shell(engine, up)
    assert hosts(engine, token) == {HOST}
    shell(engine, "docker compose down --volumes")
    assert engine.check("docker", "volume", "ls", "-q") == ""


def test_the_broker_bounds_what_hosts_send(engine: Engine) -> None:
    """After the other test: its volumes are gone, its passwords are not."""
    shell(engine, "docker compose up -d --wait broker")
    shell(engine, f"./fleet host {HOST}")
    control = "docker compose exec -T broker rabbitmqctl -q"
    policies = shell(engine, f"{control} list_policies -p memhint").stdout
    assert set(re.findall(r"^memhint\t(memhint-\w+)\t", policies, re.MULTILINE)) == {
        "memhint-state", "memhint-record", "memhint-dead", "memhint-command",
    }  # fmt: skip
    own = r"^memhint\.command\.host-1\.example$"
    rights = shell(engine, f"{control} list_permissions -p memhint").stdout
    assert f"{HOST}\t{own}\t^memhint\\.(report|reply)$\t{own}" in rights
    asked = f"{control} eval 'application:get_env(rabbit, max_message_size).'"
    assert shell(engine, asked).stdout.strip() == "{ok,4194304}"
    shell(engine, "docker compose down --volumes")


def test_ours_may_write_nowhere_and_are_nobody(engine: Engine) -> None:
    for service in ("controller", "api"):
        run = ("docker", "compose", "run", "--rm", "--no-deps", "-T", "--entrypoint", "/bin/sh", service, "-c")
        said = engine.check(*run, "id -u; grep -E '^(CapEff|NoNewPrivs):' /proc/self/status", folder=FOLDER)
        assert said.split() == ["10790", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
        for path in ("/etc/memhint/conf", "/opt/memhint/x", "/var/x"):
            done = engine.run(*run, f"touch {path}", folder=FOLDER)
            assert done.returncode != 0, path
            assert "Read-only file system" in done.stderr, done
