"""The databases of a release with all their tables, made once and kept beside the release's packages.

Making them takes the services' own programs half a minute; a stack starts from a copy of what they left.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.at_once import at_once
from lab.image import Progress, locked
from lab.openstack import settings
from lab.openstack.errors import PackagesFailed
from lab.openstack.settings import DATABASES, PASSWORD, REGION
from lab.programs import run
from lab.servers.directory import ServerDirectory
from lab.servers.mariadb import MariaDB

HERE = "http://127.0.0.1:5000/v3"
"""Where Keystone is, in the kept databases; a stack writes its own address over it."""
# Nova fills these in from each service's own configuration, so they are right for every stack.
_CELL = "{scheme}://{username}@{hostname}/%s?{query}"
_BROKER = "{scheme}://{username}:{password}@{hostname}:{port}/{path}"


def kept(venv: Path, tell: Progress) -> Path:
    """A data directory for MariaDB, made unless the cache has it."""
    version = run(["mariadbd", "--version"], "MariaDB's version", PackagesFailed)
    key = hashlib.sha256(version.encode() + Path(__file__).read_bytes()).hexdigest()[:12]
    folder = venv.parent / f"databases-{key}"
    with locked(venv.parent / "databases.lock"):
        if not folder.exists():
            tell("databases", "making the tables", 0, 1)
            for old in venv.parent.glob("databases-*/"):
                shutil.rmtree(old)
            _make(venv, folder)
    tell("databases", "ready", 1, 1)
    return folder


def restore(kept_data: Path, place: ServerDirectory) -> None:
    """Put a copy of the kept data where a server will look for it."""
    run(["cp", "-a", "--sparse=always", str(kept_data), str(place.path / "data")], "copying databases", PackagesFailed)
    place.own(place.path / "data")


def _make(venv: Path, folder: Path) -> None:
    server = MariaDB(options=("--innodb-flush-log-at-trx-commit=0",))
    with tempfile.TemporaryDirectory(prefix="memhint-schema-") as scratch:
        try:
            server.start()
            for name in DATABASES:
                server.sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb3")
            _fill(venv, Path(scratch), server)
            server.stop()
            unfinished = folder.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            run(["cp", "-a", str(server.place.path / "data"), str(unfinished)], "keeping databases", PackagesFailed)
            unfinished.rename(folder)
        finally:
            server.close()


def _fill(venv: Path, scratch: Path, server: MariaDB) -> None:
    variables: dict[str, object] = {
        "logs": scratch, "data": scratch, "state": scratch, "venv": venv, "region": REGION, "password": PASSWORD,
        "keystone_url": HERE, "glance_url": HERE, "transport_url": "rabbit://user:word@127.0.0.1:5672/openstack",
        "user": "nobody", "name": "manage", "service": "manage", "address": "127.0.0.1", "debug": "false",
    }  # fmt: skip
    for name in DATABASES:
        variables[f"database_{name}"] = server.url(name, "mysql")
    for kind in ("keystone", "placement", "glance-api", "neutron", "nova-conductor"):
        settings.write(scratch, kind, variables)
    for repository in ("fernet", "credential"):
        keys(scratch / repository)

    environment = os.environ | {"HOME": str(scratch), "PYTHONWARNINGS": "ignore"}

    def manage(program: str, conf: str, *words: str) -> None:
        command = [str(venv / "bin" / "python"), str(venv / "bin" / program), "--config-file", f"{scratch}/{conf}.conf"]
        done = subprocess.run(
            [*command, *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if done.returncode:
            raise PackagesFailed(f"{program} {' '.join(words)}: {(done.stderr or done.stdout)[-1500:]}")

    def nova() -> None:
        conf = "nova-conductor"
        manage("nova-manage", conf, "api_db", "sync")
        manage("nova-manage", conf, "cell_v2", "map_cell0", "--database_connection", _CELL % "nova_cell0")
        cell = ["--name", "cell1", "--database_connection", _CELL % "nova_cell1", "--transport-url", _BROKER]
        manage("nova-manage", conf, "cell_v2", "create_cell", *cell)
        manage("nova-manage", conf, "db", "sync")

    def others() -> None:
        manage("keystone-manage", "keystone", "db_sync")
        urls = [word for kind in ("admin", "internal", "public") for word in (f"--bootstrap-{kind}-url", HERE)]
        manage(
            "keystone-manage", "keystone", "bootstrap", "--bootstrap-password", PASSWORD,
            "--bootstrap-region-id", REGION, *urls,
        )  # fmt: skip
        manage("placement-manage", "placement", "db", "sync")
        manage("glance-manage", "glance-api", "db_sync")
        manage("neutron-db-manage", "neutron", "upgrade", "heads")

    with at_once(2) as pool:
        for done in [pool.submit(nova), pool.submit(others)]:
            done.result()


def keys(repository: Path, number: int = 2) -> None:
    """Random keys as Keystone keeps them for its tokens and credentials."""
    repository.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in range(number):
        (repository / str(name)).write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
        (repository / str(name)).chmod(0o600)
