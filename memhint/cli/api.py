"""`memhint api`: serves the admin API and the dashboard."""

from __future__ import annotations

import argparse

from memhint.cli.base import StoreCommand
from memhint.conf.log import set_up


class Api(StoreCommand):
    """Serve the admin API and the dashboard, until it is told to end."""

    examples = """\
examples:
  memhint api
  memhint api --config-file /etc/memhint/memhint.conf

It runs in the foreground and logs as the configuration says. Any number of them may serve one store.
"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run until the end; the exit code."""
        conf = self.conf()
        from memhint.api.server import run

        set_up(conf, "api", self.app.options.log_file)
        return run(conf)
