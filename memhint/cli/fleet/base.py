"""What commands on the fleet do alike."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from memhint.cli.command import Displayed
from memhint.cli.exits import CliError, Exit
from memhint.cli.fleet import ends
from memhint.cli.fleet.columns import Column
from memhint.cli.fleet.connect import client_of, in_openstack
from memhint.cli.table import Mib
from memhint.cli.wait import going_on
from memhint.client.client import Client, Item
from memhint.client.errors import BadAnswer, Forbidden, NotFound, ServerFailed, Unreachable

_NESTED = ("json", "yaml")  # the formats that can hold a record within a record
_LOCAL = {
    "host list": "hosts",
    "vm list": "vms",
    "event list": "events",
    "refusal list": "refusals",
    "promise show": "promises",
}
_LISTS = {
    "memhint.host.not_found": "host list",
    "memhint.domain.not_found": "vm list",
    "memhint.reclaim.not_found": "reclaim list",
}

Rows = tuple[Sequence[str], Iterable[Any]]


class FleetCommand(Displayed):
    """A command that asks the API."""

    auth_required = True  # OpenStackClient logs in before it runs

    def client(self) -> Client:
        """Whom to ask.

        :raises ClientError: when the settings are wrong
        """
        return client_of(self.app)

    def line_of(self, error: Exception) -> str:
        """One line for a person."""
        text = ends.line_of(error, openstack=in_openstack(self.app))
        # The server speaks of its addresses, a person of commands.
        command = _LISTS.get(error.code) if isinstance(error, NotFound) else None
        return text if command is None else f"{text}; see: {self.named(command)}"

    def exit_of(self, error: Exception) -> Exit:
        """The exit code of an error."""
        return ends.exit_of(error)

    def named(self, command: str) -> str:
        """What a person types for a command, called as OpenStackClient has it: "vm list"."""
        if in_openstack(self.app):
            return f"openstack memhint {command}"
        return f"memhint {_LOCAL.get(command, command)}"

    @contextmanager
    def asked_once(self, command: str, about: str) -> Iterator[None]:
        """Have something done that is not asked for again. Who gets no answer is told how to see whether it was done.

        :param command: the one that shows it, as of `named`, and ``about`` what it is to be asked
        :raises CliError: where the answer does not come, or is a failure: what failed may have come after the change
        """
        hint = f"it may have been done all the same: see {self.named(command)} {about} before asking again"
        try:
            with going_on(self.app.stderr, hint):
                yield
        except (Unreachable, ServerFailed, BadAnswer) as error:
            raise CliError(self.exit_of(error), f"{self.line_of(error)}; {hint}") from error


class FleetList(FleetCommand, Lister):
    """One that lists. ``columns`` are those of tables; ``short`` names the ones shown without --long."""

    columns: Sequence[Column] = ()
    short: Sequence[str] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what lists take."""
        if self.short:
            parser.add_argument("--long", action="store_true", help="all columns of the table")

    def rows(self, parsed_args: argparse.Namespace, items: Iterable[Item]) -> Rows:
        """Column names and rows: for people those that fit a terminal, for machines all there is."""
        table = self.table(parsed_args)
        if table is None:
            return machine_rows(items, [one.key for one in self.columns], parsed_args.formatter)
        self.formatter = table
        shown = self.shown_columns(parsed_args)
        return [one.title for one in shown], [tuple(one.cell(item) for one in shown) for item in items]

    def shown_columns(self, parsed_args: argparse.Namespace) -> Sequence[Column]:
        """The columns of the table."""
        if not self.short or parsed_args.long or parsed_args.columns:
            return self.columns
        return [one for one in self.columns if one.key in self.short]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        """The list, and under a table how much of it there is and in which unit."""
        rows = list(data)
        super().produce_output(parsed_args, column_names, rows)
        if self.table(parsed_args):
            unit = ", memory in MiB" if any(one.show is Mib for one in self.columns) else ""
            self.app.stdout.write(f"{len(rows)} shown{unit}.\n" if rows else "There are none.\n")
        return 0


class FleetShow(FleetCommand, ShowOne):
    """One that shows one thing."""

    def one(self, parsed_args: argparse.Namespace, item: Item, rows: Mapping[str, Any]) -> Rows:
        """Field names and values: ``rows`` for people, ``item`` for machines."""
        table = self.table(parsed_args)
        if table is None:
            names, (values,) = machine_rows([item], [], parsed_args.formatter)
            return names, values
        self.formatter = table
        return tuple(rows), tuple(rows.values())


def machine_rows(items: Iterable[Item], names: Sequence[str], formatter: str) -> tuple[Sequence[str], Iterator[Any]]:
    """Column names and rows under the names of the API; what is nested is JSON where the format has no place for it.

    :param names: those of an empty list
    """
    found = list(items)
    keys = list(found[0]) if found else list(names)
    flat = formatter not in _NESTED
    return keys, (tuple(_flat(one.get(key)) if flat else one.get(key) for key in keys) for one in found)


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


positive.__name__ = "number from 1 on"


def host_name(text: str) -> str:
    """A host's name, for argparse: an empty one would be the address of all hosts."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: say the name of a host")
    return text


def there_is(client: Client, host: str | None, items: Iterable[Item]) -> list[Item]:
    """The items of a host, or of all where it is None. Where there are none, the host may be none either.

    :raises NotFound: when no agent of this name has reported, and the caller may know
    """
    found = list(items)
    if not found and host is not None:
        with suppress(Forbidden):  # who sees a project's VMs only is told of no host
            client.host(host)
    return found


def usage(text: str) -> CliError:
    """A wrong command line."""
    return CliError(Exit.USAGE, text)


def _flat(value: Any) -> Any:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else value
