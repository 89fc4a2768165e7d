"""`memhint history`: the fleet over time."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from memhint.cli.fleet.points import HOST_POINTS, PointList
from memhint.client.client import Client, Item


class History(PointList):
    """Show the fleet's key numbers over time, summed over all hosts."""

    examples = """\
examples:
  %(prog)s                                      the last day
  %(prog)s --since 7d --step 1h
  %(prog)s --since 7d -f csv > headroom.csv     bytes and unix seconds
"""
    columns = HOST_POINTS

    def points(self, client: Client, parsed_args: argparse.Namespace, **when: float | int | None) -> Sequence[Item]:
        """Oldest first."""
        return client.history(**when)
