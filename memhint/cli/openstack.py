"""`memhint openstack status`, `adopt` and `uninstall`: how memhint stands to Placement, and the way out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cliff.lister import Lister

from memhint.cli.base import HostCommand
from memhint.cli.errors import CliError, Exit
from memhint.controller.openstack import placement_of
from memhint.controller.ratios.release import release
from memhint.objects.provider import ProviderRecord
from memhint.openstack.errors import NotThere, OpenStackError
from memhint.store import Store

_COLUMNS = ("host", "provider", "found", "written", "state", "detail")
Rows = tuple[Sequence[str], list[tuple[str, ...]]]


class _Providers(HostCommand, Lister):
    """What these commands have in common."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the hosts."""
        parser.add_argument("hosts", nargs="*", metavar="HOST", help="only these hosts")

    def chosen(self, store: Store, hosts: Sequence[str]) -> tuple[ProviderRecord, ...]:
        """The standings that are meant.

        :raises CliError: when a host has none
        """
        found = store.capacities.all()
        for name in sorted(set(hosts) - {one.host for one in found}):
            raise CliError(Exit.NO_DOMAIN, f"memhint keeps no ratio of {name}: see memhint openstack status")
        return tuple(one for one in found if not hosts or one.host in hosts)

    def each(self, standings: Sequence[ProviderRecord], do: Callable[[ProviderRecord], str]) -> Rows:
        """The rows after something was done with each; one that fails does not stop the others."""
        rows, failed = [], []
        for one in standings:
            try:
                rows.append(_row(one, do(one)))
            except OpenStackError as error:
                failed.append(f"{one.host}: {error}")
        if failed:
            self.failure = CliError(Exit.FAILED, "; ".join(failed))
        return _COLUMNS, rows

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        """The table, or that there is nothing to show."""
        rows = list(data)
        super().produce_output(parsed_args, column_names, rows)
        if not rows and self.failure is None and self.table(parsed_args):
            self.app.stdout.write("There are none: no controller has written a ratio yet.\n")
        return 0


class Status(_Providers):
    """Show the ratio that was found, the one that memhint wrote, and how it stands to each provider."""

    examples = """\
examples:
  memhint openstack status
  memhint openstack status compute-7 --json
"""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """One row per provider."""
        with self.whole_store(self.conf()) as store:
            return self.each(self.chosen(store, parsed_args.hosts), lambda one: one.detail)


class Adopt(_Providers):
    """Keep the ratio of hosts again that were left alone, because somebody else changed it or it was given back."""

    examples = """\
examples:
  memhint openstack adopt compute-7        after ram_allocation_ratio was unset there, say

The ratio that was found when memhint first came stays the one that uninstall restores.
"""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """One row per provider."""
        conf = self.conf()
        if not parsed_args.hosts:
            raise CliError(Exit.USAGE, "name the hosts that are to be adopted again")
        with self.whole_store(conf) as store:
            placement = placement_of(conf)

            def again(one: ProviderRecord) -> str:
                ratio = placement.inventory(one.provider).ratio
                store.capacities.adopt(one.provider, one.host, ratio, again=True)
                return f"adopted at {ratio:g}"

            return self.each(self.chosen(store, parsed_args.hosts), again)


class Uninstall(_Providers):
    """Put back the ratios that were found, and keep none any more."""

    examples = """\
examples:
  memhint openstack uninstall --dry-run
  memhint openstack uninstall
  memhint openstack uninstall compute-7    take one host out

Controllers may go on meanwhile. A ratio that somebody else has changed since is left as it is. Set [openstack]
capacity = off afterwards.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """One row per provider."""
        conf = self.conf()
        with self.whole_store(conf) as store:
            placement = placement_of(conf)

            def back(one: ProviderRecord) -> str:
                if not parsed_args.dry_run:
                    return release(one, store.capacities, placement)
                one = store.capacities.one(one.provider) or one  # controllers may have written since
                try:
                    now = placement.inventory(one.provider).ratio
                except NotThere:
                    return "the provider is gone"
                if one.may_go_back(now):
                    return f"{now:g} -> {one.adopted:g}"
                return "left as it is: somebody else has changed it"

            return self.each(self.chosen(store, parsed_args.hosts), back)


def _row(one: ProviderRecord, said: str) -> tuple[str, ...]:
    written = "-" if one.written is None else f"{one.written:g}"
    return one.host, one.provider, f"{one.adopted:g}", written, str(one.tenure), said
