"""`memhint agent`: the daemon of one host, where more is asked than to run it."""

from __future__ import annotations

import argparse

from memhint.cli.agent_run import run_agent
from memhint.cli.base import StoreCommand


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
        return run_agent(self.app.options.config_file, self.app.options.log_file)
