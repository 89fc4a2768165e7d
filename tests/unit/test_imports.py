"""No module needs itself, on whatever way: circles are what makes a part hard to take out, to test and to read."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import grimp
import pytest

from tests.functional.processes import ROOT


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "nova_plugin"))
        return grimp.build_graph("memhint", "lab", "bench", "memhint_nova", cache_dir=None)


def test_nothing_imports_itself_on_any_way(graph: grimp.ImportGraph) -> None:
    circles = {
        tuple(sorted(chain))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if (chain := graph.find_shortest_chain(imported, module)) is not None
    }
    assert circles == set()


def test_the_picture_of_the_layers_is_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if "memhint.cli" in one.get("layers", ()))
    held = [set(re.findall(r"memhint\.(\w+)", layer)) for layer in layers]
    lines = (ROOT / "doc" / "design.md").read_text().splitlines()
    width = max(len(line) for line in lines if line.startswith("    ┌"))
    drawn = [set(re.findall(r"\w+", line[:width])) - {"web"} for line in lines if line.startswith("    │")]
    assert drawn == held


def test_whatever_memhint_imports_is_declared() -> None:
    graph = grimp.build_graph("memhint", include_external_packages=True, cache_dir=None)
    outside = {one for one in graph.modules if "." not in one} - {"memhint"} - sys.stdlib_module_names
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = [*(ROOT / "requirements.txt").read_text().split(), *" ".join(setup["extras"].values()).split()]
    declared = {_plain(re.match(r"[\w.-]+", line)[0]) for line in lines}  # type: ignore[index]
    made_by = packages_distributions()
    missing = {one for one in outside if not declared & {_plain(name) for name in made_by.get(one, [one])}}
    assert missing == set()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_guest_of_the_kernels_tests_needs_the_standard_library_alone() -> None:
    code = "import lab.kernel_guest, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert set(loaded.stdout.split()) - sys.stdlib_module_names - {"__main__"} == {"lab"}
