"""The Nova plugin's client against the real API: what it asks is answered, and what is answered it understands."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping

import pytest

from lab.fleet.fill import fill
from memhint.objects.units import MIB
from tests.unit.api.site import FLEET, HOSTS, Site
from tests.unit.test_nova_plugin import ROOT


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its folder on the path: the parts used here need nothing of Nova."""
    monkeypatch.syspath_prepend(str(ROOT / "nova_plugin"))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("memhint_nova", "nova")]:
        del sys.modules[name]


def test_the_plugin_reads_what_the_api_tells(site: Site, plugin: None) -> None:
    from memhint_nova.client import HostsClient, Response
    from memhint_nova.host import host

    statuses = set()

    class Asked:
        def get(self, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Response:
            said = site.get(path, who="service", query_string=dict(params), headers=dict(headers))
            statuses.add(said.status_code)
            return Response(said.status_code, said.headers.get("ETag"), said.data)

    looks = HostsClient(Asked(), 60.0)
    news = looks.look(None)
    assert news is not None
    assert news.whole
    assert len(news.hosts) == HOSTS
    told = {one["name"]: one for one in site.get("/v1/hosts").get_json()["hosts"]}
    for one in news.hosts:
        read = host(one, time.time(), 0.0)
        assert read.headroom == told[read.name]["headroom"] / MIB
        assert read.expires > 0

    nothing = looks.look(news.token)
    assert nothing is None or nothing.hosts == ()
    assert looks.look(news.token) is None, "an unchanged answer has an ETag"
    fill(site.store, FLEET, time.time() + 2 * FLEET.shape.period, past=0.0)
    later = looks.look(news.token)
    assert later is not None
    assert not later.whole
    assert {one["name"] for one in later.hosts} == set(told)
    assert statuses == {200, 304}

    renewed = looks.look("1")  # older than anything: 410
    assert renewed is not None
    assert renewed.whole
