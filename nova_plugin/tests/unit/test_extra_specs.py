"""What Nova's API says to extra specs, through its own loader."""

from __future__ import annotations

import pytest
from memhint_nova.keys import KEYS
from nova import exception
from nova.api.validation.extra_specs import validators


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_nova_has_loaded_a_validator_of_each_key(key) -> None:
    assert validators.VALIDATORS[key.spec].description == key.help
    if key.default:
        validators.validate(key.spec, key.default)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("memhint:reporting", "off"),
        ("memhint:class", "best-effort"),
        ("memhint:min_mb", "512"),
        ("memhint:max_ratio", "1.25"),
        ("memhint:reporting_order", "auto"),
        ("memhint:reporting_order", "10"),
        ("memhint:group", "web.1"),
    ],
)
def test_good_values_pass(spec, value) -> None:
    validators.validate(spec, value)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("memhint:reporting", "On"),
        ("memhint:class", "gold"),
        ("memhint:min_mb", "16777217"),
        ("memhint:min_mb", "1.5"),
        ("memhint:max_ratio", "0"),
        ("memhint:reporting_order", "11"),
        ("memhint:group", "a b"),
        ("memhint:no_such_key", "1"),
    ],
)
def test_bad_ones_do_not(spec, value) -> None:
    with pytest.raises(exception.ValidationError):
        validators.validate(spec, value)
