"""What holds for a VM: show it, set an operator's wishes, and see first what that would do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memhint.api import http
from memhint.api.errors import Problem, bad_request, not_found
from memhint.api.handlers.domains import find, of_report
from memhint.api.handlers.hosts import lever
from memhint.api.handlers.settings import Settings, beneath, held_here, in_doubt, over, told_by_host, wishes_of
from memhint.api.policies import policies as rules
from memhint.api.route import ApiResponse, Call
from memhint.controller.dispatch import Delivery, NoSuchDomain, WishedOnHost, check_named
from memhint.objects.codec import to_plain
from memhint.objects.policy import Origin, PolicyError, check_agree, parse_policy
from memhint.objects.report import DomainReport
from memhint.objects.summary import DomainSummary
from memhint.planner.foresee import foresee


def show(call: Call) -> ApiResponse:
    """Each key with its value and origin."""
    line = find(call, rules.SHOW)
    return ApiResponse({"policy": _known(call, line).before})


def update(call: Call) -> ApiResponse:
    """Merge an operator's wishes; with dry_run only show what would change."""
    line = find(call, rules.UPDATE)
    given: Mapping[str, str | None] = call.body["policy"]
    with _invalid():
        checked = parse_policy((name, value) for name, value in given.items() if value is not None)
    return _change(call, _known(call, line), {name: checked.get(name) for name in given})


def delete(call: Call) -> ApiResponse:
    """Take all of an operator's wishes back, those too that cannot be read."""
    line = find(call, rules.DELETE)
    known = _known(call, line)
    unread = (name for origin, name in known.unread if origin == Origin.OPERATOR)
    return _change(call, known, dict.fromkeys([*known.wishes, *unread]), whole=True)


@dataclass(frozen=True, slots=True)
class _PolicyBefore:
    """What is known of a VM's policy before a change."""

    line: DomainSummary
    one: DomainReport | None
    wishes: Mapping[str, str]
    others: Settings
    held: bool  # by this store, and not by the host alone
    unread: frozenset[tuple[str, str]]  # origin and key of each wish that cannot be read
    told: Settings | None  # by its host, where that is a fleet's

    @property
    def before(self) -> Settings:
        return self.after(self.wishes, ())

    def after(self, wishes: Mapping[str, str], named: Collection[str]) -> Settings:
        """What holds with these wishes, where an operator says something of these keys, or takes it back."""
        found = over(wishes, self.others)
        return in_doubt(found, self.told) if self.unread - {(str(Origin.OPERATOR), name) for name in named} else found

    @property
    def unread_on_host(self) -> bool:
        """Whether it is the host alone that has what is wished, and cannot read all of it."""
        return not self.held and self.one is not None and self.one.careful


def _known(call: Call, line: DomainSummary) -> _PolicyBefore:
    one = of_report(call.parts.store.reports.newest(line.host), line.uuid)
    stored = call.parts.store.policies.read(line.uuid)
    inputs = stored.inputs.get(line.uuid, {})
    held, unread = held_here(call, line.uuid), stored.rows.get(line.uuid, frozenset())
    wishes, others = wishes_of(held, inputs, one), beneath(call, inputs, one)
    return _PolicyBefore(line, one, wishes, others, held, unread, told_by_host(call, one))


def _change(call: Call, known: _PolicyBefore, values: Mapping[str, str | None], whole: bool = False) -> ApiResponse:
    """Change these keys; with ``whole`` they are all that an operator wishes, and all of it is taken back."""
    before = known.before
    _hold(call, before)
    try:
        if not known.held and not whole:
            check_named(known.line.host, known.one, values)
    except WishedOnHost as error:
        raise _on_host(error) from None
    kept = {name: value for name, value in known.wishes.items() if name not in values}
    wished = {**kept, **{name: value for name, value in values.items() if value is not None}}
    with _invalid():
        check_agree(wished, values)
    after = known.after(wished, values)
    body: dict[str, Any] = {"policy": after, "changes": _changes(before, after)}
    if call.query.get("dry_run"):
        states = () if known.one is None else foresee(known.one, _values(before), _values(after))
        return ApiResponse({**body, "levers": [lever(state) for state in states]})
    if values or (whole and known.unread_on_host):
        try:
            with _invalid():  # with what somebody else has wished meanwhile
                body["delivery"] = to_plain(_told(call, known.line.uuid, values, whole))
        except WishedOnHost as error:
            raise _on_host(error) from None
        except NoSuchDomain:
            raise not_found("domain", "no host has this VM now") from None
    return ApiResponse(body, headers={"ETag": f'"{_tag(after)}"'})


def _told(call: Call, uuid: str, values: Mapping[str, str | None], whole: bool) -> Delivery:
    dispatch = call.parts.dispatch
    return dispatch.clear_policy(uuid) if whole else dispatch.set_policy(uuid, values)


@contextmanager
def _invalid() -> Iterator[None]:
    """What is no policy is the client's fault."""
    try:
        yield
    except PolicyError as error:
        raise bad_request("policy.invalid", str(error)) from None


def _on_host(error: WishedOnHost) -> Problem:
    return Problem(409, "policy.on_host", str(error)[:2000])


def _hold(call: Call, before: Settings) -> None:
    """A client that says which state it saw changes that state or nothing."""
    if not http.matches(call.request, _tag(before)):
        raise Problem(
            412, "policy.changed", "somebody changed it meanwhile: GET it again and send its ETag in If-Match"
        )


def _tag(settings: Settings) -> str:
    return http.etag_of(http.dump({"policy": settings}))


def _changes(before: Settings, after: Settings) -> list[dict[str, Any]]:
    return [
        {"key": name, "before": before[name], "after": after[name]} for name in after if before[name] != after[name]
    ]


def _values(settings: Settings) -> dict[str, str | None]:
    return {name: one["value"] for name, one in settings.items()}
