"""memhint's benches: what doc/measurements.md tells of. What tests and demos measure is in doc/measured-by-tests.md.

examples:
  python -m bench                          # all benches, hours
  python -m bench density --scale full     # one, about an hour
  python -m bench density memhog --scale seed   # at the sizes of the published tests
  python -m bench --list
  python -m bench --document               # doc/measurements.md of what was measured before

MEMHINT_BENCH_ANYWAY=1 in the environment measures although other guests run on the machine, and the result says so.
MEMHINT_BENCH_KERNEL=7.3 counts the instructions of page faults in guests of that version: give it --results of its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from bench.children import end_when_told
from bench.counted_guest import GuestFailed
from bench.harness import document, result
from bench.harness.bench import Bench, say
from bench.harness.environment import machine
from bench.harness.precondition import PreconditionFailed
from bench.harness.registry import NAMES, load
from bench.harness.result import Result
from bench.harness.scale import Scale
from lab.errors import LabError
from lab.interrupt import STATUS, say_when_interrupted

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"


def main(argv: list[str] | None = None) -> int:
    """Run benches: 0 when all ran and met their targets, 1 when one missed, 2 when one was refused or failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all unless given")
    parser.add_argument("--scale", type=Scale, choices=list(Scale), default=Scale.SHORT, help="default: short")
    parser.add_argument(
        "--results", type=Path, help="folder for the results and pictures (default: where they are kept)"
    )
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--document", action="store_true", help="only write doc/measurements.md and its pictures again")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}: there are {', '.join(NAMES)}")
    if options.list:
        for name in NAMES:
            print(f"{name:<12} {load(name).title}")
        return 0
    status = 0 if options.document else _run(options.names or NAMES, options.scale, options.results or RESULTS)
    if options.results is None:
        document.write(kept(), ROOT / "doc")
    return status


def kept(folder: Path = RESULTS) -> list[tuple[Bench, Result | None]]:
    """Every bench, with the newest result of it that is kept."""
    found = []
    for name in NAMES:
        path = folder / f"{name}.json"
        found.append((load(name), result.read(path) if path.exists() else None))
    return found


def _run(names: list[str] | tuple[str, ...], scale: Scale, folder: Path) -> int:
    status = 0
    for number, name in enumerate(names, 1):
        bench = load(name)
        say(f"[{number}/{len(names)}] {name}, {scale.value}: {bench.title}")
        began, around = time.monotonic(), machine()
        try:
            found = bench.measure(scale, say)
        except PreconditionFailed as error:
            say(f"{name} was refused: {error}")
            status = 2
            continue
        except (LabError, GuestFailed) as error:
            say(f"{name} failed: {error}")
            status = 2
            continue
        found = replace(found, environment={**around, **found.environment})
        result.write(found, folder / f"{name}.json")
        print(f"{found}\n", flush=True)
        say(f"{name}: {time.monotonic() - began:.0f} s, {folder / name}.json")
        status = max(status, 0 if found.met else 1)
    return status


if __name__ == "__main__":
    end_when_told()
    say_when_interrupted()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(STATUS)
