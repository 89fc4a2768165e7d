from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest import fields
from memhint.guest.errors import GuestAnswerMalformed

from .strategies import anything


def test_values_are_found_by_their_path() -> None:
    answer = {"limits": {"order": 9, "name": "x", "on": True}}
    assert fields.integer(answer, "limits.order", minimum=0, maximum=10) == 9
    assert fields.text(answer, "limits.name", max_len=1) == "x"
    assert fields.boolean(answer, "limits.on") is True
    assert fields.has(answer, "limits.on")
    assert not fields.has(answer, "limits.off")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1], {}])
def test_only_an_integer_is_an_integer(value: object) -> None:
    with pytest.raises(GuestAnswerMalformed, match="a: an integer was expected"):
        fields.integer({"a": value}, "a", minimum=-9, maximum=9)


@pytest.mark.parametrize("value", [-1, 11])
def test_an_integer_outside_its_limits_is_malformed(value: int) -> None:
    with pytest.raises(GuestAnswerMalformed, match="outside 0 to 10"):
        fields.integer(value, minimum=0, maximum=10)


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_only_a_boolean_is_a_boolean(value: object) -> None:
    with pytest.raises(GuestAnswerMalformed):
        fields.boolean(value)


@pytest.mark.parametrize("value", ["abc", "a\n", "\ud800", 1])
def test_a_text_is_short_and_printable(value: object) -> None:
    with pytest.raises(GuestAnswerMalformed):
        fields.text(value, max_len=2)


def test_an_error_in_a_list_names_the_item_and_the_member() -> None:
    answer = {"commands": [{"name": "a"}, {"name": 1}]}
    with pytest.raises(GuestAnswerMalformed) as caught:
        fields.list_of(answer, "commands", lambda item: fields.text(item, "name", max_len=9), max_items=9)
    assert caught.value.path == "commands[1].name"


def test_an_error_in_a_plain_list_names_the_item() -> None:
    with pytest.raises(GuestAnswerMalformed) as caught:
        fields.list_of({"on": [True, 2]}, "on", fields.boolean, max_items=9)
    assert caught.value.path == "on[1]"


def test_a_list_that_is_too_long_is_malformed() -> None:
    with pytest.raises(GuestAnswerMalformed, match="more than 2 items"):
        fields.list_of([1, 2, 3], "", lambda item: item, max_items=2)


def test_a_member_of_something_else_than_an_object_is_malformed() -> None:
    with pytest.raises(GuestAnswerMalformed) as caught:
        fields.boolean({"a": [1]}, "a.b")
    assert caught.value.path == "a"


@given(anything, st.sampled_from(["", "count", "count.eof", "version"]))
def test_any_value_is_read_or_malformed(value: object, path: str) -> None:
    for read in (
        lambda: fields.integer(value, path, minimum=0, maximum=9),
        lambda: fields.text(value, path, max_len=9),
        lambda: fields.boolean(value, path),
        lambda: fields.list_of(value, path, fields.boolean, max_items=3),
    ):
        try:
            read()
        except GuestAnswerMalformed:
            continue


@pytest.mark.parametrize("value", [True, "1", None, [1], -0.1, 100.5, 1 << 60])
def test_a_number_is_whole_or_not_and_within_its_limits(value: object) -> None:
    assert fields.number({"a": 1}, "a", minimum=0, maximum=100) == 1.0
    assert fields.number(99.5, minimum=0, maximum=100) == 99.5
    with pytest.raises(GuestAnswerMalformed):
        fields.number(value, minimum=0, maximum=100)
