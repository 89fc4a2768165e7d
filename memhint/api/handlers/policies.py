"""What holds for a VM: show it, set an operator's wishes, and see first what that would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memhint.api import http
from memhint.api.errors import Problem, bad_request
from memhint.api.handlers.domains import find, of_report
from memhint.api.handlers.hosts import lever
from memhint.api.handlers.settings import Settings, beneath, over
from memhint.api.policies import policies as rules
from memhint.api.route import Answer, Call
from memhint.objects.policy import Origin, PolicyError, parse_policy
from memhint.objects.report import DomainReport
from memhint.planner.foresee import foresee


def show(call: Call) -> Answer:
    """Each key with its value and origin."""
    line = find(call, rules.SHOW)
    _, before, _ = _known(call, line.uuid, line.host)
    return Answer({"policy": before})


def update(call: Call) -> Answer:
    """Merge an operator's wishes; with dry_run only show what would change."""
    line = find(call, rules.UPDATE)
    given: Mapping[str, str | None] = call.body["policy"]
    try:
        checked = parse_policy((name, value) for name, value in given.items() if value is not None)
    except PolicyError as error:
        raise bad_request("policy.invalid", str(error)) from None
    return _change(call, line.uuid, line.host, {name: checked.get(name) for name in given})


def delete(call: Call) -> Answer:
    """Take all of an operator's wishes back."""
    line = find(call, rules.DELETE)
    inputs = call.parts.store.policies.inputs(line.uuid).get(line.uuid, {})
    return _change(call, line.uuid, line.host, dict.fromkeys(inputs.get(Origin.OPERATOR, {})))


def _change(call: Call, uuid: str, host: str, values: Mapping[str, str | None]) -> Answer:
    wishes, before, one = _known(call, uuid, host)
    _hold(call, before)
    kept = {name: value for name, value in wishes.items() if name not in values}
    inputs = call.parts.store.policies.inputs(uuid).get(uuid, {})
    after = over(
        {**kept, **{name: value for name, value in values.items() if value is not None}}, beneath(call, inputs, one)
    )
    body: dict[str, Any] = {"policy": after, "changes": _changes(before, after)}
    if call.query.get("dry_run"):
        states = () if one is None else foresee(one, _values(before), _values(after))
        return Answer({**body, "levers": [lever(state) for state in states]})
    if values:
        call.parts.dispatch.set_policy(uuid, values)
    return Answer(body, headers={"ETag": f'"{_tag(after)}"'})


def _known(call: Call, uuid: str, host: str) -> tuple[Mapping[str, str], Settings, DomainReport | None]:
    one = of_report(call.parts.store.reports.newest(host), uuid)
    inputs = call.parts.store.policies.inputs(uuid).get(uuid, {})
    wishes = inputs.get(Origin.OPERATOR, {})
    return wishes, over(wishes, beneath(call, inputs, one)), one


def _hold(call: Call, before: Settings) -> None:
    """Whoever says which state he saw, changes that state or nothing."""
    wanted = call.request.if_match
    if wanted and not wanted.contains(_tag(before)):
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
