"""How Placement's answers are read where they are none."""

from __future__ import annotations

from typing import Any

import pytest

from memhint.objects.provider import Inventory
from memhint.openstack.errors import OpenStackError
from memhint.openstack.placement import TRAIT, Placement

UUID = "2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f10"
INVENTORY = {
    "resource_provider_generation": 7,
    "total": 4096,
    "reserved": 512,
    "allocation_ratio": 1.0,
    "min_unit": 1,
    "max_unit": 4096,
    "step_size": 1,
}
KNOWN = Inventory(7, 4096, 512, 1.0, {"min_unit": 1, "max_unit": 4096, "step_size": 1})


class Service:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self, _path: str) -> Any:
        return self._answer

    def put(self, _path: str, _body: Any) -> Any:
        return self._answer


def test_an_inventory_is_read() -> None:
    assert Placement(Service(INVENTORY)).inventory(UUID) == KNOWN


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "x",
        {},
        {**INVENTORY, "allocation_ratio": float("nan")},
        {**INVENTORY, "allocation_ratio": float("inf")},
        {**INVENTORY, "total": float("inf")},
        {**INVENTORY, "total": None},
    ],
)
def test_an_inventory_that_is_none_is_an_error(answer: Any) -> None:
    with pytest.raises(OpenStackError, match=UUID):
        Placement(Service(answer)).inventory(UUID)


@pytest.mark.parametrize("answer", [None, [], {}, {"resource_provider_generation": None}])
def test_an_answer_to_a_write_that_is_none_leaves_the_ratio_unknown(answer: Any) -> None:
    with pytest.raises(OpenStackError, match="unknown"):
        Placement(Service(answer)).set_ratio(UUID, KNOWN, 1.5)


@pytest.mark.parametrize("answer", [None, [], {}, {"traits": None}, {"traits": []}])
def test_traits_that_are_none_are_an_error(answer: Any) -> None:
    with pytest.raises(OpenStackError, match=UUID):
        Placement(Service(answer)).mark(UUID, managed=True)
    with pytest.raises(OpenStackError, match=UUID):
        Placement(Service(answer)).marked(UUID)


@pytest.mark.parametrize(
    ("traits", "marked"), [([], False), (["CUSTOM_OTHER"], False), (["CUSTOM_OTHER", TRAIT], True)]
)
def test_whether_a_provider_bears_the_trait(traits: list[str], marked: bool) -> None:
    answer = {"traits": traits, "resource_provider_generation": 7}
    assert Placement(Service(answer)).marked(UUID) is marked
