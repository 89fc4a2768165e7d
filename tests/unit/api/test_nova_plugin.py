"""The Nova plugin's client against the real API: what it asks is answered, and what is answered it understands."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from lab.fleet.fill import fill
from memhint.objects.plan import PressureVerdict
from memhint.objects.provider import NovaCompute
from memhint.objects.summary import host_summary
from memhint.objects.units import GIB, MIB
from tests.unit.api.site import FLEET, HOSTS, Site
from tests.unit.objects.test_summary import made
from tests.unit.test_nova_plugin import ROOT

PROVIDER = "11111111-1111-1111-1111-111111111111"


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


@pytest.mark.parametrize("qemu", [0, 128 * MIB, 400 * MIB, GIB])
def test_what_qemus_take_beside_the_guests_hides_no_vm_from_the_filter(plugin: None, qemu: int) -> None:
    """40 VMs of 8 GiB, and 9 GiB of headroom: one more, however many are asked for within one report."""
    from memhint_nova.host import host
    from memhint_nova.judge import Judge, Rules
    from memhint_nova.snapshot import Snapshot
    from memhint_nova.wish import wish

    report = replace(made(*[qemu] * 40), nova=NovaCompute(PROVIDER))
    capacity = replace(report.plan.capacity, headroom=9 * GIB)
    plan = replace(report.plan, capacity=capacity, pressure=PressureVerdict(True, ""))
    told = asdict(host_summary(replace(report, plan=plan), report.at))
    snapshot = Snapshot().with_news([host(told, report.at, 0.0)], (), "t", 0.0, whole=True)
    asked = Judge(snapshot, Rules(overhead=128, reserved=512, psi_limit=None, pass_unknown=False), 0.0)
    used = 40 * 8192 + 512
    compute = SimpleNamespace(
        host=report.host,
        nodename=report.host,
        uuid=PROVIDER,
        total_usable_ram_mb=used,
        free_ram_mb=0,
        num_instances=40,
        hypervisor_type="QEMU",
        aggregates=[],
    )
    placed = 0
    while asked.veto(compute, wish(8192, {}, dict.fromkeys(("guaranteed", "burstable", "best-effort"), 0.0))) is None:
        compute.free_ram_mb -= 8192
        compute.num_instances += 1
        placed += 1
    assert placed == 1
