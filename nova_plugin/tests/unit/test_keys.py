"""The table of extra specs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memhint_nova.keys import KEYS, value_of


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_default_and_safe_value_are_values_of_the_key(key) -> None:
    for value in (key.default, key.safe):
        assert value == "" or key.kind.check(value) == value


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("reporting", "on", "on"),
        ("reporting", " off ", "off"),
        ("min_mb", "0512", "512"),
        ("max_ratio", "1.50", "1.5"),
        ("max_ratio", "16", "16"),
        ("reporting_order", "auto", "auto"),
    ],
)
def test_good_values_have_one_spelling(name, said, value) -> None:
    assert value_of({f"memhint:{name}": said}, name) == (value, None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reporting", "On"),
        ("class", "gold"),
        ("min_mb", "-1"),
        ("min_mb", "١٢"),
        ("min_mb", "9" * 40),
        ("max_ratio", "0"),
        ("max_ratio", "inf"),
        ("max_ratio", "1e3"),
        ("max_ratio", "17"),
        ("overcommit", ""),
    ],
)
def test_a_bad_value_is_the_safe_one_and_says_so(name, said) -> None:
    value, fault = value_of({f"memhint:{name}": said}, name)
    assert value == KEYS[name].safe
    assert fault is not None
    assert f"memhint:{name}=" in fault


def test_nothing_said_is_the_default() -> None:
    assert value_of({}, "class") == ("burstable", None)


@given(st.sampled_from(sorted(KEYS)), st.text())
def test_arbitrary_text_is_a_value_or_the_safe_one(name, said) -> None:
    value, fault = value_of({f"memhint:{name}": said}, name)
    assert (value == KEYS[name].safe) if fault else KEYS[name].kind.check(value) == value
