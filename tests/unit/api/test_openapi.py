from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from memhint.api.openapi import document
from memhint.api.routes import ROUTES
from memhint.api.schemas.records import schema_of
from memhint.objects.report import Report

ROOT = Path(__file__).parents[3]
API = document(ROUTES)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in API["paths"].items():
        for method, one in methods.items():
            yield path, method, one


def schemas(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        if "schema" in part and isinstance(part["schema"], dict):
            yield part["schema"]
        for one in part.values():
            yield from schemas(one)
    elif isinstance(part, list):
        for one in part:
            yield from schemas(one)


def test_each_route_is_described_once() -> None:
    described = [(method.upper(), path) for path, method, _ in operations()]
    assert sorted(described) == sorted((one.method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", one.path)) for one in ROUTES)
    ids = [one["operationId"] for _, _, one in operations()]
    assert len(set(ids)) == len(ids) - 1  # the dashboard's two addresses are one handler


def test_every_schema_is_one() -> None:
    found = list(schemas(API["paths"]))
    assert len(found) > 100
    for schema in found:
        jsonschema.Draft202012Validator.check_schema(schema)


def test_what_is_open_to_everybody_says_so_and_nothing_else_does() -> None:
    opened = {path for path, _, one in operations() if one["security"] == []}
    assert opened == {"/", "/healthz", "/openapi.json", "/dashboard/", "/dashboard/{file}"}


def test_a_record_makes_its_schema() -> None:
    found = schema_of(Report)
    assert found["required"][0] == "host"
    assert found["properties"]["dedup"]["type"] == ["object", "null"]
    with pytest.raises(TypeError, match="no schema"):
        schema_of(complex)


def test_a_resource_has_the_same_file_name_everywhere() -> None:
    """So that nobody has to look for its handler, its schema or its policy."""
    names = {
        place: {path.stem for path in (ROOT / "memhint" / "api" / place).glob("*.py")} - {"__init__"}
        for place in ("handlers", "schemas", "policies")
    }
    shared = {"handlers": {"pages", "settings"}, "schemas": {"common", "records", "levers"}, "policies": {"base"}}
    resources = {one.handler.__module__.rsplit(".", 1)[1] for one in ROUTES}
    assert names["handlers"] - shared["handlers"] == resources
    assert names["schemas"] - shared["schemas"] <= resources
    guarded = {one.handler.__module__.rsplit(".", 1)[1] for one in ROUTES if one.rule}
    assert names["policies"] - shared["policies"] == guarded
    for one in ROUTES:
        if one.rule:
            resource = one.handler.__module__.rsplit(".", 1)[1]
            rules = import_module(f"memhint.api.policies.{resource}").RULES
            assert one.rule in {rule.name for rule in rules}


def test_the_committed_sample_of_the_policy_is_what_the_rules_say(tmp_path: Path) -> None:
    from oslo_config import cfg
    from oslo_policy import generator

    written = tmp_path / "policy.yaml"
    generator.generate_sample(["--namespace", "memhint", "--output-file", str(written)], cfg.ConfigOpts())
    assert written.read_text() == (ROOT / "etc" / "policy.yaml.sample").read_text(), "run: make sample"
