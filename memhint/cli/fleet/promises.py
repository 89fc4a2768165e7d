"""`memhint promises`: whether hosts had what they promised."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from memhint.cli.fleet.base import FleetShow, Rows
from memhint.cli.fleet.times import moment as moment_of
from memhint.cli.fleet.times import unix
from memhint.cli.words import moment, size
from memhint.client.client import Item
from memhint.objects.counted import counted

SHOWN = 20  # hosts


class Promises(FleetShow):
    """Show in how many hours all hosts could have given what they promised, and which could not."""

    examples = """\
examples:
  %(prog)s                                      the last seven days
  %(prog)s --since 24h
  %(prog)s -f json | jq -r '.broken[].host'

An hour is judged once it is over. It held where the host could have given all that it promised as the hour began,
whether it was asked for or not. Hosts are in the order of how many hours did not hold.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument(
            "--since", type=moment_of, metavar="WHEN", help="6h (ago), or 2026-01-31T12:00 (UTC); default: a week ago"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """The fleet, and the hosts that broke a promise."""
        found = self.client().promises(unix(parsed_args.since, time.time()))
        return self.one(parsed_args, found, rows_of(found))


def held_of(one: Mapping[str, Any]) -> str:
    """In how many of the hours that were judged a promise held: rounded down, never a hundred while one did not."""
    return f"held in {10000 * one['held'] // one['hours'] / 100:g} % of {counted(one['hours'], 'hour')}"


def rows_of(one: Item) -> dict[str, str]:
    """What people are shown: the fleet, and host by host whose promise broke."""
    since = f"since {moment(one.get('since'))} UTC"
    if not one.get("hours"):
        return {"Promises": f"no hour is judged {since}"}
    rows = {"Promises": f"{held_of(one)} of {counted(one.get('hosts'), 'host')} {since}"}
    broken = one.get("broken") or ()
    for host in broken[:SHOWN]:
        rows[host["host"]] = f"{held_of(host)}; at worst {size(host['lacked'])} were missing"
    if len(broken) > SHOWN:
        rows["More"] = f"{counted(len(broken) - SHOWN, 'host')}: -f json has all"
    return rows
