"""What asking a guest for page cache on this host and in the fleet have in common: arguments, and how it ends."""

from __future__ import annotations

import argparse

from memhint.cli.exits import CliError, Exit
from memhint.cli.fleet.times import span
from memhint.objects.reclaim import HOLD_MAX, PSI_LIMIT, TIMEOUT, ReclaimState

NEEDS = """
It needs guest_actions=allow for the VM, and the guest agent of memhint in the guest. The guest's kernel chooses what
it gives up; it stops when the guest loses more of its time waiting for memory than --psi-limit. With --hold the
command returns when the hold begins; the same limit, or a guest that uses its cache again, ends it.
"""
SETTLED = frozenset(one for one in ReclaimState if one.ended or one is ReclaimState.HOLDING)
"""The guest has given up what it gives up by itself: a hold may go on for an hour."""

_EXITS = {
    ReclaimState.FAILED: Exit.FAILED,
    ReclaimState.REFUSED: Exit.REFUSED,
    ReclaimState.EXPIRED: Exit.NO_REPORT,
}


def add_limits(parser: argparse.ArgumentParser) -> None:
    """How far it goes, and whether to wait; a limit that is not given is None."""
    parser.add_argument(
        "--psi-limit",
        type=float,
        metavar="PCT",
        help=f"stop when the guest loses more of its time than this waiting for memory (default: {PSI_LIMIT:g})",
    )
    parser.add_argument("--timeout", type=float, metavar="S", help=f"stop after so long (default: {TIMEOUT:g})")
    parser.add_argument(
        "--hold",
        type=span,
        metavar="TIME",
        help=f"take back what the guest fills again without using it, for so long, {HOLD_MAX / 60:g}m at most "
        "(default: not)",
    )
    parser.add_argument("--reason", default="by hand", metavar="TEXT", help="why, for the record")
    parser.add_argument("--dry-run", action="store_true", help="show what would be asked, and ask for nothing")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it has ended")


def failure_of(vm: str, state: str, verdict: str, look: str) -> CliError | None:
    """What did not end well, None where it did.

    :param look: what to do where it has not ended
    """
    if state not in SETTLED:
        return CliError(Exit.NO_REPORT, f"reclaim of {vm} is still {state}: {look}")
    code = _EXITS.get(ReclaimState(state))
    return None if code is None else CliError(code, f"reclaim of {vm}: {verdict}")
