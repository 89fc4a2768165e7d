"""The API as its clients see it, over real databases: one YAML file per resource in gabbits/."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from pathlib import Path

import pytest
from gabbi import handlers, suitemaker, utils

from lab.servers.postgres import Postgres
from memhint.store import open_store
from tests.functional.api_server import ApiServer, fill_store
from tests.unit.api.site import OTHER, OWN

FILES = sorted((Path(__file__).parent / "gabbits").glob("*.yaml"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    place = tmp_path_factory.mktemp("gabbi")
    url = f"sqlite:///{place}/memhint.db" if request.param == "sqlite" else postgres.create("memhint_gabbi")
    running = None
    try:
        fill_store(url)
        store = open_store(url)
        own = {one.project: one.uuid for one in store.domains.page(limit=1000).items}
        store.close()
        running = ApiServer(place, url)
        with pytest.MonkeyPatch.context() as patch:
            for name, token in running.tokens.items():
                patch.setenv(f"TOKEN_{name.upper()}", token)
            patch.setenv("OWN", own[OWN])
            patch.setenv("OTHER", own[OTHER])
            patch.setenv("OWN_PROJECT", OWN)
            yield running
    finally:
        if running is not None:
            running.close()
        if request.param != "sqlite":
            postgres.drop("memhint_gabbi")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_client_sees(server: ApiServer, path: Path) -> None:
    suite = suitemaker.test_suite_from_dict(
        loader=unittest.TestLoader(),
        test_base_name=path.stem,
        suite_dict=utils.load_yaml(yaml_file=str(path)),
        test_directory=str(path.parent),
        host="127.0.0.1",
        port=server.port,
        fixture_module=None,
        intercept=None,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
    )
    result = unittest.TestResult()
    suite.run(result)
    faults = [f"{case}: {text.strip().splitlines()[-1]}" for case, text in (*result.failures, *result.errors)]
    assert not faults, "\n".join(faults)
    assert result.testsRun == len(utils.load_yaml(yaml_file=str(path))["tests"])
