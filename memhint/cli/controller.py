"""`memhint controller`: keeps what the agents of a fleet report."""

from __future__ import annotations

import argparse

from memhint.cli.base import StoreCommand
from memhint.cli.errors import CliError, Exit
from memhint.conf.log import set_up
from memhint.openstack.errors import OpenStackError


class Controller(StoreCommand):
    """Take the reports of all agents from the broker into the store, until it is told to end."""

    examples = """\
examples:
  memhint controller
  memhint controller --config-file /etc/memhint/memhint.conf

It runs in the foreground and logs as the configuration says. Any number of them may run, on any hosts.
"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run until the end; the exit code."""
        conf = self.conf()
        from memhint.bus.errors import BusError
        from memhint.controller.service import run

        set_up(conf, "controller", self.app.options.log_file)
        try:
            return run(conf)
        except (BusError, OpenStackError) as error:
            raise CliError(Exit.USAGE, str(error)) from error
