"""The reports of a fleet of any size, without keeping the result: to look for what breaks first.

    python -m bench.ingest [--hosts 2000] [--vms 50] [--period 10] [--seconds 60] [--databases postgresql,…]

`python -m bench ingest` measures the fleet that memhint has to bear.
"""

from __future__ import annotations

import argparse
import sys

from bench.harness.bench import say
from bench.harness.precondition import PreconditionFailed
from bench.ingest.load import Load, measure
from bench.suite.ingest import told


def main() -> int:
    """Measure and print; 0 when every database kept up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--vms", type=int, default=50)
    parser.add_argument("--period", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--controllers", type=int, default=2)
    parser.add_argument("--databases", default="postgresql,mariadb,sqlite")
    given = parser.parse_args()
    load = Load(given.hosts, given.vms, given.period, given.seconds, given.controllers)
    arms = []
    for database in given.databases.split(","):
        say(f"{database}: {load}")
        try:
            arms.append((load, measure(database, load)))
        except PreconditionFailed as error:
            say(f"refused: {error}")
    if not arms:
        return 2
    print("\n\n".join(f"{one}" for one in told(arms)))
    return 0 if all(arm.met for _, arm in arms) else 1


if __name__ == "__main__":
    sys.exit(main())
