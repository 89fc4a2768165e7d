"""The shipped AppArmor profile is one that the parser takes, and says what the unit says. tests/lab has it at work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memhint.conf.load import load
from memhint.kernel import host_stops, ksm_partition, kvm_pages
from memhint.levers import ksm_flag
from tests.apparmor import PROFILE, ROOT, SMALL_PAGES, compiled, missing

needs_parser = pytest.mark.skipif(bool(missing()), reason=missing())


@needs_parser
def test_it_is_policy_and_complains(tmp_path: Path) -> None:
    text = PROFILE.read_text()
    assert b"memhint-agent" in compiled(text, tmp_path)
    assert "profile memhint-agent flags=(complain) {" in text


@needs_parser
def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="syntax error"):
        compiled(PROFILE.read_text().replace("capability sys_ptrace,", "capability sys_ptrace"), tmp_path)


def test_its_capabilities_are_those_of_the_unit() -> None:
    unit = (ROOT / "etc/systemd/memhint-agent.service").read_text()
    (words,) = re.findall(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE)
    given = {word.removeprefix("CAP_").lower() for word in words.split()}
    assert set(re.findall(r"^  capability (\w+),$", PROFILE.read_text(), re.MULTILINE)) == given


def test_it_has_what_the_agent_reads_writes_and_runs_beside_the_kernels_common_files() -> None:
    (reload,) = re.findall(r"^ExecReload=(\S+)", (ROOT / "etc/systemd/memhint-agent.service").read_text(), re.MULTILINE)
    flag, _ = ksm_flag.PLACES
    text = PROFILE.read_text()
    rules = {path: rights for path, rights in re.findall(r"^  (\S*/\S*) (\w+),$", text, re.MULTILINE)}
    assert rules[f"@{{PROC}}/@{{pid}}/{ksm_partition._FILE}"] == "rw"
    assert rules[f"@{{sys}}/{kvm_pages._DIRECTORY.removeprefix('sys/')}/**"] == "r"
    assert rules[load([]).nova.compute_id] == "r"
    assert rules[f"/{{,var/}}{flag}/**"] == "rw"
    assert rules["/{,usr/}bin/" + Path(reload).name] == "mrix"
    assert rules["/{,usr/}bin/" + host_stops._ASK[0]] == "mrix"


@needs_parser
def test_the_line_for_vms_with_small_pages_is_policy(tmp_path: Path) -> None:
    profile = "include <tunables/global>\nprofile vm {\n  include <abstractions/libvirt-qemu>\n%s}\n"
    assert compiled(profile % SMALL_PAGES.read_text(), tmp_path) != compiled(profile % "", tmp_path)
