"""What every subcommand does alike: its help, its configuration, its report, and how it fails."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from cliff.command import Command
from cliff.display import DisplayCommandBase
from oslo_config import cfg

from memhint import conf as configuration
from memhint.cli.app import MemhintApp
from memhint.cli.errors import CliError, Exit, exit_of, line_of
from memhint.cli.table import TABLE, Table
from memhint.objects.report import Report
from memhint.store import Store, open_store

_START = "start it with: memhint agent"


class Base(Command):
    """A subcommand of memhint."""

    app: MemhintApp
    examples = ""

    def get_epilog(self) -> str:
        """The examples of this command; cliff would search every installed package for its origin first."""
        return self.examples

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """A parser whose examples keep their lines."""
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; an error becomes one line on stderr and its exit code."""
        try:
            return super().run(parsed_args) or Exit.DONE
        except BrokenPipeError:
            raise
        except Exception as error:
            if self.app.options.debug:
                self.app.LOG.exception(error)
            else:
                self.app.stderr.write(f"{line_of(error)}\n")
            return exit_of(error)

    def conf(self) -> cfg.ConfigOpts:
        """The configuration of this call.

        :raises ConfigError: when it is wrong
        """
        return configuration.load(self.app.options.config_file)

    @contextmanager
    def store(self, conf: cfg.ConfigOpts) -> Iterator[Store]:
        """The store that the agent fills.

        :raises StoreError: when it cannot be used
        """
        store = open_store(conf.store.url, host=conf.host_name, create=False)
        try:
            yield store
        finally:
            store.close()

    def newest(self, conf: cfg.ConfigOpts, store: Store) -> Report:
        """This host's newest report, however old.

        :raises CliError: when there is none
        """
        report = store.reports.newest(conf.host_name)
        if report is not None:
            return report
        others = ", ".join(store.reports.hosts())
        hint = f"the store has those of {others}, see host_name in the configuration" if others else _START
        raise CliError(Exit.NO_REPORT, f"no report of {conf.host_name}: {hint}")

    def fresh(self, conf: cfg.ConfigOpts, store: Store) -> Report:
        """This host's newest report, which is fresh.

        :raises CliError: when there is none
        """
        report = self.newest(conf, store)
        if report.stale(self.app.clock()):
            raise CliError(Exit.NO_REPORT, stale_text(report, self.app.clock()))
        return report


class Shown(Base, DisplayCommandBase):  # type: ignore[type-arg]
    """A subcommand with output: a table in MiB for people, bytes under machine names in every other format."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the shorthand."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--json",
            dest="formatter",
            action="store_const",
            const="json",
            default=argparse.SUPPRESS,
            help="the same as -f json: complete, in bytes",
        )
        return parser

    def table(self, parsed_args: argparse.Namespace) -> Table | None:
        """Where a table is wanted, the one that aligns sizes."""
        return Table() if parsed_args.formatter == TABLE else None


def stale_text(report: Report, now: float) -> str:
    """Why a report does not count, and what to do."""
    return (
        f"the newest report of {report.host} is {report.age(now):.0f} s old and comes every {report.period:g} s: "
        f"the agent is not running, {_START}"
    )
