"""Whatever is sent: no answer is a fault of the server's, and each is one that /openapi.json describes.

MEMHINT_FUZZ_SECONDS is for how long, over all routes; where examples are the same each time, they are tried once.
`make soak` does the same to a real process, for ten minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from lab.servers.postgres import Postgres
from memhint.api.route import Route
from memhint.api.routes import ROUTES
from tests.unit.api.site import OWN, Site, fill_template

SECONDS = float(os.environ.get("MEMHINT_FUZZ_SECONDS", "40"))
# A stream has no end to wait for; tests/unit/api/test_stream.py has its words.
FUZZED = [one for one in ROUTES if one.path != "/v1/stream"]
# What is of the right form may still mean nothing: only these codes say so.
MEANT = {
    f"memhint.{word}"
    for word in ("marker.invalid", "policy.invalid", "reclaim.invalid", "changed_since.alone", "microversion.invalid")
}


@pytest.fixture(scope="module")
def site(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Over PostgreSQL: it refuses what SQLite takes."""
    url = postgres.create("memhint_fuzz")
    fill_template(url)
    found = Site(url, tmp_path_factory.mktemp("fuzz"), {})
    yield found
    found.close()
    postgres.drop("memhint_fuzz")


@pytest.mark.parametrize("route", FUZZED, ids=lambda one: f"{one.method} {one.path}")
def test_no_request_is_answered_with_a_fault(route: Route, site: Site) -> None:
    config = schemathesis.Config()
    schema = schemathesis.openapi.from_wsgi("/openapi.json", site.client.application, config=config)
    path = route.path.replace("<path:", "{").replace("<", "{").replace(">", "}")
    operation = schema[path][route.method]
    known = {"name": "compute-0001", "uuid": site.domain(OWN), "id": "none", "file": "index.html"}
    end = time.monotonic() + SECONDS / len(FUZZED)
    asked: dict[int, int] = {}

    @given(
        case=st.one_of(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        ),
        real=st.booleans(),
    )
    @settings(max_examples=15, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case, real: bool) -> None:
        proper = case.meta is not None and case.meta.generation.mode.is_positive
        if real and proper and case.path_parameters:  # a name that is there gets further than one that is made up
            case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
        answer = case.call_and_validate(
            headers={"X-Auth-Token": site.tokens["admin"]}, excluded_checks=[positive_data_acceptance]
        )
        if proper and answer.status_code == 400:
            assert answer.json()["errors"][0]["code"] in MEANT
        asked[answer.status_code] = asked.get(answer.status_code, 0) + 1

    while True:
        ask()
        if (time.monotonic() > end or settings.default.derandomize) and sum(asked.values()) >= 10:
            break
    assert max(asked) < 500
