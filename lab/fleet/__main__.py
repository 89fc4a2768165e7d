"""`python -m lab.fleet`: fill a store with a fleet that is not there, and keep it alive."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from lab.fleet.fill import fill, follow
from lab.fleet.fleet import Fleet, Shape
from memhint.store import StoreError, open_store


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.fleet", description=__doc__)
    parser.add_argument("--url", required=True, help="of the store, as [store] url; its tables are made as needed")
    parser.add_argument("--hosts", type=_number, default=200)
    parser.add_argument("--vms", type=_number, default=20, help="of each host")
    parser.add_argument("--period", type=float, default=10.0, help="seconds between two reports of a host")
    parser.add_argument("--seed", type=int, default=1, help="another one is another fleet")
    parser.add_argument("--past", type=float, default=6.0, help="hours of the hosts' history")
    parser.add_argument("--live", action="store_true", help="go on reporting until told to stop")
    args = parser.parse_args()
    fleet = Fleet(Shape(args.hosts, args.vms, args.period, args.seed))
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stop.append(number))
    try:
        store = open_store(args.url)
    except StoreError as error:
        print(f"lab.fleet: {error}", file=sys.stderr)
        return 1
    try:
        fill(store, fleet, time.time(), past=args.past * 3600)
        print(f"{args.hosts} hosts with {args.vms} VMs each; most unreported: {fleet.most_unreported}", flush=True)
        if args.live:
            follow(store, fleet, lambda: bool(stop))
    finally:
        store.close()
    return 0


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of them: say 1 or more")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
