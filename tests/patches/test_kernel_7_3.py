"""The guest kernel 7.3: style of each patch, and what the series promises, in a running guest."""

import pytest

from tests.patches.kernel_checks import series_passes, style_passes


def test_style_of_each_patch() -> None:
    style_passes("7.3")


@pytest.mark.usefixtures("beside_others")
def test_a_guest_has_what_the_series_promises() -> None:
    series_passes("7.3", "stats", "series")
