"""`memhint set`: an operator's wishes for one VM, and what becomes of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cliff.show import ShowOne
from oslo_config import cfg

from memhint.cli.base import HostCommand, stale_text
from memhint.cli.errors import CliError, Exit
from memhint.cli.find import find_domain, unlisted
from memhint.cli.plan import show_levers
from memhint.cli.table import Table
from memhint.cli.wait import going_on, wait_for
from memhint.cli.wishes import INHERIT, add_dry_run, add_wishes, keys_help, wishes_of
from memhint.cli.words import policy_value
from memhint.conf.policy import host_inputs
from memhint.objects.codec import to_plain
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.levers import LEVERS
from memhint.objects.policy import KEYS, Origin, Policy, PolicySetting, check_agree, effective, parse_policy
from memhint.objects.report import STALE_PERIODS, DomainReport, Report
from memhint.objects.verdict import Answer, Reason
from memhint.store.host_store import HostStore

_PATIENCE = 5.0  # seconds beyond the agent's own periods
_REFUSALS = (Answer.REFUSED, Answer.CONFLICT, Answer.UNSUPPORTED)
_NOT_YET = {(Answer.PENDING, Reason.NONE), (Answer.FAILED, Reason.GUEST_TIMEOUT)}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line."""

    values: Mapping[str, str]
    unset: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What became of it. ``seen`` is the agent's first report that shows it; ``levers`` are as it has them, or of a dry
    run as they would be.
    """

    domain: DomainReport
    before: Policy
    after: Policy
    stored: bool
    seen: Report | None = None
    levers: tuple[LeverState, ...] = ()
    failure: CliError | None = field(default=None)


class Set(HostCommand, ShowOne):
    """Set what holds for one VM, and wait until the agent has acted on it."""

    examples = (
        keys_help()
        + """

examples:
  %(prog)s web-1 reporting=off guest_actions=allow
  %(prog)s web-1 reporting=inherit      leave it to metadata, flavor and host again
  %(prog)s web-1 dedup=on --dry-run     show what would hold and what would come of it, store nothing

An operator's wish is stronger than metadata, flavor, aggregate and host, and survives a rebuild."""
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("domain", metavar="DOMAIN", help="name or UUID")
        add_wishes(parser, "removes a wish")
        add_dry_run(parser)
        parser.add_argument("--no-wait", action="store_true", help="do not wait until the agent has acted on it")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Field names and values for machines; the tables are made of the outcome."""
        wishes = parse_wishes(parsed_args.wishes)
        conf = self.conf()
        with self.store(conf) as store:
            self._outcome = self._change(conf, store, wishes, parsed_args)
        return self.dict2columns(_plain(self._outcome))

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        """What held and what holds, then the verdicts; a refusal ends the command with its own exit code."""
        table = self.table(parsed_args)
        if table is None:
            super().produce_output(parsed_args, column_names, data)
        else:
            self._show(table, parsed_args)
        self.failure = self._outcome.failure
        return 0

    def _change(
        self, conf: cfg.ConfigOpts, store: HostStore, wishes: Wishes, parsed_args: argparse.Namespace
    ) -> PolicyChange:
        report = self.newest(conf, store)
        domain = find_domain(report, parsed_args.domain)
        uuid = domain.observation.uuid
        inputs: dict[Origin, dict[str, str]] = {
            **store.policies.read(uuid).inputs.get(uuid, {}),
            **host_inputs(conf),
        }
        kept = {name: value for name, value in inputs.get(Origin.OPERATOR, {}).items() if name not in wishes.unset}
        wished = {**kept, **wishes.values}
        check_agree(wished, wishes.values)
        before = effective(inputs)
        after = effective({**inputs, Origin.OPERATOR: wished})
        self._report = report
        if parsed_args.dry_run:
            from memhint.planner.foresee import foresee  # with all that the planner knows of levers

            levers = foresee(domain, _values(before), _values(after))
            return PolicyChange(domain, before, after, stored=False, levers=levers)
        store.policies.set_operator(uuid, wishes.values, wishes.unset)
        if parsed_args.no_wait:
            return PolicyChange(domain, before, after, stored=True)
        if report.stale(self.app.clock()):
            text = f"stored, but no agent acts on it: {stale_text(report, self.app.clock())}"
            return PolicyChange(domain, before, after, True, failure=CliError(Exit.NO_REPORT, text))
        text = f"stored, and the agent acts on it; see: memhint domains {domain.observation.name}"
        with going_on(self.app.stderr, text):
            return self._follow(conf, store, wishes, report, PolicyChange(domain, before, after, stored=True))

    def _follow(
        self, conf: cfg.ConfigOpts, store: HostStore, wishes: Wishes, report: Report, outcome: PolicyChange
    ) -> PolicyChange:
        uuid, patience = outcome.domain.observation.uuid, STALE_PERIODS * report.period + _PATIENCE
        shown: list[PolicyChange] = []

        def look() -> PolicyChange | None:
            newest = self.newest(conf, store)
            if (newest.epoch, newest.sequence) == (report.epoch, report.sequence) or unlisted(newest):
                return None
            domain = next((one for one in newest.domains if one.observation.uuid == uuid), None)
            if domain is None:  # it has ended, or migrated away
                text = f"stored, but {outcome.domain.observation.name} is no longer on {newest.host}"
                return replace(outcome, failure=CliError(Exit.NO_DOMAIN, text))
            if not _shows(domain.policy, wishes):
                return None
            failing = _failure(domain, wishes)
            shown[:] = [replace(outcome, domain=domain, seen=newest, levers=domain.levers, failure=failing)]
            return None if _under_way(domain, wishes) else shown[0]

        found = wait_for(
            look,
            patience,
            clock=self.app.monotonic,
            sleep=self.app.sleep,
            terminal=self.app.stderr,
            text="waiting for the agent to act on it…",
        )
        if found is None and shown:
            found = shown[0]  # a pull that takes longer than anybody wants to wait: its state says so
        if found is None:
            text = f"stored, but no report showed it within {patience:.0f} s: is the agent running? see: memhint status"
            found = replace(outcome, failure=CliError(Exit.NO_REPORT, text))
        return found

    def _show(self, table: Table, parsed_args: argparse.Namespace) -> None:
        outcome, out = self._outcome, self.app.stdout
        rows = [
            (name, policy_value(name, outcome.before.settings[name]), policy_value(name, outcome.after.settings[name]))
            for name in KEYS
        ]
        table.emit_list(("Key", "Before", "After"), rows, out, parsed_args)
        show_levers(table, outcome.seen or self._report, outcome.levers, out, parsed_args)
        if not outcome.stored:
            out.write("Dry run: nothing was stored.\n")
        elif outcome.seen is None and outcome.failure is None:
            out.write("Stored. See what becomes of it with: memhint domains\n")


def parse_wishes(words: Iterable[str]) -> Wishes:
    """The wishes of KEY=VALUE words.

    :raises CliError: on a word that is none, or a key that is named twice
    :raises PolicyError: on an unknown key or value
    """
    found = wishes_of(words)
    unset = tuple(name for name, value in found.items() if value is None and name in KEYS)
    given = {name: INHERIT if value is None else value for name, value in found.items() if name not in unset}
    return Wishes(parse_policy(given.items()), unset)


def _shows(policy: Policy, wishes: Wishes) -> bool:
    settings = policy.settings
    return all(
        settings.get(name) == PolicySetting(value, Origin.OPERATOR) for name, value in wishes.values.items()
    ) and all(name in settings and settings[name].origin is not Origin.OPERATOR for name in wishes.unset)


def _key_of(lever: LeverName) -> str | None:
    """The policy key that wishes something of a lever."""
    return LEVERS[lever].wish if lever in LEVERS else None


def _under_way(domain: DomainReport, wishes: Wishes) -> bool:
    """Whether a lever that was named has not been pulled yet, or its guest was slow to answer: it is asked again."""
    return any(
        (state.verdict.answer, state.verdict.reason) in _NOT_YET
        for state in domain.levers
        if _key_of(state.lever) in wishes.values or _key_of(state.lever) in wishes.unset
    )


def _failure(domain: DomainReport, wishes: Wishes) -> CliError | None:
    """A consent alone is no wish to pull anything: only levers that were named are answered for."""
    named = (*wishes.values, *wishes.unset)
    for state in domain.levers:
        if _key_of(state.lever) not in named:
            continue
        text = f"{state.lever} of {domain.observation.name}: {state.verdict}"
        if state.verdict.answer in _REFUSALS:
            return CliError(Exit.REFUSED, text)
        if state.verdict.answer is Answer.FAILED:
            return CliError(Exit.FAILED, text)
    return None


def _values(policy: Policy) -> dict[str, str | None]:
    return {name: setting.value for name, setting in policy.settings.items()}


def _plain(outcome: PolicyChange) -> dict[str, Any]:
    return {
        "name": outcome.domain.observation.name,
        "uuid": outcome.domain.observation.uuid,
        "stored": outcome.stored,
        "before": to_plain(outcome.before)["settings"],
        "after": to_plain(outcome.after)["settings"],
        "sequence": outcome.seen.sequence if outcome.seen else None,
        "levers": to_plain(outcome.levers) if outcome.seen or not outcome.stored else None,
    }
