"""The Debian package: what is in it, and that what is in it runs where it will be."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.debian_package import ROOT, built, run


@pytest.fixture(scope="module")
def package() -> Path:
    return built()


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "--raw-extract", package, place)
    return place


def test_it_says_what_it_is_and_needs(package: Path) -> None:
    said = run("dpkg-deb", "--field", package)
    assert "Package: memhint\n" in said
    assert re.search(r"^Depends: python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\), libvirt0", said, re.MULTILINE)


def test_what_is_on_the_way_to_a_release_is_older_than_it(package: Path) -> None:
    version = run("dpkg-deb", "--field", package, "Version").strip()
    assert ".dev" not in version
    if "~" in version:
        run("dpkg", "--compare-versions", version, "lt", version.partition("~")[0])


def test_everything_is_roots_and_at_its_place(package: Path) -> None:
    lines = [line.split(maxsplit=5) for line in run("dpkg-deb", "--contents", package).splitlines()]
    assert {line[1] for line in lines} == {"root/root"}
    found = {line[5].split(" -> ")[0]: line[0] for line in lines}
    for name in (
        "./usr/lib/systemd/system/memhint-agent.service",
        "./usr/lib/systemd/system/memhint-api.service",
        "./usr/lib/systemd/system/memhint-controller.service",
        "./usr/lib/sysusers.d/memhint.conf",
        "./usr/lib/tmpfiles.d/memhint.conf",
        "./etc/logrotate.d/memhint",
        "./usr/share/memhint/prometheus/memhint.rules.yml",
        "./usr/share/memhint/grafana/memhint.json",
        "./usr/sbin/memhint",
        "./usr/share/memhint/apparmor.d/memhint-small-pages",
        "./usr/share/memhint/memhint.conf.sample",
        "./usr/share/memhint/policy.yaml.sample",
    ):
        assert name in found, name
    assert found["./usr/bin/memhint-small-pages"] == "-rwxr-xr-x"
    assert found["./etc/memhint/memhint.conf"] == "-rw-r-----"
    assert found["./usr/share/memhint/memhint.conf.sample"] == "-rw-r--r--"
    assert not any("__pycache__" in name for name in found)


def test_an_upgrade_has_nothing_to_ask_about_the_configuration(unpacked: Path) -> None:
    # tests/unit/test_packages.py holds these two to what they are.
    assert (unpacked / "DEBIAN/conffiles").read_text().split() == [
        "/etc/memhint/memhint.conf",
        "/etc/logrotate.d/memhint",
    ]
    assert (unpacked / "etc/memhint/memhint.conf").read_text() == (ROOT / "etc/memhint.conf").read_text()
    sample = unpacked / "usr/share/memhint/memhint.conf.sample"
    assert sample.read_text() == (ROOT / "etc/memhint.conf.sample").read_text()


def test_the_page_that_an_alert_names_is_there(unpacked: Path) -> None:
    rules = (unpacked / "usr/share/memhint/prometheus/memhint.rules.yml").read_text()
    pages = re.findall(r"runbook_url: file://(/\S+)", rules)
    assert pages
    assert all((unpacked / page.lstrip("/")).is_file() for page in pages)


def test_nothing_in_it_names_the_place_where_it_was_built(unpacked: Path) -> None:
    for path in [*(unpacked / "opt/memhint/bin").iterdir(), unpacked / "opt/memhint/pyvenv.cfg"]:
        if path.is_file() and not path.is_symlink():
            assert b"/tmp/" not in path.read_bytes(), path
    named = subprocess.run(["grep", "-rlI", "/tmp/tmp", unpacked / "opt/memhint"], capture_output=True, text=True)
    assert [line for line in named.stdout.splitlines() if "memhint/" in line.split("site-packages/")[-1]] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts it at /opt in a namespace of its own, as root")
def test_what_is_in_it_runs_at_its_place(unpacked: Path) -> None:
    script = 'mount --bind "$1/opt" /opt && /opt/memhint/bin/memhint --version && "$1/usr/sbin/memhint" api --help'
    said = run("unshare", "--mount", "sh", "-c", script, "sh", unpacked)
    assert said.startswith("memhint ")
    assert "Serve the admin API and the dashboard" in said
    for unit in ("agent", "api", "controller"):
        assert (
            f"/opt/memhint/bin/memhint {unit}"
            in (unpacked / f"usr/lib/systemd/system/memhint-{unit}.service").read_text()
        )


def test_its_scripts_are_ones_that_a_shell_takes(unpacked: Path) -> None:
    for name in ("postinst", "prerm", "postrm"):
        run("sh", "-n", unpacked / "DEBIAN" / name)
