"""A host speaks for the provider that bears its name, and for none else."""

import pytest

from memhint.planner.claims import canonical, speaks_for

ONE, TWO = "2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f10", "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    ("host", "name", "own"),
    [
        ("compute-1", "compute-1", True),
        ("compute-1", "Compute-1.example.org", True),
        ("compute-1.example.org", "compute-1", True),
        ("compute-1.example.org.", "compute-1.example.org", True),
        ("compute-1.example.org", "compute-1.example.net", False),
        ("compute-1", "compute-10", False),
        ("compute-1", "example.compute-1", False),
        ("", "compute-1", False),
    ],
)
def test_names_are_held_against_each_other(host: str, name: str, own: bool) -> None:
    assert speaks_for(host, ONE, name, {}) is own


def test_the_operators_word_is_the_last() -> None:
    said = {"rack-7": ONE.upper()}
    assert speaks_for("rack-7", ONE, "compute-1", said)
    assert not speaks_for("compute-1", ONE, "compute-1", said)  # the provider is another host's
    assert not speaks_for("rack-7", TWO, "rack-7", said)  # and that host has no other one


@pytest.mark.parametrize("text", ["", "x", ONE[:-1], "../" + ONE])
def test_what_is_no_uuid(text: str) -> None:
    assert canonical(text) is None


def test_a_uuid_is_written_in_one_way() -> None:
    assert canonical(ONE.upper()) == canonical(f"{{{ONE}}}") == canonical(ONE) == ONE
