"""The Nova plugin, as far as it stands without Nova: its table of keys, what it imports, and its documentation."""

from __future__ import annotations

import ast
import re
import sys
from itertools import product
from pathlib import Path

import pytest

from memhint.objects.policy import KEYS, NOVA_KEYS
from memhint.objects.report import STALE_PERIODS
from memhint.planner.claims import canonical, speaks_for
from memhint.planner.pressure import PressureSample, alarms
from memhint.planner.settings import PlannerSettings, PressureThresholds
from tests.unit.programs import ROOT, load

PLUGIN = ROOT / "nova_plugin" / "memhint_nova"
NOVAS_SIDE = {"filter", "weigher", "extra_specs", "driver", "guard"}


def module(name: str):
    """A module of the plugin by its file: nova_plugin is not on the path, for it has a folder called nova."""
    return load(PLUGIN / f"{name}.py", f"plugin_{name}")


PLUGIN_KEYS = module("keys").KEYS

TEXTS = ["", "on", "off", "auto", "allow", "deny", "guaranteed", "burstable", "best-effort", "0", "007", "10", "11"]
TEXTS += ["16777216", "16777217", "3600000", "3600001", "-1", "1.5", "a b", "web.1", "x" * 64, "x" * 65, "١", "On"]


def test_the_plugin_has_every_policy_key_and_those_that_nova_alone_reads() -> None:
    assert list(PLUGIN_KEYS) == [*KEYS, *sorted(NOVA_KEYS)]


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_agent_and_plugin_take_the_same_values(key) -> None:
    other = PLUGIN_KEYS[key.name]
    assert [other.kind.check(text) for text in TEXTS] == [key.kind.check(text) for text in TEXTS]
    assert other.default == key.default


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_a_misspelt_wish_is_an_opt_out_where_there_is_one(key) -> None:
    assert PLUGIN_KEYS[key.name].safe == (key.opt_out or key.default)


def test_both_sides_agree_on_what_they_do_not_tell_each_other() -> None:
    assert module("host").STALE_PERIODS == STALE_PERIODS
    # the word by which the filter tells swap-in from other pressure
    swapping = PressureSample(psi_some=None, swap_in=1e9, available=50.0)
    assert "swap-in" in alarms(swapping, PressureThresholds())[0]
    calm = PressureSample(psi_some=99.0, swap_in=0.0, available=1.0, refault=1e9)
    assert not any("swap-in" in one for one in alarms(calm, PressureThresholds()))
    assert PlannerSettings().overhead == 128 << 20
    overhead = (PLUGIN / "conf.py").read_text().partition('"overhead_mib",')[2]
    assert overhead.split("default=")[1].startswith("128,")


NAMES = [
    "compute-1",
    "Compute-1",
    "compute-1.example.org",
    "compute-1.example.org.",
    "compute-1.example.net",
    "compute-2",
]
NAMES += ["compute-10", "example.compute-1", "rack-7", "", ".", "straße", "STRASSE.example.org"]
UUIDS = ["2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f10", "11111111-1111-4111-8111-111111111111"]


@pytest.mark.parametrize("said", [{}, {"rack-7": UUIDS[0].upper()}, {"compute-1": UUIDS[1], "rack-7": "none"}])
def test_controllers_and_plugin_take_the_same_hosts_word_for_a_compute(said) -> None:
    plugin = module("claims")
    for host, uuid, name in product(NAMES, UUIDS, NAMES):
        assert plugin.Said(said).speaks_for(host, uuid, (name,)) == speaks_for(host, uuid, name, said), (host, name)
    for text in ("", "x", UUIDS[0].upper(), f"{{{UUIDS[0]}}}", UUIDS[0][:-1]):
        assert plugin.canonical(text) == canonical(text)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_nova_is_imported_by_nobody_else_and_the_plugin_imports_nothing_of_memhint() -> None:
    for path in PLUGIN.glob("*.py"):
        found = imports(path)
        assert "memhint" not in found, path
        assert ("nova" in found) == (path.stem in NOVAS_SIDE), path
        assert found - set(sys.stdlib_module_names) <= {
            "keystoneauth1",
            "memhint_nova",
            "nova",
            "oslo_config",
            "oslo_log",
            "requests",
            "urllib3",
        }, path
    for folder in ("memhint", "lab"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.is_relative_to(ROOT / "lab/openstack/programs"):
                continue  # run by an OpenStack's own Python
            assert not imports(path) & {"nova", "memhint_nova"}, path


def test_the_page_of_extra_specs_is_the_table() -> None:
    page = load(ROOT / "tools" / "flavor_page").page(PLUGIN_KEYS)
    assert (ROOT / "doc" / "flavor.md").read_text() == page, "run tools/flavor_page"


def test_every_operation_of_the_page_is_a_test_and_every_test_has_its_row() -> None:
    source = (ROOT / "nova_plugin/tests/functional/test_operations.py").read_text()
    tests = {
        test.name
        for group in ast.parse(source).body
        if isinstance(group, ast.ClassDef) and group.name != "ExtraSpecsTest"
        for test in group.body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
    }
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "doc" / "nova.md").read_text()))
    assert tests - {"test_packs", "test_stale", "test_another_compute_by_that_name"} == named
