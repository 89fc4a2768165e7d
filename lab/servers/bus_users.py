"""The users of memhint's bus as doc/install.md describes them: one of the controllers, and one for each host."""

from __future__ import annotations

from collections.abc import Sequence

VHOST = "memhint"
CONTROLLER = "controller"


def rights(hosts: Sequence[str]) -> list[tuple[str, str, str, str, str]]:
    """What each may do in the bus's virtual host; for `lab.servers.rabbitmq.definitions`."""
    agents = [(host, rf"^memhint\.command\.{host}$", r"^memhint\.(report|reply)$") for host in hosts]
    return [(CONTROLLER, VHOST, ".*", ".*", ".*"), *((host, VHOST, own, write, own) for host, own, write in agents)]
