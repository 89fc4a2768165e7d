"""`memhint agent`: the daemon of one host."""

from __future__ import annotations

import argparse

from memhint.cli.base import StoreCommand
from memhint.cli.errors import CliError, Exit
from memhint.conf.log import set_up


class Agent(StoreCommand):
    """Run the agent: observe, plan, pull levers and publish, until it is told to end."""

    examples = """\
examples:
  memhint agent
  memhint agent --config-file /etc/memhint/memhint.conf

It runs in the foreground, logs as the configuration says, and undoes on SIGTERM what it changed.
"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run until the end; the exit code."""
        conf = self.conf()
        from memhint.agent.lock import AlreadyRunning
        from memhint.agent.service import run

        set_up(conf)
        try:
            return run(conf)
        except AlreadyRunning as error:
            raise CliError(Exit.FAILED, str(error)) from error
