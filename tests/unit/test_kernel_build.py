"""Where kernels are built: what is little more than another one takes over what that has compiled."""

from __future__ import annotations

import argparse
import re
from types import ModuleType

import pytest

from tests.unit.programs import KERNEL, load

OUTSIDE_MM = {
    "bitmap": set(),
    "recycler": {
        "MAINTAINERS",
        "drivers/virtio/virtio_balloon.c",
        "include/linux/page_recycler.h",
        "include/trace/events/page_recycler.h",
        "include/uapi/linux/virtio_balloon.h",
    },
}
"""What a series touches besides mm/, its pages and its tests: no header that much of the kernel includes."""


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return load(KERNEL / "build")


@pytest.mark.parametrize(
    ("series", "config", "tree"),
    [
        ("stats", "guest", "6.12-stats-guest"),
        ("bitmap", "guest", "6.12-stats-guest"),
        ("bitmap", "cloud", "6.12-bitmap-cloud"),
        ("recycler", "guest", "6.12-stats-guest"),
        ("recycler", "cloud", "6.12-recycler-cloud"),
        ("none", "guest", "6.12-none-guest"),
    ],
)
def test_what_is_on_top_of_stats_is_built_where_that_is(build: ModuleType, series: str, config: str, tree: str) -> None:
    args = argparse.Namespace(series=series, config=config)
    assert build.worked_in(args, f"6.12-{series}-{config}") == tree


@pytest.mark.parametrize(
    ("version", "series", "adds"),
    [
        ("6.12", "bitmap", "mm/page_reporting_bitmap.c"),
        ("6.1", "bitmap", "mm/page_reporting_bitmap.c"),
        ("6.12", "recycler", "mm/page_recycler.c"),
    ],
)
def test_what_is_on_top_of_stats_changes_no_header_that_all_of_the_kernel_includes(
    version: str, series: str, adds: str
) -> None:
    patches = KERNEL / "patches" / version
    names = (patches / f"series.{series}").read_text().split()
    touched = {file for name in names for file in re.findall(r"^\+\+\+ b/(\S+)", (patches / name).read_text(), re.M)}
    assert adds in touched
    outside = {file for file in touched if not file.startswith(("mm/", "Documentation/", "tools/testing/"))}
    assert outside == OUTSIDE_MM[series]
