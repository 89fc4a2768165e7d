"""`memhint events` and `memhint refusals`: what happened, and what was not done and why."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

from memhint.cli.fleet.base import FleetList, Rows, host_name, positive, there_is
from memhint.cli.fleet.columns import Column, words
from memhint.cli.fleet.times import moment, unix
from memhint.cli.fleet.watch import AWAY, add_watch, check_watch, tell, until_interrupted, wait_for_restart
from memhint.cli.table import TABLE, clean
from memhint.cli.words import moment as shown_moment
from memhint.client.client import Client, Item
from memhint.client.find import find_uuid
from memhint.client.follow import ChangesLost, Connected, Disconnected, EventReceived

LIMIT = 100
KINDS = ("lever", "appeared", "restarted", "silent", "returned", "lost", "poison", "migration", "capacity")
_NAME = "domain_name"  # which may be gone by the time that something is told again
_BEFORE = 20  # that --watch begins with
_MISSED = 1_000  # that are looked through when it has joined the stream again; the stream itself tells 200 of them
_REMEMBERED = 5_000  # that are not told twice


class _EventCommand(FleetList):
    """What both have in common."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which."""
        super().add_arguments(parser)
        parser.add_argument("--host", metavar="HOST", type=host_name, help="on this host")
        parser.add_argument("--vm", metavar="VM", help="of this VM: name or UUID")
        parser.add_argument("--since", type=moment, metavar="WHEN", help="6h (ago), or 2026-01-31T12:00 (UTC)")
        parser.add_argument("--limit", type=positive, metavar="N", help=f"the newest N (default: {LIMIT})")

    def which(self, client: Client, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """What to ask for."""
        vm = parsed_args.vm
        return {
            "host": parsed_args.host,
            "domain": None if vm is None else find_uuid(client, vm),
            "since": unix(parsed_args.since, time.time()),
        }


class EventList(_EventCommand):
    """List what happened, newest first: what levers did, and what the controllers saw of hosts."""

    examples = """\
examples:
  %(prog)s --since 1h
  %(prog)s --kind silent --since 1d             hosts that went silent
  %(prog)s --vm web-1 --limit 500
  %(prog)s --watch                              as they happen, newest last
  %(prog)s --watch -f json                      a line of JSON for each
"""
    columns = (
        Column("at", "At (UTC)", shown_moment),
        *words("kind", "host", (_NAME, "VM"), ("domain", "UUID"), "lever"),
        *words(("desired", "Wish"), "answer", "reason", "detail"),
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        super().add_arguments(parser)
        parser.add_argument("--kind", choices=KINDS)
        add_watch(parser)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Once, or until interrupted."""
        return until_interrupted(super().run, parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Column names and rows."""
        client = self.client()
        which = {**self.which(client, parsed_args), "kind": parsed_args.kind}
        if parsed_args.watch:
            check_watch(parsed_args, chooses=False)
            self._follow(client, parsed_args, which)
        found = client.events(limit=parsed_args.limit or LIMIT, **which)
        return self.rows(parsed_args, there_is(client, parsed_args.host, found))

    def _follow(self, client: Client, parsed_args: argparse.Namespace, which: dict[str, Any]) -> None:
        shown: dict[tuple[Any, ...], None] = {}
        stood, limit, since = False, parsed_args.limit or _BEFORE, which["since"]
        while True:
            try:
                for news in client.follow():
                    if isinstance(news, EventReceived):
                        self._tell(parsed_args, [news.event], which, shown)
                    elif isinstance(news, (Connected, ChangesLost)):
                        # Listening first, then the list: what happens between the two is in both, and told once.
                        found = list(client.events(limit=limit, **{**which, "since": since}))
                        self._tell(parsed_args, found[::-1], which, shown)
                        if not stood and len(found) == limit:  # from then on, not what was left out on purpose
                            since = found[-1].get("at")
                        stood, limit = True, max(limit, _MISSED)
                    elif isinstance(news, Disconnected):
                        self.say(f"{news.why}; trying again in {news.seconds:.0f} s")
            except AWAY as error:
                if not stood:
                    raise
                wait_for_restart(self, error)

    def _tell(
        self,
        parsed_args: argparse.Namespace,
        events: Sequence[Item],
        which: dict[str, Any],
        shown: dict[tuple[Any, ...], None],
    ) -> None:
        for one in events:
            name = tuple(str(one.get(column.key)) for column in self.columns if column.key != _NAME)
            if name in shown or not _wanted(one, which):
                continue
            shown[name] = None
            if parsed_args.formatter == TABLE:
                line = "  ".join(str(column.cell(one)) for column in self.columns)
                self.app.stdout.write(f"{clean(line)}\n")
            else:
                tell(self.app.stdout, one)
        for name in list(shown)[:-_REMEMBERED]:
            del shown[name]
        self.app.stdout.flush()


class RefusalList(_EventCommand):
    """List what levers were refused lately, newest first, and why."""

    examples = """\
examples:
  %(prog)s
  %(prog)s --host compute-7 --since 1d
  %(prog)s -f json | jq -r '.[].reason' | sort | uniq -c
"""
    columns = tuple(one for one in EventList.columns if one.key != "kind")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Column names and rows."""
        client = self.client()
        found: Iterator[Item] = client.refusals(limit=parsed_args.limit or LIMIT, **self.which(client, parsed_args))
        return self.rows(parsed_args, there_is(client, parsed_args.host, found))


def _wanted(one: Item, which: dict[str, Any]) -> bool:
    if which["since"] is not None and float(one.get("at") or 0) < which["since"]:
        return False
    return all(which[name] is None or one.get(name) == which[name] for name in ("host", "domain", "kind"))
