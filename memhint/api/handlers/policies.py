"""What holds for a VM: show it, set an operator's wishes, and see first what that would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memhint.api import http
from memhint.api.errors import Problem, bad_request, not_found
from memhint.api.handlers.domains import find, of_report
from memhint.api.handlers.hosts import lever
from memhint.api.handlers.settings import Settings, beneath, held_here, over, wishes_of
from memhint.api.policies import policies as rules
from memhint.api.route import ApiResponse, Call
from memhint.controller.dispatch import NoSuchDomain, WishedOnHost, check_named
from memhint.objects.codec import to_plain
from memhint.objects.policy import PolicyError, check_agree, parse_policy
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
    """Take all of an operator's wishes back."""
    line = find(call, rules.DELETE)
    known = _known(call, line)
    return _change(call, known, dict.fromkeys(known.wishes))


@dataclass(frozen=True, slots=True)
class _PolicyBefore:
    """What is known of a VM's policy before a change."""

    line: DomainSummary
    one: DomainReport | None
    wishes: Mapping[str, str]
    others: Settings
    held: bool  # by this store, and not by the host alone

    @property
    def before(self) -> Settings:
        return over(self.wishes, self.others)


def _known(call: Call, line: DomainSummary) -> _PolicyBefore:
    one = of_report(call.parts.store.reports.newest(line.host), line.uuid)
    inputs = call.parts.store.policies.inputs(line.uuid).get(line.uuid, {})
    held = held_here(call, line.uuid)
    return _PolicyBefore(line, one, wishes_of(held, inputs, one), beneath(call, inputs, one), held)


def _change(call: Call, known: _PolicyBefore, values: Mapping[str, str | None]) -> ApiResponse:
    before = known.before
    _hold(call, before)
    try:
        check_named(known.line.host, {} if known.held else known.wishes, values)
    except WishedOnHost as error:
        raise _on_host(error) from None
    kept = {name: value for name, value in known.wishes.items() if name not in values}
    wished = {**kept, **{name: value for name, value in values.items() if value is not None}}
    with _invalid():
        check_agree(wished, values)
    after = over(wished, known.others)
    body: dict[str, Any] = {"policy": after, "changes": _changes(before, after)}
    if call.query.get("dry_run"):
        states = () if known.one is None else foresee(known.one, _values(before), _values(after))
        return ApiResponse({**body, "levers": [lever(state) for state in states]})
    if values:
        try:
            with _invalid():  # with what somebody else has wished meanwhile
                body["delivery"] = to_plain(call.parts.dispatch.set_policy(known.line.uuid, values))
        except WishedOnHost as error:
            raise _on_host(error) from None
        except NoSuchDomain:
            raise not_found("domain", "no host has this VM now") from None
    return ApiResponse(body, headers={"ETag": f'"{_tag(after)}"'})


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
