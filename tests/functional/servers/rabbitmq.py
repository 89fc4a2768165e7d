"""A RabbitMQ broker of a test: its own name, directory, ports and port mapper, all on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pika

from memhint.bus.topology import DEAD, RECORD, STATE
from tests.functional.servers.process import Place, ServerFailed, kill, wait_until

HOSTS = ("host-a", "host-b")
CONTROLLER = "controller"
PASSWORD = "guessed"
_CONF = """\
listeners.tcp.1 = 127.0.0.1:{port}
listeners.ssl.1 = 127.0.0.1:{tls_port}
ssl_options.cacertfile = {place}/ca.pem
ssl_options.certfile = {place}/broker.pem
ssl_options.keyfile = {place}/broker.key
load_definitions = {place}/definitions.json
log.console = true
log.console.level = warning
log.file = false
raft.wal_max_size_bytes = 8388608
disk_free_limit.absolute = 10MB
heartbeat = 10
"""


class RabbitMQ:
    """One node, with a user for each host as doc/install.md describes them."""

    def __init__(self, name: str = "memhint") -> None:
        self.place = Place("mq")
        self.port, self.tls_port, self._dist, self._mapper = _free_ports(4)
        self.ca = self.place.path / "ca.pem"
        self._name = f"{name}@localhost"
        self._epmd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        place = self.place
        _certificates(place)
        conf = _CONF.format(port=self.port, tls_port=self.tls_port, place=place.path)
        place.write("rabbitmq.conf", conf)
        place.write("definitions.json", json.dumps(definitions()))
        place.write("plugins", "[].\n")
        place.write("env.conf", "")
        place.write(".erlang.cookie", "memhint", 0o400)

    def start(self) -> None:
        if self._epmd is None:
            self._epmd = self.place.start(["/usr/bin/epmd", "-address", "127.0.0.1", "-port", str(self._mapper)])
        self._process = self.place.start([f"{_programs()}/rabbitmq-server"], self._env())
        wait_until(self._ready, f"RabbitMQ ({self.place.path}/log)", self._process)

    def kill(self) -> None:
        """As a power cut would, but not within a second of a queue's making: such a queue hangs afterwards."""
        names = self.place.path / "data" / self._name / "quorum" / self._name / "names.dets"
        wait_until(
            lambda: all(one.encode() in names.read_bytes() for one in (STATE, RECORD, DEAD)), "the queues on disk"
        )
        kill(self._process)

    def close(self) -> None:
        kill(self._process)
        kill(self._epmd, signal.SIGTERM)
        self.place.remove()

    def url(self, user: str, password: str = PASSWORD) -> str:
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/memhint"

    def tls_url(self, user: str) -> str:
        return f"amqps://{user}:{PASSWORD}@localhost:{self.tls_port}/memhint"

    def connect(self, user: str = CONTROLLER) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(self.url(user)))

    def depth(self, queue: str) -> int:
        with self.connect() as connection:
            return connection.channel().queue_declare(queue, passive=True).method.message_count

    def purge(self, *queues: str) -> None:
        with self.connect() as connection:
            for queue in queues:
                connection.channel().queue_purge(queue)

    def _ready(self) -> bool:
        try:
            self.connect().close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def _env(self) -> dict[str, str]:
        place = self.place.path
        return {
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": f"{place}/data",
            "RABBITMQ_LOG_BASE": f"{place}/logs",
            "RABBITMQ_CONFIG_FILE": f"{place}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{place}/plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{place}/env.conf",
            "RABBITMQ_PID_FILE": f"{place}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(self._mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }


def definitions(hosts: Sequence[str] = HOSTS) -> dict[str, object]:
    """A virtual host of its own, a user for the controllers and one for each host."""
    agents = [(host, rf"^memhint\.command\.{host}$", r"^memhint\.(report|reply)$") for host in hosts]
    rights = [(CONTROLLER, ".*", ".*", ".*"), *((host, own, write, own) for host, own, write in agents)]
    return {
        "vhosts": [{"name": "memhint"}],
        "users": [{"name": one[0], "password_hash": _hash(PASSWORD), "tags": ""} for one in rights],
        "permissions": [
            {"user": user, "vhost": "memhint", "configure": configure, "write": write, "read": read}
            for user, configure, write, read in rights
        ],
    }


def _hash(password: str) -> str:
    salt = b"salt"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _certificates(place: Place) -> None:
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    place.run([*new, "-x509", "-subj", "/CN=memhint test", "-keyout", "ca.key", "-out", "ca.pem"])
    place.run([*new, "-subj", "/CN=localhost", "-keyout", "broker.key", "-out", "broker.csr"])
    place.write("san", "subjectAltName=DNS:localhost\n")
    sign = ["openssl", "x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    place.run([*sign, "-days", "2", "-extfile", "san", "-out", "broker.pem"])
    (place.path / "ca.pem").chmod(0o644)


def _programs() -> Path:
    # Not /usr/sbin/rabbitmq-server: that one is for the system's service and changes to its user.
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
    if not found:
        raise ServerFailed("RabbitMQ is not installed: tools/setup installs what bindep.txt names")
    return found[-1]
