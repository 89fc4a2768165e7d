"""What subcommands on this host's store do alike: their configuration, their report, and how they fail."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from oslo_config import cfg

from memhint import conf as configuration
from memhint.cli.app import MemhintApp
from memhint.cli.command import Displayed, Documented
from memhint.cli.errors import CliError, Exit, exit_of, line_of
from memhint.objects.report import Report

if TYPE_CHECKING:
    from memhint.store.database import Store
    from memhint.store.host_store import HostStore


class StoreCommand(Documented):
    """A subcommand that looks at this host's store."""

    app: MemhintApp

    def line_of(self, error: Exception) -> str:
        """One line for a person."""
        return line_of(error)

    def exit_of(self, error: Exception) -> Exit:
        """The exit code of an error."""
        return exit_of(error)

    def conf(self) -> cfg.ConfigOpts:
        """The configuration of this call.

        :raises ConfigError: when it is wrong
        """
        return configuration.load(self.app.options.config_file)

    def store(self, conf: cfg.ConfigOpts) -> closing[HostStore]:
        """The store that the agent fills, opened as the agent does it.

        :raises StoreError: when it cannot be used
        """
        from memhint.store.host_store import open_host_store

        return closing(open_host_store(conf.store.url, host=conf.host_name, create=False))

    def whole_store(self, conf: cfg.ConfigOpts) -> closing[Store]:
        """The same with all that controllers keep in it: SQLAlchemy takes two fifths of a command's start.

        :raises StoreError: when it cannot be used
        """
        from memhint.store.database import open_store

        return closing(open_store(conf.store.url, host=conf.host_name, create=False))

    def newest(self, conf: cfg.ConfigOpts, store: HostStore) -> Report:
        """This host's newest report, however old.

        :raises CliError: when there is none
        """
        report = store.reports.newest(conf.host_name)
        if report is not None:
            return report
        others = ", ".join(store.reports.hosts())
        hint = (
            f"the store has those of {others}, see host_name in the configuration"
            if others
            else _what_now(conf.host_name)
        )
        raise CliError(Exit.NO_REPORT, f"no report of {conf.host_name}: {hint}")

    def fresh(self, conf: cfg.ConfigOpts, store: HostStore) -> Report:
        """This host's newest report, which is fresh.

        :raises CliError: when there is none
        """
        report = self.newest(conf, store)
        if report.stale(self.app.clock()):
            raise CliError(Exit.NO_REPORT, stale_text(report, self.app.clock()))
        return report


class HostCommand(StoreCommand, Displayed):
    """One with output."""


def stale_text(report: Report, now: float) -> str:
    """Why a report does not count, and what to do."""
    if report.at > now:
        told = f"is {report.at - now:.0f} s ahead of this host's clock, which was set back since"
        return f"the newest report of {report.host} {told}: {_what_now(report.host)}"
    return (
        f"the newest report of {report.host} is {report.age(now):.0f} s old and comes every {report.period:g} s: "
        f"{_what_now(report.host)}"
    )


def _what_now(host: str) -> str:
    """What to do where no report is new."""
    from memhint.agent.lock import is_held

    if is_held(host):
        return "the agent runs, but makes no plan or cannot keep it, its log says why: journalctl -u memhint-agent"
    return "the agent is not running, start it with: memhint agent"
