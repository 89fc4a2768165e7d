"""The guest kernel 6.12: style of each patch, and what the series promises, in a running guest."""

import pytest

from tests.patches.kernel_checks import series_passes, style_passes


def test_style_of_each_patch() -> None:
    style_passes("6.12")


@pytest.mark.usefixtures("beside_others")
def test_a_guest_has_what_the_series_promises() -> None:
    series_passes("6.12", "stats", "series")


@pytest.mark.usefixtures("beside_others")
def test_a_guest_recycles_pages_and_none_is_lost() -> None:
    series_passes("6.12", "recycler", "series", "series.recycler", also=("qemu", "guest_agent"))
