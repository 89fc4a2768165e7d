"""The control plane's services: which there are, and how each is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Api:
    """An HTTP service, run by uWSGI."""

    name: str
    port: int
    module: str
    type: str
    """As the catalog calls it."""
    path: str = ""
    """Of its endpoint."""
    workers: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    """How it finds its configuration; {etc} and {venv} are filled in."""


KEYSTONE = Api(
    "keystone", 5000, "keystone.wsgi.api:application", "identity", "/v3",
    environment={"OS_KEYSTONE_CONFIG_FILES": "{etc}/keystone.conf", "OS_KEYSTONE_CONFIG_DIR": "{etc}"},
)  # fmt: skip
# One worker: each would have a cache of its own, and answer from before the catalog was filled.

APIS = (
    KEYSTONE,
    Api(
        "placement", 8778, "placement.wsgi.api:application", "placement", workers=2,
        environment={"OS_PLACEMENT_CONFIG_DIR": "{etc}"},
    ),
    Api(
        "glance-api", 9292, "glance.wsgi.api:application", "image",
        environment={"OS_GLANCE_CONFIG_DIR": "{etc}"},
    ),
    Api(
        "neutron", 9696, "neutron_wsgi:application", "network",
        environment={"OS_NEUTRON_CONFIG_DIR": "{etc}", "OS_NEUTRON_CONFIG_FILES": "neutron.conf"},
    ),
    Api(
        "nova-api", 8774, "nova.wsgi.osapi_compute:application", "compute", "/v2.1", workers=2,
        # The order matters to Nova.
        environment={
            "OS_NOVA_CONFIG_DIR": "{etc}",
            "OS_NOVA_CONFIG_FILES": "{venv}/etc/nova/api-paste.ini;nova-api.conf",
        },
    ),
)  # fmt: skip

DAEMONS = ("nova-conductor", "nova-scheduler")
SERVERS = ("mariadb", "rabbitmq")


def api_command(api: Api, address: str, venv: Path) -> list[str]:
    """The words that start an HTTP service."""
    return [
        str(venv / "bin" / "uwsgi"), "--http-socket", f"{address}:{api.port}", "--module", api.module,
        "--venv", str(venv), "--master", "--processes", str(api.workers), "--threads", "4", "--enable-threads",
        "--lazy-apps", "--need-app", "--die-on-term", "--buffer-size", "65535", "--http-chunked-input",
        "--so-keepalive", "--add-header", "Connection: close", "--disable-logging",
    ]  # fmt: skip


def environment(home: Path, venv: Path) -> dict[str, str]:
    """What every service's process gets; nothing of the caller's, least of all a proxy."""
    return {
        "PATH": f"{PROGRAMS}:{venv}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        # Each service says at every start that its threads will be others one day.
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(PROGRAMS),
        **({"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {}),
    }
