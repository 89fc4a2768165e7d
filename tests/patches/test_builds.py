"""What guests of the tests stand on is built first, one after another, while other tests run."""

import pytest

from lab import patched
from tests.patches.command import passes


def test_qemu_is_built() -> None:
    assert patched.emulator_program().exists()


@pytest.mark.parametrize("name", patched.KERNELS)
def test_a_kernel_is_built(name: str) -> None:
    assert (patched.kernel_folder(name) / "bzImage").exists()


def test_the_kernel_for_hosts_is_built() -> None:
    assert (patched.host_kernel_folder() / "bzImage").exists()


@pytest.mark.parametrize("series", ["7.2", "10.0"])
def test_a_guest_agent_is_built(series: str) -> None:
    passes("guest_agent/build", "--series", series)


@pytest.mark.parametrize(("version", "series"), [("7.3", "stats"), ("6.12", "stats"), ("6.1", "bitmap")])
def test_the_kernels_of_the_series_own_tests_are_built(version: str, series: str) -> None:
    for words in ([], ["--slow-key"]):
        passes("kernel/build", "--version", version, "--series", series, *words)
