"""An agent and the command line on a lab's host, for whoever tries things by hand: each takes this process's place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from lab.agent import CHECKOUT, ROLE, AgentProcess
from lab.errors import StateError
from lab.host import Host


def settings_of(words: Sequence[str]) -> dict[str, dict[str, str]]:
    """By group and option, of words such as ``policy.dedup=on``.

    :raises StateError: on a word that is none
    """
    found: dict[str, dict[str, str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        group, dot, option = name.partition(".")
        if not (equals and dot and group and option):
            raise StateError(f"{word!r} is no setting: write GROUP.OPTION=VALUE, such as policy.dedup=on")
        found.setdefault(group, {})[option] = value
    return found


def become_agent(host: Host, settings: Sequence[str]) -> NoReturn:
    """Run the agent in the foreground. Ctrl-C ends it, and it puts back what it changed.

    :raises StateError: where one runs on this host, or on a word that is no setting
    """
    agent, running = AgentProcess(host), host.record.processes.get(ROLE)
    wanted = settings_of(settings)
    if running is not None and running.alive:
        raise StateError(f"an agent runs on {host.name} already, as process {running.pid}")
    agent.configure(wanted)
    agent.note(os.getpid())
    print(
        f"agent of {host.name}: configuration in {agent.config}; Ctrl-C ends it.\n"
        f"In another terminal: lab/lab memhint --name {host.lab.name} {host.name} domains",
        file=sys.stderr,
        flush=True,
    )
    _become(agent, "agent")


def become_memhint(host: Host, words: Sequence[str]) -> NoReturn:
    """Run a command of `memhint` against the agent that was started on this host last.

    :raises StateError: where there was none
    """
    agent = AgentProcess(host)
    if not agent.config.exists():
        raise StateError(f"no agent was started on {host.name}: lab/lab agent --name {host.lab.name} {host.name}")
    _become(agent, *(words or ("status",)))


def _become(agent: AgentProcess, *words: str) -> NoReturn:
    sys.stdout.flush()
    os.chdir(CHECKOUT)
    os.execv(sys.executable, agent.argv(*words))
