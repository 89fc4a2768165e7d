from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.epoch import epoch_rank, new_epoch


def test_a_later_life_comes_after_an_earlier_one() -> None:
    first = new_epoch(1_700_000_000.0, None, "0000000a")
    assert first == "001700000000000-0000000a"
    assert epoch_rank(new_epoch(1_700_000_001.0, first, "00000001")) > epoch_rank(first)


@given(clocks=st.lists(st.floats(0, 4e9), min_size=2, max_size=10))
def test_lives_come_one_after_the_other_whatever_the_clock_says(clocks: list[float]) -> None:
    epoch = None
    places = []
    for clock in clocks:
        epoch = new_epoch(clock, epoch, "ffffffff")
        places.append(epoch_rank(epoch))
    assert places == sorted(set(places))


def test_a_name_of_another_form_comes_before_all_others() -> None:
    assert epoch_rank("f3aa9c2e41d14b6e8a5f0c1d2e3f4a5b") == 0 < epoch_rank(new_epoch(0.001, None, "0000000a"))
