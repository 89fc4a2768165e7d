"""`memhint reclaim create`, `list`, `show` and `interrupt`: have guests of the fleet give page cache back."""

from __future__ import annotations

import argparse
import time

from memhint.cli.exits import CliError
from memhint.cli.fleet.base import FleetList, FleetShow, Rows, positive, usage
from memhint.cli.fleet.columns import Column, numbers, sizes, text, words
from memhint.cli.fleet.records import hold_line, verdict_line
from memhint.cli.fleet.times import moment as moment_word
from memhint.cli.fleet.times import unix
from memhint.cli.fleet.vms import add_vm
from memhint.cli.fleet.watch import AWAY
from memhint.cli.reclaim_form import NEEDS, SETTLED, add_limits, failure_of
from memhint.cli.wait import going_on, wait_for
from memhint.cli.words import moment, size
from memhint.client.client import Client, Item
from memhint.client.errors import ClientError
from memhint.client.find import find_uuid
from memhint.objects.reclaim import TIME_TO_LIVE, TIMEOUT, ReclaimState
from memhint.objects.units import parse_size

LIMIT = 100
_PATIENCE = 30.0  # seconds beyond the request's own times: what was freed comes back, and reports travel
_STEP = 1.0  # seconds between two looks


class ReclaimCreate(FleetShow):
    """Have a guest give back page cache that it has not used recently, and wait for what comes of it."""

    examples = (
        """\
examples:
  %(prog)s web-1 --dry-run                      what would be asked of the guest
  %(prog)s web-1                                all page cache it has not used recently
  %(prog)s web-1 --bytes 512MiB --reason "maintenance of compute-7"
  %(prog)s web-1 --hold 10m                     and keep it from filling its page cache again for so long
  %(prog)s web-1 --no-wait -f value -c id       the request's id, for later
"""
        + NEEDS
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        add_vm(parser)
        parser.add_argument(
            "--bytes", metavar="SIZE", help="at most so much, such as 512MiB (default: all that was not used recently)"
        )
        add_limits(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        try:
            wanted = None if parsed_args.bytes is None else parse_size(parsed_args.bytes)
        except ValueError as error:
            raise usage(f"--bytes: {error}") from None
        client = self.client()
        uuid = find_uuid(client, parsed_args.vm, parsed_args.host)
        with self.asked_once("reclaim list", f"--vm {parsed_args.vm}"):
            queued = client.reclaim(
                uuid,
                parsed_args.reason,
                bytes=wanted,
                psi_limit=parsed_args.psi_limit,
                timeout=parsed_args.timeout,
                hold=parsed_args.hold,
                dry_run=parsed_args.dry_run or None,
            )
        say_delivery(self, queued)
        found = queued if parsed_args.no_wait else self._wait(client, queued)
        self.failure = None if parsed_args.no_wait else self._end(parsed_args.vm, found)
        return self.one(parsed_args, found, _rows(found))

    def _wait(self, client: Client, queued: Item) -> Item:
        """The request as it ended or holds, or as it is when waiting longer makes no sense."""
        number, away = str(queued["id"]), False

        def look() -> Item | None:
            nonlocal away
            try:
                now = client.one_reclaim(number)
            except AWAY as error:  # a restart of the API, say: the request goes on
                if not away:
                    self.say(f"{error}; asking for request {number} again")
                away = True
                return None
            away = False
            return now if now.get("state") in SETTLED else None

        seconds = TIME_TO_LIVE + float(queued.get("timeout") or TIMEOUT) + _PATIENCE
        try:
            with going_on(self.app.stderr, f"it goes on; to end it: {self.named('reclaim interrupt')} {number}"):
                settled = wait_for(
                    look,
                    seconds,
                    clock=time.monotonic,
                    sleep=time.sleep,
                    terminal=self.app.stderr,
                    text="waiting for the agent…",
                    step=_STEP,
                    piped=True,
                )
            return settled or client.one_reclaim(number)
        except ClientError as error:
            where = f"request {number} may go on: see {self.named('reclaim show')} {number}"
            raise CliError(self.exit_of(error), f"{self.line_of(error)}; {where}") from error

    def _end(self, vm: str, found: Item) -> CliError | None:
        look = f"is its agent running? see: {self.named('reclaim show')} {found.get('id')}"
        return failure_of(vm, str(found.get("state")), verdict_line(found.get("verdict")), look)


class ReclaimList(FleetList):
    """List such requests, newest first."""

    examples = """\
examples:
  %(prog)s --since 1d
  %(prog)s --vm web-1
  %(prog)s --state running
"""
    columns = (
        Column("at", "At (UTC)", moment),
        *words(("id", "Request"), ("domain", "VM"), "host", "state"),
        *sizes(("bytes", "Asked"), "returned"),
        *words(("stop", "Stopped"), "by", "reason"),
        *numbers(("psi_limit", "PSI limit"), "timeout", "hold"),
        Column("held", "Held", lambda found: hold_line(0.0, found)),
        Column("verdict", "Verdict", verdict_line),
    )
    short = ("at", "id", "domain", "host", "state", "bytes", "returned", "reason")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        super().add_arguments(parser)
        parser.add_argument("--vm", metavar="VM", help="to this VM: name or UUID")
        parser.add_argument("--host", metavar="HOST", help="on this host")
        parser.add_argument("--state", choices=[str(one) for one in ReclaimState])
        parser.add_argument("--since", type=moment_word, metavar="WHEN", help="6h (ago), or 2026-01-31T12:00 (UTC)")
        parser.add_argument(
            "--limit", type=positive, default=LIMIT, metavar="N", help=f"the newest N (default: {LIMIT})"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Column names and rows."""
        client = self.client()
        found = client.reclaims(
            limit=parsed_args.limit,
            domain=None if parsed_args.vm is None else find_uuid(client, parsed_args.vm),
            host=parsed_args.host,
            state=parsed_args.state,
            since=unix(parsed_args.since, time.time()),
        )
        return self.rows(parsed_args, found)


class ReclaimShow(FleetShow):
    """Show such a request and what became of it."""

    examples = """\
examples:
  %(prog)s 0d9a6a52-7ad0-4f0e-8a54-3c6e1d7b9f10
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("request", metavar="REQUEST", help="its id")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        found = self.ask(self.client(), parsed_args.request)
        return self.one(parsed_args, found, _rows(found))

    def ask(self, client: Client, number: str) -> Item:
        """The request."""
        return client.one_reclaim(number)


class ReclaimInterrupt(ReclaimShow):
    """Interrupt such a request. What the guest has given back until then stays given."""

    examples = """\
examples:
  %(prog)s 0d9a6a52-7ad0-4f0e-8a54-3c6e1d7b9f10
"""

    def ask(self, client: Client, number: str) -> Item:
        """End it."""
        with self.asked_once("reclaim show", number):
            found = client.interrupt(number)
        say_delivery(self, found)
        return found


def say_delivery(command: FleetShow, found: Item) -> None:
    """Tell whether the host's agent does not know of it yet; it is kept either way."""
    delivery = found.get("delivery") or {"taken": True}
    if not delivery.get("taken"):
        what = "stored, and refused" if delivery.get("refused") else "stored, and not at its host yet"
        command.say(f"request {text(found.get('id'))}: {what}: {text(delivery.get('detail'))}")


def _rows(found: Item) -> dict[str, str]:
    asked = "all that was not used recently" if found.get("bytes") is None else size(found["bytes"])
    return {
        "Request": text(found.get("id")),
        "VM": text(found.get("domain")),
        "Host": text(found.get("host")),
        "State": text(found.get("state")),
        "Verdict": verdict_line(found.get("verdict")),
        "Asked": f"{asked}{', as a dry run' if found.get('dry_run') else ''}",
        "Returned": f"{size(found.get('returned'))} (seen by the host)",
        "Stopped": text(found.get("stop")),
        "Limits": f"{found.get('psi_limit')} % pressure, {found.get('timeout')} s",
        "Hold": hold_line(found.get("hold") or 0.0, found.get("held")),
        "Interrupted": text(found.get("interrupted")),
        "By": f"{text(found.get('by'))}: {text(found.get('reason'))}",
        "Asked at": f"{moment(found.get('at'))} UTC, to begin before {moment(found.get('expires'))}",
    }
