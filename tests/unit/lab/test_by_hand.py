from __future__ import annotations

import pytest

from lab.by_hand import settings_of
from lab.errors import StateError


def test_settings_are_by_group_and_option() -> None:
    words = ["policy.dedup=on", "policy.recycler=on", "virt.uri=qemu:///system?a=b.c"]
    assert settings_of(words) == {
        "policy": {"dedup": "on", "recycler": "on"},
        "virt": {"uri": "qemu:///system?a=b.c"},
    }
    assert settings_of([]) == {}


@pytest.mark.parametrize("word", ["", "dedup=on", "policy.dedup", "policy.=on", ".dedup=on", "=a.b"])
def test_what_is_no_setting_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(StateError, match=r"such as policy\.dedup=on"):
        settings_of([word])
