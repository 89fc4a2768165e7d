"""Where kernels are built: what is little more than another one takes over what that has compiled."""

from __future__ import annotations

import argparse
import re
from types import ModuleType

import pytest

from tests.unit.programs import KERNEL, load


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return load(KERNEL / "build")


@pytest.mark.parametrize(
    ("series", "config", "tree"),
    [
        ("stats", "guest", "6.12-stats-guest"),
        ("bitmap", "guest", "6.12-stats-guest"),
        ("bitmap", "cloud", "6.12-bitmap-cloud"),
        ("recycler", "guest", "6.12-recycler-guest"),
        ("none", "guest", "6.12-none-guest"),
    ],
)
def test_the_bitmap_is_built_where_stats_is(build: ModuleType, series: str, config: str, tree: str) -> None:
    args = argparse.Namespace(series=series, config=config)
    assert build.worked_in(args, f"6.12-{series}-{config}") == tree


@pytest.mark.parametrize("version", ["6.12", "6.1"])
def test_the_bitmap_changes_no_header_that_all_of_the_kernel_includes(version: str) -> None:
    patches = KERNEL / "patches" / version
    names = (patches / "series.bitmap").read_text().split()
    touched = {file for name in names for file in re.findall(r"^\+\+\+ b/(\S+)", (patches / name).read_text(), re.M)}
    assert "mm/page_reporting_bitmap.c" in touched
    assert not {file for file in touched if not file.startswith(("mm/", "Documentation/", "tools/testing/"))}
