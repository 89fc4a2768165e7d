"""The kernel for hosts: what its series promises. The style of its patches is checked with the others of 6.12."""

import pytest

from tests.patches.kernel_checks import series_passes


@pytest.mark.usefixtures("beside_others")
def test_a_host_has_what_the_series_promises() -> None:
    series_passes("6.12", "host", "series.host")
