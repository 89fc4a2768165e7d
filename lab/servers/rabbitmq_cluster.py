"""A cluster of RabbitMQ nodes on one machine, of which a node can be killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from lab.servers.directory import ServerDirectory, ServerFailed, kill, wait_until
from lab.servers.ports import free_ports
from lab.servers.rabbitmq import RabbitMQ

_TOLD = ("name", "messages_ready", "messages_unacknowledged", "leader", "online", "consumers")


class Cluster:
    """Nodes that share a port mapper and a cookie, and find each other by name."""

    def __init__(self, defined: Mapping[str, Any], size: int = 3) -> None:
        """:param defined: virtual hosts, users and their rights, which each node loads at its start."""
        self._place = ServerDirectory.temporary("mqc")
        (mapper,) = free_ports(1)
        self._mapper = mapper
        names = [f"memhint{number}" for number in range(1, size + 1)]
        found = "".join(
            f"cluster_formation.classic_config.nodes.{number} = {name}@localhost\n"
            for number, name in enumerate(names, 1)
        )
        conf = (
            f"cluster_formation.peer_discovery_backend = classic_config\n{found}cluster_partition_handling = ignore\n"
        )
        self.nodes = []
        for name in names:
            place = ServerDirectory.temporary("mq")
            amqp, dist = free_ports(2)
            place.write("ports.json", json.dumps([amqp, dist, mapper]))
            node = RabbitMQ(defined, place, name, conf)
            self.nodes.append(node)
        self._epmd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start every node, and wait until all have joined."""
        self._epmd = self._place.start(["/usr/bin/epmd", "-address", "127.0.0.1", "-port", str(self._mapper)])
        for node in self.nodes:
            node.start(mapper=False)
        wait_until(self._formed, "the cluster to form")

    def urls(self, user: str) -> list[str]:
        """AMQP URL of a user at each node."""
        return [node.url(user) for node in self.nodes]

    def close(self) -> None:
        """End it, and remove its data."""
        for node in self.nodes:
            node.close()
        kill(self._epmd, signal.SIGTERM)
        self._place.remove()

    def whole(self) -> bool:
        """Whether every node takes part, and every quorum queue has all its members back."""
        try:
            return self._formed() and self._settled()
        except (ServerFailed, subprocess.TimeoutExpired):
            return False

    def _settled(self) -> bool:
        told = self.nodes[0].control("list_queues", "-p", "memhint", "name", "online", "--formatter", "json")
        return all(len(one["online"]) == len(self.nodes) for one in json.loads(told) if one["online"])

    def depths(self) -> dict[str, int]:
        """Messages in each queue."""
        told = self.nodes[0].control("list_queues", "-p", "memhint", "name", "messages", "--formatter", "json")
        return {str(one["name"]): int(one["messages"]) for one in json.loads(told)}

    def state(self) -> str:
        """What the nodes say of their queues, and the last of their logs: for the message of a test that waits."""
        said = []
        for node in self.nodes:
            try:
                said.append(node.control("list_queues", "-p", "memhint", *_TOLD))
            except (ServerFailed, subprocess.TimeoutExpired) as error:
                said.append(str(error))
            log = (node.place.path / "log").read_text(errors="replace")
            said.append(f"{node.node}: {log[-2000:]}")
        return "\n".join(said)

    def _formed(self) -> bool:
        """Whether the first node sees all. Only that one is asked: each question is a start of Erlang."""
        try:
            told = json.loads(self.nodes[0].control("cluster_status", "--formatter", "json"))
        except (ServerFailed, subprocess.TimeoutExpired):
            return False  # a node that has just started refuses some questions
        return len(told["running_nodes"]) == len(self.nodes)
