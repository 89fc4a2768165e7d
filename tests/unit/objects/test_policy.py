"""Policy values: each kind takes what it should in one spelling, and every text is taken or refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.policy import (
    KEYS,
    PRECEDENCE,
    Origin,
    Policy,
    PolicyError,
    QosClass,
    check_agree,
    effective,
    parse_policy,
)
from memhint.objects.policy_values import Choice, Name, WholeNumber
from memhint.objects.units import MIB


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("class", "best-effort", "best-effort"),
        ("min_mb", "0512", "512"),
        ("min_mb", "16777216", "16777216"),
        ("reporting_order", "auto", "auto"),
        ("reporting_order", "0", "0"),
        ("reporting_delay_ms", "3600000", "3600000"),
        ("group", "web.tier-1:a", "web.tier-1:a"),
        ("group", "", ""),
    ],
)
def test_a_value_is_kept_in_its_one_spelling(name: str, value: str, kept: str) -> None:
    assert parse_policy([(name, value)]) == {name: kept}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("class", "gold"),
        ("min_mb", "-1"),
        ("min_mb", "16777217"),
        ("min_mb", "9" * 5000),
        ("min_mb", "1.5"),
        ("min_mb", "٣"),
        ("min_mb", "auto"),
        ("min_mb", ""),
        ("reporting_order", "11"),
        ("reporting_delay_ms", "3600001"),
        ("group", "a b"),
        ("group", "x" * 65),
        ("balloon", "yes"),
    ],
)
def test_a_value_that_a_key_does_not_take_is_named_with_what_it_takes(name: str, value: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy([(name, value)])
    assert name in str(caught.value)
    assert KEYS[name].kind.accepted in str(caught.value)


def test_values_that_contradict_each_other_are_refused_where_somebody_sets_one() -> None:
    for values in ({"fast_min": "60%", "fast_max": "40%"}, {"fast_min": "2048", "fast_max": "1024"}):
        assert parse_policy(values.items()) == values  # each is one for itself: a flavor may say so
        with pytest.raises(PolicyError, match=r"fast_min=.* is more than fast_max="):
            check_agree(values, ["fast_max"])
        check_agree(values, ["overcommit"])  # what was wrong before keeps nobody from saying something else
    check_agree({"fast_min": "60%", "fast_max": "1024"}, ["fast_max"])  # that takes the VM's size
    check_agree({"fast_min": "60%"}, ["fast_min"])


@given(st.sampled_from(list(KEYS)), st.text(max_size=12) | st.integers().map(str))
def test_any_text_is_refused_or_kept_and_then_kept_again(name: str, text: str) -> None:
    try:
        kept = KEYS[name].check(text)
    except PolicyError:
        return
    assert KEYS[name].check(kept) == kept
    assert KEYS[name].kind.shown(kept)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_the_default_and_the_opt_out_are_values_of_the_key(key) -> None:
    assert key.check(str(key.default)) == key.default
    if key.opt_out is not None:
        assert key.check(str(key.opt_out)) == key.opt_out


def test_values_are_shown_with_their_unit() -> None:
    assert KEYS["min_mb"].kind.shown("512") == "512 MiB"
    assert KEYS["reporting_delay_ms"].kind.shown("auto") == "auto"
    assert KEYS["group"].kind.shown("") == "-"
    assert [kind.form for kind in (Choice(("a", "b")), Name(), WholeNumber(0, 10, words=("auto",)))] == [
        "a|b",
        "NAME",
        "0..10|auto",
    ]


def test_the_aggregate_stands_between_flavor_and_default() -> None:
    assert PRECEDENCE == (Origin.OPERATOR, Origin.METADATA, Origin.FLAVOR, Origin.AGGREGATE, Origin.DEFAULT)
    found = effective({Origin.AGGREGATE: {"min_mb": "64"}, Origin.DEFAULT: {"min_mb": "32", "class": "guaranteed"}})
    assert (found.minimum, found.qos) == (64 * MIB, QosClass.GUARANTEED)


def test_a_policy_gives_typed_values() -> None:
    said = {
        "reporting_order": "0",
        "reporting_delay_ms": "200",
        "balloon": "allow",
        "group": "db",
        "overcommit": "deny",
    }
    found = effective({Origin.OPERATOR: said})
    assert (found.reporting_order, found.reporting_delay_ms) == (0, 200)
    assert (found.balloon, found.swap_out, found.overcommit, found.group) == (True, False, False, "db")
    shipped: Policy = effective({})
    assert (shipped.reporting_order, shipped.group, shipped.overcommit) == (None, None, True)
