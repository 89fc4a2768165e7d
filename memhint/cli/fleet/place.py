"""`memhint place`: where VMs would fit, on paper."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cliff.show import ShowOne

from memhint.cli.exits import CliError, Exit
from memhint.cli.fleet.base import FleetCommand, Rows, host_name, machine_rows, positive, usage
from memhint.cli.fleet.columns import numbers, sizes, words
from memhint.cli.table import clean
from memhint.objects.counted import counted
from memhint.objects.placement import Unfit
from memhint.objects.units import MIB, parse_size

_COLUMNS = (
    *words(("name", "Host")),
    *numbers("placed", ("slots", "Fit"), ("nominal_slots", "Fit nominally")),
    *sizes("headroom"),
)


class Place(FleetCommand, ShowOne):
    """See where VMs would fit. Nothing is changed, nothing is reserved."""

    examples = """\
examples:
  %(prog)s --memory 4GiB --count 50
  %(prog)s --memory 16GiB --host compute-7 --host compute-8
  %(prog)s --memory 4GiB --count 50 -f json | jq '{placed, nominal}'

It ends with code 5 where not all of them fit, and with 3 where a host is named that there is not.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("--memory", metavar="SIZE", required=True, help="of one VM, such as 4GiB")
        parser.add_argument("--count", type=positive, default=1, metavar="N", help="how many (default: 1)")
        parser.add_argument(
            "--host", action="append", default=[], type=host_name, metavar="HOST", help="only there; may be repeated"
        )
        parser.add_argument("--long", action="store_true", help="also each host that takes none, and why")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values for machines; the table is made of the plan."""
        try:
            memory = parse_size(parsed_args.memory)
        except ValueError as error:
            raise usage(f"--memory: {error}") from None
        if memory < MIB:
            raise usage(f"--memory: {parsed_args.memory!r} is {memory} bytes, which is no VM: write 4GiB")
        self._wanted = parsed_args.count
        self._plan = self.client().plan(memory, parsed_args.count, parsed_args.host)
        names, (values,) = machine_rows([self._plan], [], parsed_args.formatter)
        return names, values

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        """Where they go; where not all fit that is the exit code."""
        table = self.table(parsed_args)
        if table is None:
            super().produce_output(parsed_args, column_names, data)
        else:
            self._show(table, parsed_args)
        self.app.stdout.flush()
        strangers = [one["name"] for one in self._plan.get("hosts") or [] if _reason(one) == Unfit.UNKNOWN]
        if strangers:
            told = f"no agent has reported of {', '.join(strangers)}; see: {self.named('host list')}"
            raise CliError(Exit.NO_DOMAIN, told)
        placed = self._plan.get("placed", 0)
        if placed < self._wanted:
            raise CliError(Exit.REFUSED, f"{placed} of {self._wanted} fit: --long says of each host why no more")
        return 0

    def _show(self, table: Any, parsed_args: argparse.Namespace) -> None:
        hosts = self._plan.get("hosts") or []
        chosen = hosts if parsed_args.long else [one for one in hosts if one.get("placed")]
        rows = [
            [*(column.cell(one) for column in _COLUMNS), *([_why(one)] if parsed_args.long else [])] for one in chosen
        ]
        titles = [*(column.title for column in _COLUMNS), *(["Why not"] if parsed_args.long else [])]
        out = self.app.stdout
        if rows:
            table.emit_list(titles, rows, out, parsed_args)
        out.write(
            f"{self._plan.get('placed')} of {self._wanted} placed, on {sum(bool(one.get('placed')) for one in hosts)} "
            f"of {counted(len(hosts), 'host')}; {self._plan.get('nominal')} by assigned memory alone. Memory in MiB.\n"
        )
        against = Counter(one["refusal"]["reason"] for one in hosts if one.get("refusal"))
        if against:
            out.write(clean(f"Hosts that take none: {', '.join(f'{n} {reason}' for reason, n in against.items())}.\n"))


def _reason(one: dict[str, Any]) -> str | None:
    refusal = one.get("refusal")
    return refusal.get("reason") if refusal else None


def _why(one: dict[str, Any]) -> str:
    refusal = one.get("refusal")
    return f"{refusal.get('reason')}: {refusal.get('detail')}" if refusal else "-"
