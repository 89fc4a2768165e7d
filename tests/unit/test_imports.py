"""No module needs itself, on whatever way: circles are what makes a part hard to take out, to test and to read."""

from __future__ import annotations

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
