"""A RabbitMQ broker: its own name, directory, ports and port mapper, all on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pika

from lab.servers.directory import ServerDirectory, ServerFailed, kill, wait_until
from lab.servers.ports import free_ports

PASSWORD = "guessed"
"""Of every user that `definitions` makes."""

_CONF = """\
listeners.tcp.1 = 127.0.0.1:{port}
load_definitions = {place}/definitions.json
log.console = true
log.console.level = warning
log.file = false
raft.wal_max_size_bytes = 8388608
disk_free_limit.absolute = 10MB
"""


class RabbitMQ:
    """One node."""

    def __init__(
        self, defined: Mapping[str, Any], place: ServerDirectory | None = None, name: str = "memhint", conf: str = ""
    ) -> None:
        """:param defined: virtual hosts, users and their rights, as the broker loads them
        :param place: of an earlier broker, which keeps its ports then
        :param conf: more of its configuration
        """
        self.place = place or ServerDirectory.temporary("mq")
        self.port, self._dist, self._mapper = self._ports()
        self.node = f"{name}@localhost"
        self.process: subprocess.Popen[bytes] | None = None
        self._known = next((one["user"], one["vhost"]) for one in defined["permissions"])
        self._epmd: subprocess.Popen[bytes] | None = None
        self.place.write("rabbitmq.conf", _CONF.format(port=self.port, place=self.place.path) + conf)
        self.place.write("definitions.json", json.dumps(defined))
        self.place.write("plugins", "[].\n")
        self.place.write("env.conf", "")
        self.place.write(".erlang.cookie", "memhint", 0o400)

    def start(self, *, mapper: bool = True) -> None:
        """Start it, and wait until it answers.

        :param mapper: start a port mapper first; False where nodes share one that runs already
        """
        if mapper and self._epmd is None:
            self._epmd = self.place.start(["/usr/bin/epmd", "-address", "127.0.0.1", "-port", str(self._mapper)])
        self.process = self.place.start([f"{_programs()}/rabbitmq-server"], self._env())
        wait_until(self._ready, f"RabbitMQ ({self.place.path}/log)", self.process)

    def kill(self) -> None:
        """As a power cut would."""
        kill(self.process)

    def close(self) -> None:
        """End it, and remove its data."""
        kill(self.process)
        kill(self._epmd, signal.SIGTERM)
        self.place.remove()

    def control(self, *words: str) -> str:
        """What `rabbitmqctl` prints."""
        command, env = self.control_command()
        return self.place.run([*command, *words], env)

    def control_command(self) -> tuple[list[str], dict[str, str]]:
        """The words that begin each command to this node, and their environment."""
        env = {**self._env(), "RABBITMQ_NODENAME": "", "RABBITMQ_DIST_PORT": ""}
        env = {name: value for name, value in env.items() if value}
        return [f"{_programs()}/rabbitmqctl", "--quiet", "-n", self.node], {**env, "HOME": str(self.place.path)}

    def url(self, user: str, password: str = PASSWORD, vhost: str = "memhint") -> str:
        """AMQP URL of a user in a virtual host."""
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{vhost}"

    def _ready(self) -> bool:
        user, vhost = self._known
        credentials = pika.PlainCredentials(user, PASSWORD)
        try:
            # The socket alone is there before the node takes clients.
            pika.BlockingConnection(
                pika.ConnectionParameters("127.0.0.1", self.port, vhost, credentials=credentials)
            ).close()
        except (pika.exceptions.AMQPError, OSError, ValueError):  # the last of a node that hangs up at once
            return False
        return True

    def _ports(self) -> list[int]:
        """AMQP's, the one between nodes, the port mapper's."""
        known = self.place.path / "ports.json"
        if not known.exists():
            self.place.write("ports.json", json.dumps(free_ports(3)))
        ports: list[int] = json.loads(known.read_text())
        return ports

    def _env(self) -> dict[str, str]:
        place = self.place.path
        return {
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": f"{place}/data",
            "RABBITMQ_LOG_BASE": f"{place}/logs",
            "RABBITMQ_CONFIG_FILE": f"{place}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{place}/plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{place}/env.conf",
            "RABBITMQ_PID_FILE": f"{place}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
            # Its commands spin, too, while they wait for an answer.
            "RABBITMQ_CTL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
            "ERL_EPMD_PORT": str(self._mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }


def definitions(rights: Sequence[tuple[str, str, str, str, str]]) -> dict[str, Any]:
    """What a broker loads at its start.

    :param rights: (user, virtual host, configure, write, read), the last three as patterns of names
    """
    return {
        "vhosts": [{"name": name} for name in sorted({vhost for _, vhost, *_ in rights})],
        "users": [
            {"name": name, "password_hash": _hash(PASSWORD), "tags": ""} for name in sorted({one[0] for one in rights})
        ],
        "permissions": [
            {"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read}
            for user, vhost, configure, write, read in rights
        ],
    }


def _hash(password: str) -> str:
    salt = b"salt"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _programs() -> Path:
    # Not /usr/sbin/rabbitmq-server: that one is for the system's service and changes to its user.
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
    if not found:
        raise ServerFailed("RabbitMQ is not installed: tools/setup installs what bindep.txt names")
    return found[-1]
