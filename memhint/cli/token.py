"""`memhint token create`: a new token for the API."""

from __future__ import annotations

import argparse

from memhint.cli.base import StoreCommand
from memhint.cli.errors import CliError, Exit


class Create(StoreCommand):
    """Make a token for [api] auth = token, and the line that lets it in."""

    examples = """\
examples:
  memhint token create alice --role admin
  memhint token create nova --role service
  memhint token create shop --role reader --project 4f9a…    sees VMs of that project only

The token is shown once, on stderr, and kept nowhere. Standard output is the line for the token file:
  memhint token create alice --role admin >> /etc/memhint/tokens
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("name", metavar="NAME", help="whose token it is, for the log")
        parser.add_argument(
            "--role",
            action="append",
            required=True,
            choices=("admin", "service", "reader"),
            help="may be given more than once",
        )
        parser.add_argument("--project", metavar="ID", help="a reader's alone: it sees the VMs of this project only")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print both."""
        from memhint.api.tokens import TokenFileError, create

        try:
            token, entry = create(parsed_args.name, parsed_args.role, parsed_args.project)
        except TokenFileError as error:
            raise CliError(Exit.USAGE, str(error)) from error
        self.app.stdout.write(f"{entry.line()}\n")
        self.app.stdout.flush()  # a token whose line could not be written would be of no use
        self.app.stderr.write(f"{token}\n")
        return 0
