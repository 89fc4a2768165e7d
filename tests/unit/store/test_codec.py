from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.objects.domain import DomainState
from memhint.objects.gap import GapReason
from memhint.objects.lever import LeverName
from memhint.objects.plan import Bound
from memhint.objects.policy import Origin
from memhint.objects.report import Report
from memhint.objects.units import MIB
from memhint.store import StoreDamaged
from memhint.store.codec import dump, parse
from tests.unit import builders

JSON: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})
)


def test_a_report_comes_back_as_it_was() -> None:
    report = builders.report()
    assert parse(dump(report)) == report


def test_enumerations_come_back_as_enumerations() -> None:
    back = parse(dump(builders.report()))
    web = back.domains[0]
    assert web.observation.state is DomainState.RUNNING
    assert web.levers[0].lever is LeverName.REPORTING
    assert web.policy.settings["reporting"].origin is Origin.DEFAULT
    assert back.plan.capacity.bound is Bound.BACK
    assert back.gaps[0].reason is GapReason.PENDING


def test_numbers_as_keys_and_tuples_survive_json() -> None:
    observation = parse(dump(builders.report())).domains[0].observation
    assert observation.deep is not None
    assert observation.deep.by_node == {0: 1900 * MIB}
    assert observation.guest is not None
    assert isinstance(observation.guest.free_by_order, tuple)


def test_an_absent_value_stays_absent() -> None:
    report = builders.report(observation=builders.host_observation(pressure=None, ksm=None, oom_kills=None))
    back = parse(dump(report)).observation
    assert (back.pressure, back.ksm, back.oom_kills) == (None, None, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("sequence",), "7"),
        (("sequence",), None),
        (("sequence",), True),
        (("at",), "now"),
        (("host",), None),
        (("plan", "capacity", "headroom"), 1.5),
        (("plan", "capacity", "bound"), 7),
        (("plan", "pressure", "admitting"), "no"),
        (("domains",), {"a": 1}),
        (("domains", 0, "observation", "deep", "by_node"), {"zero": 1}),
    ],
)
def test_a_value_of_another_kind_is_damage(path: tuple[Any, ...], value: object) -> None:
    document = json.loads(dump(builders.report()))
    _replace(document, path, value)
    with pytest.raises(StoreDamaged, match="restart the agent"):
        parse(json.dumps(document))


def test_half_a_document_is_damage() -> None:
    document = dump(builders.report())
    with pytest.raises(StoreDamaged):
        parse(document[: len(document) // 2])


def test_a_number_that_is_none_is_damage() -> None:
    document = dump(builders.report()).replace(str(builders.NOW), "NaN", 1)
    with pytest.raises(StoreDamaged):
        parse(document)


@given(text=st.text())
def test_any_text_is_damage(text: str) -> None:
    with pytest.raises(StoreDamaged):
        parse(text)


@settings(deadline=None)
@given(data=st.data(), value=JSON)
def test_any_single_change_is_damage_or_a_whole_report(data: st.DataObject, value: object) -> None:
    document = json.loads(dump(builders.report()))
    path = data.draw(st.sampled_from(sorted(_paths(document), key=str)))
    _replace(document, path, value)
    with contextlib.suppress(StoreDamaged):
        assert isinstance(parse(json.dumps(document)), Report)


def _paths(node: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path for key, child in items for path in ((*here, key), *_paths(child, (*here, key)))]


def _replace(node: Any, path: tuple[Any, ...], value: object) -> None:
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


def test_a_report_of_before_the_predictors_is_read() -> None:
    document = json.loads(dump(builders.report()))
    for demand in document["plan"]["demands"]:
        for name in ("forecast", "minimum", "group", "excluded"):
            del demand[name]
    for name in ("node", "ceiling", "available", "ksm_saving"):
        del document["plan"]["capacity"][name]
    for domain in document["domains"]:
        for name in ("realtime", "file_backed", "numa_strict", "numa_nodes", "os"):
            del domain["observation"]["facts"][name]
    assert parse(json.dumps(document)) == builders.report()
