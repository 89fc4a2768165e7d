"""Key numbers over time, of whatever has them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from memhint.cli.fleet.base import FleetList, Rows, usage
from memhint.cli.fleet.columns import Column, numbers, sizes
from memhint.cli.fleet.times import moment, span, unix
from memhint.cli.words import moment as shown_moment
from memhint.client.client import Client, Item

AT = (Column("at", "At (UTC)", shown_moment), *numbers(("span", "Span s")))
HOST_POINTS = (
    *AT,
    *sizes(
        "headroom",
        ("nominal_headroom", "Nominal"),
        "assigned",
        "footprint",
        "resident",
        "available",
        ("swap_used", "Swap"),
    ),
    *numbers(("psi", "PSI %")),
)


class PointList(FleetList):
    """A history."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which time."""
        super().add_arguments(parser)
        self.add_subject(parser)
        parser.add_argument(
            "--since", type=moment, metavar="WHEN", help="6h (ago), or 2026-01-31T12:00 (UTC); default: a day ago"
        )
        parser.add_argument("--until", type=moment, metavar="WHEN", help="the same; default: now")
        parser.add_argument(
            "--step", type=span, metavar="SPAN", help="one point, the worst, of each such span: 5m or 1h"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Column names and rows."""
        now = time.time()
        since, until = unix(parsed_args.since, now), unix(parsed_args.until, now)
        if since is not None and since >= (now if until is None else until):
            raise usage("--since has to be before --until, which is now unless it is given")
        found = self.points(
            self.client(),
            parsed_args,
            since=since,
            until=until,
            step=parsed_args.step,
        )
        return self.rows(parsed_args, found)

    def add_subject(self, parser: argparse.ArgumentParser) -> None:
        """Whose history it is."""

    def points(self, client: Client, parsed_args: argparse.Namespace, **when: float | int | None) -> Sequence[Item]:
        """Oldest first."""
        raise NotImplementedError
