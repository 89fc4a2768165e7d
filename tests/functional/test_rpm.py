"""The rpm: the same files as in the Debian package, and what it tells of itself. It is not installed here."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.debian_package import built, kept, run

pytestmark = pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="no rpmbuild: apt-get install rpm")


@pytest.fixture(scope="module")
def package() -> Path:
    return kept("rpm")


def asked(package: Path, tag: str) -> list[str]:
    return run("rpm", "-qp", "--qf", f"[{tag}\\n]", package).splitlines()


def modes(package: Path) -> dict[str, str]:
    """Each path of the rpm, with its mode as `ls` shows it."""
    rows = asked(package, "%{FILEMODES:perms} %{FILENAMES}")
    return {path: mode for mode, _, path in (row.partition(" ") for row in rows)}


def modes_in_deb(package: Path) -> dict[str, str]:
    rows = (line.split(maxsplit=5) for line in run("dpkg-deb", "--contents", package).splitlines())
    return {row[5].split(" -> ")[0].removeprefix(".").rstrip("/"): row[0] for row in rows}


def test_it_has_the_files_of_the_debian_package(package: Path) -> None:
    here, there = modes(package), modes_in_deb(built())
    assert here["/opt/memhint/bin/memhint"] == "-rwxr-xr-x"
    assert here["/usr/bin/memhint-small-pages"] == "-rwxr-xr-x"
    # Of directories an rpm lists its own, and leaves out those that other packages have as well.
    folders = {path for path, mode in there.items() if mode.startswith("d")}
    shared = {path for path in folders if not re.match(r"/(opt|etc|usr/share|usr/share/doc)/memhint(/|$)", path)}
    # Who builds on another day may get another library; which ones there are is requirements.txt's matter.
    libraries = re.compile(r"/opt/memhint/lib/python3\.\d+/site-packages/(?!memhint)")
    wanted = {path: mode for path, mode in there.items() if path not in shared and not libraries.match(path)}
    assert {path: mode for path, mode in here.items() if not libraries.match(path)} == wanted
    assert {name for path in here if (name := library(path))} == {name for path in there if (name := library(path))}


def library(path: str) -> str:
    """The name of a library in the virtualenv, of its metadata."""
    found = re.search(r"/site-packages/([^/]+)-[^-/]+\.dist-info$", path)
    return found[1] if found else ""


def test_everything_is_roots_and_what_is_edited_is_kept(package: Path) -> None:
    assert set(asked(package, "%{FILEUSERNAME}:%{FILEGROUPNAME}")) == {"root:root"}
    flags = (row.rpartition(" ") for row in asked(package, "%{FILENAMES} %{FILEFLAGS:fflags}"))
    assert {path for path, _, flag in flags if flag == "cn"} == {
        "/etc/memhint/memhint.conf",
        "/etc/logrotate.d/memhint",
    }


def test_it_needs_the_python_that_it_was_made_with_and_libvirt(package: Path) -> None:
    needs = asked(package, "%{REQUIRENAME}")
    (python,) = (name for name in needs if name.startswith("/usr/bin/python"))
    assert re.fullmatch(r"/usr/bin/python3\.\d+", python)
    assert modes(package)[f"/opt/memhint/bin/{python.rpartition('/')[2]}"].startswith("l")
    assert {"libvirt-libs", "systemd"} <= set(needs)
    assert asked(package, "%{PROVIDENAME}") in (["memhint", "memhint(x86-64)"], ["memhint", "memhint(aarch-64)"])


def test_its_scripts_are_ones_that_a_shell_takes(package: Path, tmp_path: Path) -> None:
    for name in ("PREIN", "POSTIN", "PREUN", "POSTUN"):
        text = run("rpm", "-qp", "--qf", f"%{{{name}}}", package)
        assert "memhint" in text or "daemon-reload" in text, name
        script = tmp_path / name
        script.write_text(text)
        run("sh", "-n", script)
