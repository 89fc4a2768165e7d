"""--watch: a list that is kept up to date by the stream of changes."""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memhint.cli.exits import Exit
from memhint.cli.fleet.base import FleetList, Rows, positive, usage
from memhint.cli.fleet.screen import Screen
from memhint.cli.table import TABLE
from memhint.client.client import Changes, Client, Item, Listing
from memhint.client.errors import Expired, ServerFailed, TooMany, Unreachable
from memhint.client.follow import ChangesLost, Disconnected, News

AWAY = (Unreachable, ServerFailed, TooMany)
"""What is asked beside a stream may meet a restart of the API: who has seen it stand asks again."""
AGAIN = 5.0  # seconds


class WatchedList(FleetList):
    """A list with --watch. ``member`` is its name in the API, ``key`` what an item is known by, ``sort_keys`` what
    it is sorted by.
    """

    member = ""
    key = ""
    sort_keys: Sequence[str] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add it, and which items in which order."""
        super().add_arguments(parser)
        add_watch(parser)
        self.add_filters(parser)
        keys = ", ".join(self.sort_keys)
        parser.add_argument(
            "--sort", metavar="KEY[:asc|desc]", type=self._sort, help=f"by one of: {keys} (default: name)"
        )
        parser.add_argument("--limit", type=positive, metavar="N", help="the first N of them (default: all)")

    def add_filters(self, parser: argparse.ArgumentParser) -> None:
        """Which items; all where there is nothing to choose by."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Once, or until interrupted."""
        return until_interrupted(super().run, parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Column names and rows."""
        client = self.client()
        if parsed_args.watch:
            check_watch(parsed_args)
            if parsed_args.formatter == "json" and parsed_args.limit is not None:
                raise usage("--watch with JSON tells of every change: leave --limit away")
            self._follow(client, parsed_args)
        return self.rows(parsed_args, self.items(client, parsed_args))

    def items(self, client: Client, parsed_args: argparse.Namespace) -> Iterator[Item]:
        """The list as it is now."""
        raise NotImplementedError

    def everything(self, client: Client, parsed_args: argparse.Namespace) -> Listing:
        """All items of it, and from where on changes are told."""
        raise NotImplementedError

    def stream(self, client: Client, listing: Listing) -> Iterator[News]:
        """What tells that something may have changed."""
        raise NotImplementedError

    def changes(self, client: Client, parsed_args: argparse.Namespace, since: str, news: News) -> Changes | None:
        """What changed since then; None where the news tell of nothing.

        :raises Expired: when it can no longer be told
        """
        raise NotImplementedError

    def wanted(self, parsed_args: argparse.Namespace, item: Item) -> bool:
        """Whether an item is of the list."""
        return True

    def _sort(self, given: str) -> str:
        """A key with or without a direction, for argparse."""
        name, _, direction = given.partition(":")
        if name not in self.sort_keys or (":" in given and direction not in ("asc", "desc")):
            keys = ", ".join(self.sort_keys)
            raise argparse.ArgumentTypeError(f"{given!r}: write KEY, KEY:asc or KEY:desc, KEY one of {keys}")
        return given

    def _follow(self, client: Client, parsed_args: argparse.Namespace) -> None:
        view = _View(self, parsed_args)
        stood = False
        while True:
            try:
                listing = self.everything(client, parsed_args)
                view.begin(listing.items)
                token = listing.changed
                for news in self.stream(client, listing):
                    stood = True
                    if isinstance(news, ChangesLost):
                        break
                    if isinstance(news, Disconnected):
                        self.say(f"{news.why}; trying again in {news.seconds:.0f} s")
                        continue
                    found = self.changes(client, parsed_args, token, news)
                    if found is not None:
                        token = found.changed
                        view.change(found)
            except Expired:
                continue
            except AWAY as error:
                if not stood:
                    raise
                wait_for_restart(self, error)


class _View:
    """What is shown of a list."""

    def __init__(self, command: WatchedList, parsed_args: argparse.Namespace) -> None:
        self._command = command
        self._args = parsed_args
        self._screen = Screen(command.app.stdout)
        self._items: dict[str, list[Item]] = {}  # while several hosts say that they have a VM, it has a line of each

    def begin(self, items: Iterable[Item]) -> None:
        """The whole list."""
        self._items = {name: lines for name, lines in self._wanted(items).items() if lines}
        self._show(self._lines(), [])

    def change(self, found: Changes) -> None:
        """Some of it has changed: all lines of these items are told."""
        came: list[Item] = []
        gone = [name for name in found.deleted if self._items.pop(name, None) is not None]
        for name, lines in self._wanted(found.items).items():
            if lines:
                self._items[name] = lines
                came += lines
            elif self._items.pop(name, None) is not None:
                gone.append(name)
        if came or gone:
            self._show(came, gone)

    def _wanted(self, items: Iterable[Item]) -> dict[str, list[Item]]:
        """The lines of each item that are of the list; none where it has others only."""
        found: dict[str, list[Item]] = {}
        for one in items:
            lines = found.setdefault(str(one[self._command.key]), [])
            if self._command.wanted(self._args, one):
                lines.append(one)
        return found

    def _lines(self) -> list[Item]:
        return [one for lines in self._items.values() for one in lines]

    def _show(self, came: Sequence[Item], gone: Sequence[str]) -> None:
        command, args = self._command, self._args
        if args.formatter == "json":
            tell(command.app.stdout, {command.member: came, "deleted": gone})
            return
        lines = self._lines()
        shown = arranged(lines, args.sort or "name", args.limit)
        names, rows = command.rows(args, shown)
        command.check_columns(args, names)
        titles, selector = command._generate_columns_and_selector(args, names)
        if selector:
            rows = [list(command._compress_iterable(row, selector)) for row in rows]
        # Columns that cliff makes narrow for the terminal give each item several lines, and still do not fit.
        width = args.max_width or (0 if args.fit_width else sys.maxsize)
        text = io.StringIO()
        command.formatter.emit_list(titles, rows, text, argparse.Namespace(**{**vars(args), "max_width": width}))
        self._screen.show(text.getvalue(), f"{len(shown)} of {len(lines)}, memory in MiB. Ctrl-C ends it.")


def add_watch(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on and show each change until interrupted; with -f json a line for each",
    )


def check_watch(parsed_args: argparse.Namespace, *, chooses: bool = True) -> None:
    """Whether what is asked for can go on for ever.

    :param chooses: whether the command can show some columns only
    :raises CliError: when it cannot
    """
    if parsed_args.formatter not in (TABLE, "json"):
        raise usage(f"--watch shows a table or JSON, not {parsed_args.formatter}")
    if parsed_args.columns and (parsed_args.formatter == "json" or not chooses):
        raise usage("--watch tells the whole of each change here: leave --column away")


def until_interrupted(run: Any, parsed_args: argparse.Namespace) -> int:
    """Run; who watches ends it by Ctrl-C, which is no failure."""
    try:
        return int(run(parsed_args))
    except KeyboardInterrupt:
        if not parsed_args.watch:
            raise
        return Exit.DONE


def wait_for_restart(command: FleetList, error: Exception) -> None:
    """Say what went wrong, and wait before it is tried again."""
    command.say(f"{error}; trying again in {AGAIN:.0f} s")
    time.sleep(AGAIN)


def tell(out: Any, document: object) -> None:
    """A line of JSON, at once."""
    out.write(f"{json.dumps(document)}\n")
    out.flush()


def arranged(items: Iterable[Item], sort: str, limit: int | None) -> list[Item]:
    """The first ``limit`` items in the order of ``sort`` ("headroom:desc"); what is unknown comes last."""
    name, _, direction = sort.partition(":")
    found = list(items)
    known = sorted(
        (one for one in found if one.get(name) is not None), key=lambda one: one[name], reverse=direction == "desc"
    )
    return [*known, *(one for one in found if one.get(name) is None)][:limit]
