"""QEMU's recycler: counters taken exactly, or refused with a type, and a pace that is set threads last."""

from __future__ import annotations

import pytest

from memhint.objects.recycler import RecyclerPace
from memhint.objects.units import MIB
from memhint.virt.errors import DeviceAbsent, MonitorAnswerMalformed
from memhint.virt.recycler import RecyclerKnobs, parse_recycler

COUNTERS = {
    "enabled": True,
    "negotiated": True,
    "workers": 1,
    "pieces": 8,
    "pages": 262144,
    "passes": 7,
    "recycled": 64 * MIB,
    "lost": 4096,
    "failed": 0,
    "left": 2 * MIB,
}


class Qom:
    """A machine with one balloon, and what it was set to, in order."""

    def __init__(self, kind: str = "child<virtio-balloon-pci>") -> None:
        self.kind = kind
        self.values: dict[str, object] = {
            "recycler-workers": 0,
            "recycler-period-ms": 10_000,
            "recycler-max-bytes": 256 * MIB,
            "recycler-leave-order": 9,
        }
        self.order: list[str] = []

    def children(self, path: str) -> list[dict[str, object]]:
        assert path == "/machine/peripheral"
        return [{"name": "type", "type": "string"}, {"name": "ua-own", "type": self.kind}]

    def get(self, path: str, name: str) -> object:
        assert path == "/machine/peripheral/ua-own"
        return self.values[name]

    def set(self, path: str, name: str, value: object) -> None:
        assert path == "/machine/peripheral/ua-own"
        self.values[name] = value
        self.order.append(name)


def test_every_counter_is_taken() -> None:
    found = parse_recycler({"recycler": COUNTERS}, "query")
    assert found is not None
    assert (found.negotiated, found.workers, found.described, found.recycled) == (True, 1, 1024 * MIB, 64 * MIB)
    assert (found.lost, found.failed, found.left, found.inhibited) == (4096, 0, 2 * MIB, None)
    held = parse_recycler({"recycler": {**COUNTERS, "inhibited": "migration"}}, "query")
    assert held is not None
    assert held.inhibited == "migration"


def test_a_device_without_a_recycler_has_no_counters() -> None:
    assert parse_recycler({}, "query") is None
    assert parse_recycler({"recycler": {**COUNTERS, "enabled": False}}, "query") is None


@pytest.mark.parametrize("name", sorted(COUNTERS))
@pytest.mark.parametrize("value", [None, "1", -1, 1.5, [], {}, 1 << 64])
def test_a_member_of_another_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(MonitorAnswerMalformed):
        parse_recycler({"recycler": {**COUNTERS, name: value}}, "query")


@pytest.mark.parametrize("answer", [{"recycler": 7}, {"recycler": {**COUNTERS, "inhibited": ""}}])
def test_nonsense_is_refused(answer: dict[str, object]) -> None:
    with pytest.raises(MonitorAnswerMalformed):
        parse_recycler(answer, "query")


@pytest.mark.parametrize("model", ["pci", "ccw", "device", "pci-transitional", "pci-non-transitional"])
def test_threads_begin_last(model: str) -> None:
    qom = Qom(f"child<virtio-balloon-{model}>")
    knobs = RecyclerKnobs(qom)
    assert knobs.read() == RecyclerPace(0, 10_000, 256 * MIB)
    knobs.write(RecyclerPace(1, 500, 8 * MIB, 0))
    assert knobs.read() == RecyclerPace(1, 500, 8 * MIB, 0)
    assert qom.order[-1] == "recycler-workers"


def test_a_machine_without_a_balloon_is_said_to_have_none() -> None:
    with pytest.raises(DeviceAbsent):
        RecyclerKnobs(Qom("child<virtio-net-pci>")).read()


def test_a_property_that_is_no_number_is_refused() -> None:
    qom = Qom()
    qom.values["recycler-period-ms"] = "soon"
    with pytest.raises(MonitorAnswerMalformed):
        RecyclerKnobs(qom).read()
