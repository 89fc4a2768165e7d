"""A RabbitMQ broker of a test, with the users of memhint's bus, TLS, and looks into its queues."""

from __future__ import annotations

import pika

from lab.servers import rabbitmq
from lab.servers.bus_users import CONTROLLER, rights
from lab.servers.directory import ServerDirectory, kill, wait_until
from lab.servers.ports import free_ports
from lab.servers.rabbitmq import PASSWORD, definitions
from memhint.bus.topology import DEAD, RECORD, STATE, declare

HOSTS = ("host-a", "host-b")
_CONF = """\
heartbeat = 10
listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.cacertfile = {place}/ca.pem
ssl_options.certfile = {place}/broker.pem
ssl_options.keyfile = {place}/broker.key
"""


class RabbitMQ(rabbitmq.RabbitMQ):
    """One node, with a user for each host as doc/install.md describes them."""

    def __init__(self, name: str = "memhint") -> None:
        place = ServerDirectory.temporary("mq")
        (self.tls_port,) = free_ports(1)
        self.ca = place.path / "ca.pem"
        _certificates(place)
        super().__init__(definitions(rights(HOSTS)), place, name, _CONF.format(port=self.tls_port, place=place.path))

    def kill(self) -> None:
        """As a power cut would, but not within a second of a queue's making."""
        wait_for_queues(self)
        kill(self.process)

    def tls_url(self, user: str) -> str:
        return f"amqps://{user}:{PASSWORD}@localhost:{self.tls_port}/memhint"

    def connect(self, user: str = CONTROLLER) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(self.url(user)))

    def begin(self) -> None:
        """Have memhint's queues, with nothing in them."""
        with self.connect() as connection:
            declare(connection.channel())
        self.purge(STATE, RECORD, DEAD)

    def depth(self, queue: str) -> int:
        with self.connect() as connection:
            return connection.channel().queue_declare(queue, passive=True).method.message_count

    def purge(self, *queues: str) -> None:
        with self.connect() as connection:
            for queue in queues:
                connection.channel().queue_purge(queue)


def wait_for_queues(node: rabbitmq.RabbitMQ) -> None:
    """Until a node has written down which queues it has: where it is killed before, they hang afterwards."""
    names = node.place.path / "data" / node.node / "quorum" / node.node / "names.dets"
    wait_until(lambda: all(one.encode() in names.read_bytes() for one in (STATE, RECORD, DEAD)), "the queues on disk")


def _certificates(place: ServerDirectory) -> None:
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    place.run([*new, "-x509", "-subj", "/CN=memhint test", "-keyout", "ca.key", "-out", "ca.pem"])
    place.run([*new, "-subj", "/CN=localhost", "-keyout", "broker.key", "-out", "broker.csr"])
    place.write("san", "subjectAltName=DNS:localhost\n")
    sign = ["openssl", "x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    place.run([*sign, "-days", "2", "-extfile", "san", "-out", "broker.pem"])
    (place.path / "ca.pem").chmod(0o644)
