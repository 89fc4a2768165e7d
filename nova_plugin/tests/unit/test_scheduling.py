"""Filter and weigher on Nova's own HostState, RequestSpec and handlers."""

from __future__ import annotations

import logging

import nova.conf
import pytest
from memhint_nova import shared as shared_module
from memhint_nova.client import News
from memhint_nova.counts import Counts
from memhint_nova.filter import MemhintFilter
from memhint_nova.refresher import Refresher
from memhint_nova.shared import Shared, shared
from memhint_nova.weigher import MemhintWeigher
from nova import objects
from nova.scheduler import filters, weights

from tests.told import GIB, Aggregate, provider, told
from tests.unit.nova_objects import host_state, request

CONF = nova.conf.CONF


class Still(Refresher):
    """Brings one answer, and starts no thread."""

    def __init__(self, *hosts) -> None:
        counts = Counts()
        super().__init__(lambda: None, counts, 5.0, wall=lambda: 1000.0)
        self.counts = counts
        self.refresh(type("Once", (), {"look": lambda self, token: News(hosts, (), "t", True)})())

    def view(self):
        return self._snapshot


@pytest.fixture
def known(monkeypatch):
    """Sets what memhint is known to have said."""
    shared(CONF)  # registers the options
    CONF([], default_config_files=[], default_config_dirs=[])

    def say(*hosts):
        still = Still(*hosts)
        monkeypatch.setattr(shared_module, "_shared", Shared(CONF, still, still.counts))
        return still

    yield say
    CONF.reset()
    CONF.clear_override("weight_multiplier", "memhint")
    shared_module.forget()


def passed(spec, *states):
    return [one.host for one in MemhintFilter().filter_all(iter(states), spec)]


def test_nova_finds_them_by_the_names_of_the_documentation() -> None:
    found = filters.HostFilterHandler().get_matching_classes(
        ["nova.scheduler.filters.all_filters", "memhint_nova.filter.MemhintFilter"]
    )
    assert MemhintFilter in found
    found = weights.HostWeightHandler().get_matching_classes(
        ["nova.scheduler.weights.all_weighers", "memhint_nova.weigher.MemhintWeigher"]
    )
    assert MemhintWeigher in found


def test_hosts_without_measured_room_are_vetoed_logged_and_counted(known, caplog) -> None:
    still = known(told(1), told(2, headroom=GIB), told(3, admitting=False, detail="memory pressure 12 %"))
    with caplog.at_level(logging.INFO, "memhint_nova.filter"):
        assert passed(request(2048), *map(host_state, (1, 2, 3))) == ["host-1"]
    assert still.counts.all()["veto.headroom"] == 1
    assert still.counts.all()["veto.pressure"] == 1
    assert "2 of 3 hosts do not get instance 6c2a9a5c" in caplog.text
    assert "headroom 1 (host-2: headroom 1024 MiB, 0 of it placed and not seen yet, for 2048 + 128)" in caplog.text
    assert "pressure 1 (host-3: memory pressure 12 %)" in caplog.text


def test_the_option_joins_names_that_differ(known) -> None:
    known(told(1, name="rack-7", headroom=60 * GIB))
    full = host_state(1, used_mb=18000)
    assert passed(request(2048), full) == []
    CONF.set_override("providers", {"rack-7": provider(1)}, "memhint")
    try:
        assert passed(request(2048), full) == ["host-1"]
    finally:
        CONF.clear_override("providers", "memhint")


def test_each_vm_of_one_request_takes_of_the_headroom(known) -> None:
    known(told(1, headroom=5 * GIB))
    spec, state = request(2048), host_state(1)
    handler = filters.HostFilterHandler()
    placed = 0
    while handler.get_filtered_objects([MemhintFilter()], [state], spec, index=placed):
        state.consume_from_request(spec)
        placed += 1
    assert placed == 2


def test_a_rebuild_passes(known) -> None:
    known(told(1, admitting=False))
    assert passed(request(2048, scheduler_hints={"_nova_check_type": ["rebuild"]}), host_state(1)) == ["host-1"]
    assert passed(request(2048), host_state(1)) == []


def test_numa_devices_and_images_are_excluded_whoever_says_so(known) -> None:
    known(told(1))
    tight = host_state(1, memory_mb=5000, used_mb=4608)
    assert passed(request(2048), tight) == ["host-1"]
    cells = objects.InstanceNUMATopology(cells=[])
    assert passed(request(2048, numa_topology=cells), tight) == []
    device = objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=1, spec=[])])
    assert passed(request(2048, pci_requests=device), tight) == []
    image = objects.ImageMeta(properties=objects.ImageMetaProps(hw_locked_memory=True))
    assert passed(request(2048, image=image), tight) == []


def test_a_bad_value_is_warned_of_once_and_counted_each_time(known, caplog) -> None:
    still = known(told(1))
    veto = MemhintFilter()
    for _ in range(2):
        assert veto.filter_all([host_state(1)], request(2048, {"memhint:class": "gold"}))
    assert caplog.text.count("flavor f: memhint:class='gold'") == 1
    assert still.counts.all()["flavor.bad_value"] == 2


def test_a_request_without_its_optional_fields_is_judged_all_the_same(known) -> None:
    known(told(1))
    spec = objects.RequestSpec(
        instance_uuid="6c2a9a5c-0d5c-4cc1-9b6e-8b8c2a6a4b7d", flavor=objects.Flavor(name="f", memory_mb=64)
    )
    assert passed(spec, host_state(1)) == ["host-1"]


def order(*states, spec=None):
    weighed = weights.HostWeightHandler().get_weighed_objects([MemhintWeigher()], list(states), spec or request())
    return [one.obj.host for one in weighed]


def test_it_packs_on_measured_headroom_and_spreads_by_sign(known) -> None:
    known(told(1, headroom=3 * GIB), told(2, headroom=9 * GIB), told(3, headroom=5 * GIB))
    states = list(map(host_state, (1, 2, 3)))
    assert order(*states) == ["host-1", "host-3", "host-2"]
    CONF.set_override("weight_multiplier", -1.0, "memhint")
    assert order(*states) == ["host-2", "host-3", "host-1"]


def test_an_aggregate_can_change_the_sign(known) -> None:
    known(told(1, headroom=3 * GIB), told(2, headroom=9 * GIB))
    states = list(map(host_state, (1, 2)))
    for state in states:
        state.aggregates = [Aggregate({"memhint_weight_multiplier": "-2"})]
    assert order(*states) == ["host-2", "host-1"]


def test_without_data_it_weighs_by_what_nova_counts(known) -> None:
    known(told(1, state="stale", headroom=0), told(2, headroom=6 * GIB))
    full, empty = host_state(1, used_mb=16000), host_state(1, used_mb=512, vms=0)
    assert order(host_state(2), full)[0] == "host-1"
    assert order(host_state(2), empty)[0] == "host-2"


def test_filter_and_weigher_share_one_snapshot_and_ask_nobody_when_made() -> None:
    shared_module.forget()
    veto, weigher = MemhintFilter(), MemhintWeigher()
    assert veto._shared is weigher._shared
    assert veto._shared.refresher._pid is None
    shared_module.forget()
