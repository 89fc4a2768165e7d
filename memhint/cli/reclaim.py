"""`memhint reclaim`: have one guest give back page cache, and see what came of it."""

from __future__ import annotations

import argparse
import getpass
import os
import uuid as uuids
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from cliff.show import ShowOne
from oslo_config import cfg

from memhint.cli import words
from memhint.cli.base import HostCommand
from memhint.cli.errors import CliError, Exit
from memhint.cli.find import find_domain
from memhint.cli.reclaim_form import NEEDS, SETTLED, add_limits, failure_of
from memhint.cli.wait import going_on
from memhint.objects.codec import to_plain
from memhint.objects.reclaim import (
    PSI_LIMIT,
    TIME_TO_LIVE,
    TIMEOUT,
    Reclaim,
    ReclaimError,
    ReclaimRequest,
    ReclaimState,
)
from memhint.objects.report import STALE_PERIODS, DomainReport, Report
from memhint.objects.units import mib, parse_size
from memhint.store.host_store import HostStore

_PATIENCE = 20.0  # seconds beyond the request's own times: what was freed comes back, and the agent's cycle
_STEP = 0.25  # seconds between two looks


class ReclaimCommand(HostCommand, ShowOne):
    """Have a guest give back page cache that it has not used recently, and wait for what comes of it."""

    examples = (
        """\
examples:
  memhint reclaim web-1 --dry-run              what would be asked of the guest
  memhint reclaim web-1                        all page cache it has not used recently
  memhint reclaim web-1 --bytes 512MiB         so much of it at most
  memhint reclaim web-1 --percent 50           so much of its page cache at most
  memhint reclaim web-1 --hold 10m             and keep it from filling its page cache again for so long
  memhint reclaim web-1 --psi-limit 5 --timeout 20
  memhint reclaim web-1 --no-wait --json | jq -r .request.id
"""
        + NEEDS
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("domain", metavar="DOMAIN", help="name or UUID")
        amount = parser.add_mutually_exclusive_group()
        amount.add_argument("--bytes", metavar="SIZE", help="at most so much, such as 512MiB")
        amount.add_argument(
            "--percent", type=float, metavar="P", help="at most so much, in percent of all page cache it has now"
        )
        amount.add_argument("--all", action="store_true", help="all that was not used recently (default)")
        add_limits(parser)
        parser.set_defaults(psi_limit=PSI_LIMIT, timeout=TIMEOUT, hold=0)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Field names and values."""
        conf = self.conf()
        with self.store(conf) as store:
            report = self.fresh(conf, store)
            domain = find_domain(report, parsed_args.domain)
            queued = Reclaim(self._request(domain, parsed_args))
            try:
                store.reclaims.add(queued)
            except ReclaimError as error:
                raise CliError(Exit.USAGE, str(error)) from error
            found = queued if parsed_args.no_wait else self._follow(conf, store, report, queued)
        self.failure = None if parsed_args.no_wait else self._end(domain, found)
        self.formatter = self.table(parsed_args) or self.formatter
        shown = _rows(domain, found) if self.table(parsed_args) else reclaim_of(domain, found)
        return self.dict2columns(shown)

    def _end(self, domain: DomainReport, found: Reclaim) -> CliError | None:
        look = "is the agent running? see: memhint status"
        return failure_of(domain.observation.name, found.state, str(found.verdict), look)

    def _request(self, domain: DomainReport, parsed_args: argparse.Namespace) -> ReclaimRequest:
        at = self.app.clock()
        try:
            return ReclaimRequest(
                id=str(uuids.uuid4()),
                uuid=domain.observation.uuid,
                size=_size(domain, parsed_args),
                psi_limit=parsed_args.psi_limit,
                timeout=parsed_args.timeout,
                reason=parsed_args.reason,
                by=f"operator {_user()}",
                at=at,
                expires=at + TIME_TO_LIVE,
                dry_run=parsed_args.dry_run,
                hold=float(parsed_args.hold),
            ).check()
        except ReclaimError as error:
            raise CliError(Exit.USAGE, str(error)) from error

    def _follow(self, conf: cfg.ConfigOpts, store: HostStore, report: Report, queued: Reclaim) -> Reclaim:
        """The request as it ended or holds, or as it is when waiting longer makes no sense."""
        request, shown, clock, terminal = queued.request, queued, self.app.monotonic, self.app.stderr
        since = clock()  # of the wait that goes on: for its beginning, then for its end. `begun` is of another clock
        queue = max(TIME_TO_LIVE, STALE_PERIODS * report.period)
        with ExitStack() as stack:
            stack.enter_context(going_on(terminal, f"request {request.id} goes on, within its limits"))
            status: Any = None
            if terminal.isatty():
                from rich.console import Console

                status = stack.enter_context(Console(file=terminal).status("waiting for the agent…"))
            while shown.state not in SETTLED:
                before, shown = shown, store.reclaims.get(request.id) or shown
                if before.begun is None and shown.begun is not None:
                    since = clock()
                waited = clock() - since
                if waited > _PATIENCE + (queue if shown.begun is None else request.timeout):
                    return shown
                if status is not None:
                    status.update(_progress(shown, waited))
                if shown.state not in SETTLED:
                    self.app.sleep(_STEP)
        return shown


def reclaim_of(domain: DomainReport, found: Reclaim) -> dict[str, Any]:
    """A request for machines: bytes, seconds, percent; null is unknown."""
    return {"name": domain.observation.name, **to_plain(found), "returned": found.returned}


def _size(domain: DomainReport, parsed_args: argparse.Namespace) -> int | None:
    if parsed_args.bytes is not None:
        try:
            return parse_size(parsed_args.bytes)
        except ValueError as error:
            raise CliError(Exit.USAGE, f"--bytes: {error}") from error
    if parsed_args.percent is None:
        return None
    if not 0 < parsed_args.percent <= 100:
        raise CliError(Exit.USAGE, f"--percent {parsed_args.percent:g}: say more than 0, and 100 at most")
    guest = domain.observation.guest
    if guest is None or guest.cached is None:
        name = domain.observation.name
        raise CliError(Exit.REFUSED, f"how much page cache {name} has is unknown: say --bytes, or see domains {name}")
    return int(guest.cached * parsed_args.percent / 100)


def _user() -> str:
    try:
        return (os.environ.get("SUDO_USER") or getpass.getuser())[:32]
    except (KeyError, OSError):
        return str(os.getuid())


def _progress(shown: Reclaim, waited: float) -> str:
    if shown.state is ReclaimState.QUEUED:
        return f"waiting for the agent, {waited:.0f} s…"
    return (
        f"{mib(shown.reclaimed)} of {mib(shown.asked)} MiB reclaimed, {mib(shown.returned)} returned, {waited:.0f} s…"
    )


def _rows(domain: DomainReport, found: Reclaim) -> dict[str, str]:
    request, took = found.request, None
    end = found.ended if found.held is None else found.held.since
    if found.begun is not None and end is not None:
        took = end - found.begun
    return {
        "VM": domain.observation.name,
        "Request": request.id,
        "State": str(found.state),
        "Verdict": str(found.verdict),
        "Asked": words.size(found.asked) if found.asked is not None else _wished(request),
        "Reclaimed": f"{words.size(found.reclaimed)} (the guest's word)",
        "Returned": f"{words.size(found.returned)} (seen by the host)",
        "Footprint": f"{mib(found.before)} MiB before, {mib(found.after)} MiB after",
        "Compaction": str(found.compaction),
        "Flushed": "-" if found.flushed is None else words.size(found.flushed),
        "Stopped": str(found.stop) if found.stop else "-",
        "Pressure": "-" if found.pressure is None else f"{found.pressure:.1f} % at most, limit {request.psi_limit:g} %",
        "Hold": words.hold_line(request.hold, found.held),
        "Took": "-" if took is None else f"{took:.1f} s in {found.calls} calls",
    }


def _wished(request: ReclaimRequest) -> str:
    return "all that is cold" if request.size is None else words.size(request.size)
