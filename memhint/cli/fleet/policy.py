"""`memhint policy show`, `set` and `clear`: an operator's wishes for a VM of the fleet."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from cliff.show import ShowOne

from memhint.cli.exits import CliError, Exit
from memhint.cli.fleet.base import FleetCommand, FleetShow, Rows, machine_rows
from memhint.cli.fleet.records import lever_line, policy_value
from memhint.cli.fleet.vms import add_vm
from memhint.cli.table import clean
from memhint.cli.wishes import add_dry_run, add_wishes, keys_help, wishes_of
from memhint.client.client import Client, Item
from memhint.client.find import find_uuid


class PolicyShow(FleetShow):
    """Show what holds for a VM, and who said so."""

    examples = """\
examples:
  %(prog)s web-1
  %(prog)s web-1 -f json | jq -r .dedup.value
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        add_vm(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        client = self.client()
        found = client.policy(find_uuid(client, parsed_args.vm, parsed_args.host)).values
        return self.one(parsed_args, found, {name: policy_value(name, one) for name, one in found.items()})


class _Change(FleetCommand, ShowOne):
    """What changing it and taking it back have in common."""

    _answer: Item

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what both take."""
        add_vm(parser)
        add_dry_run(parser)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        """What changes, and in a dry run what the levers would do."""
        delivery = self._answer.get("delivery") or {"taken": True}
        if delivery.get("refused"):
            text = f"{parsed_args.vm}: the wish is stored, and not what holds: {delivery.get('detail')}"
            self.failure = CliError(Exit.REFUSED, text)
        table = self.table(parsed_args)
        if table is None:
            super().produce_output(parsed_args, column_names, data)
            return 0
        out = self.app.stdout
        changes = self._answer.get("changes") or []
        rows = [
            (one["key"], policy_value(one["key"], one.get("before")), policy_value(one["key"], one.get("after")))
            for one in changes
        ]
        if rows:
            table.emit_list(("Key", "Before", "After"), rows, out, parsed_args)
        elif delivery.get("taken"):
            out.write("Nothing changes: it holds already.\n")
        levers = self._answer.get("levers") or []
        if levers:
            table.emit_list(
                ("Lever", "Would"), [(one.get("lever"), lever_line(one)) for one in levers], out, parsed_args
            )
        if parsed_args.dry_run:
            out.write("Dry run: nothing was stored.\n")
        elif not delivery.get("refused") and (rows or not delivery.get("taken")):
            out.write(clean(f"{_stored(delivery)} See what becomes of it: {self.named('vm show')} {parsed_args.vm}\n"))
        return 0

    def changed(self, parsed_args: argparse.Namespace, change: Callable[[Client, str], Item]) -> Rows:
        """Have it changed; field names and values for machines."""
        client = self.client()
        uuid = find_uuid(client, parsed_args.vm, parsed_args.host)
        with nullcontext() if parsed_args.dry_run else self.asked_once("policy show", parsed_args.vm):
            self._answer = change(client, uuid)
        names, (values,) = machine_rows([self._answer], [], parsed_args.formatter)
        return names, values


class PolicySet(_Change):
    """Set an operator's wishes for a VM. They are stronger than metadata, flavor, aggregate and host."""

    examples = (
        keys_help()
        + """

examples:
  %(prog)s web-1 reporting=on guest_actions=allow
  %(prog)s web-1 reporting=inherit          leave it to metadata, flavor and host again
  %(prog)s web-1 dedup=on --dry-run         what would hold, and what the levers would do
"""
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        super().add_arguments(parser)
        add_wishes(parser, "takes a wish back")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        values = wishes_of(parsed_args.wishes)
        return self.changed(
            parsed_args, lambda client, uuid: client.set_policy(uuid, values, dry_run=parsed_args.dry_run)
        )


class PolicyClear(_Change):
    """Take all of an operator's wishes for a VM back."""

    examples = """\
examples:
  %(prog)s web-1 --dry-run
  %(prog)s web-1
"""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        return self.changed(parsed_args, lambda client, uuid: client.clear_policy(uuid, dry_run=parsed_args.dry_run))


def _stored(delivery: Item) -> str:
    """Whether its host has it by now."""
    return "Stored." if delivery.get("taken") else f"Stored, and not at its host yet: {delivery.get('detail')}."
