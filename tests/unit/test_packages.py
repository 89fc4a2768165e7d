"""What packages do to a host's configuration when they are installed: nothing that somebody has to answer or mend."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memhint.conf.load import load
from memhint.objects.ownership import Mark
from memhint.store import not_put_back
from memhint.store.database import open_store
from memhint.store.marks import Marks

ROOT = Path(__file__).parents[2]
STAGE = (ROOT / "tools" / "stage").read_text()
DEB = (ROOT / "tools" / "deb").read_text()
SPEC = (ROOT / "etc" / "rpm" / "memhint.spec").read_text()
# What each package does to a host once its files are there.
SCRIPTS = {
    "deb": (DEB, r"DEBIAN/postinst\" <<'END'\n(.*?)^END$"),
    "rpm": (SPEC, r"^%post\n(.*?)^%preun$"),
}
# The same before its files go, with the word by which each is told that they do.
REMOVALS = {
    "deb": (DEB, r"DEBIAN/prerm\" <<'END'\n(.*?)^END$", "remove"),
    "rpm": (SPEC, r"^%preun\n(.*?)^%postun$", "0"),
}
PURGE = (DEB, r"DEBIAN/postrm\" <<'END'\n(.*?)^END$", "purge")
PROGRAMS = ("systemd-sysusers", "systemd-tmpfiles", "systemctl")
# chgrp fails as the real one does. There is no group memhint on the tests' machine.
CHGRP = '#!/bin/sh\ntest -e "$2" || { echo "chgrp: cannot access $2" >&2; exit 1; }\necho "$@" >>"$CALLS"\n'
# One that changes has dpkg ask, at the next upgrade, each operator who edited theirs, and fail where nobody answers.
SETTLED = {
    "/etc/memhint/memhint.conf": "0b671af167d93668",
    "/etc/logrotate.d/memhint": "f707b62215cc74a4",
}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A directory that stands for / in the scripts, with what they call."""
    for program in PROGRAMS:
        _program(tmp_path / "bin" / program, "#!/bin/sh\n")
    _program(tmp_path / "bin" / "chgrp", CHGRP)
    _program(tmp_path / "opt" / "memhint" / "bin" / "python", "#!/bin/sh\n")
    (tmp_path / "etc" / "memhint").mkdir(parents=True)
    return tmp_path


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _installed(host: Path, kind: str) -> tuple[int, str, str]:
    """The exit code of a package's script, what it said, and whose group it changed."""
    text, pattern = SCRIPTS[kind]
    return _run(host, text, pattern, "configure", "0~before")


def _run(host: Path, text: str, pattern: str, *words: str) -> tuple[int, str, str]:
    (script,) = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    script = re.sub(r"(?<!\S)/(opt|etc|run|var)/", rf"{host}/\1/", script)
    path, calls = f"{host / 'bin'}:{os.environ['PATH']}", host / "calls"
    done = subprocess.run(
        ["sh", "-c", script, "script", *words],
        env={"PATH": path, "CALLS": str(calls)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, calls.read_text() if calls.exists() else ""


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_configuration_that_was_deleted_ends_no_upgrade(kind: str, host: Path) -> None:
    assert _installed(host, kind) == (0, "", "")


@pytest.mark.parametrize("kind", SCRIPTS)
def test_the_user_memhint_may_read_the_configuration(kind: str, host: Path) -> None:
    file = host / "etc" / "memhint" / "memhint.conf"
    file.touch()
    assert _installed(host, kind) == (0, "", f"memhint {file}\n")


@pytest.mark.parametrize("kind", REMOVALS)
def test_a_removal_names_the_vms_that_need_what_goes(kind: str, host: Path) -> None:
    assert _run(host, *REMOVALS[kind])[:2] == (0, "")
    machines = host / "etc" / "libvirt" / "qemu"
    machines.mkdir(parents=True)
    (machines / "large.xml").write_text("<emulator>/usr/bin/qemu-system-x86_64</emulator>\n")
    assert _run(host, *REMOVALS[kind])[:2] == (0, "")
    (machines / "small.xml").write_text("<emulator>/usr/bin/memhint-small-pages</emulator>\n")
    code, said, _ = _run(host, *REMOVALS[kind])
    assert code == 0
    assert f"{machines}/small.xml" in said
    assert "large.xml" not in said
    assert "/usr/share/doc/memhint/install.md" in said


@pytest.mark.parametrize("kind", REMOVALS)
def test_a_removal_says_what_was_not_put_back_and_a_purge_keeps_how_it_was(kind: str, host: Path) -> None:
    _program(host / "opt" / "memhint" / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    _program(host / "bin" / "getent", "#!/bin/sh\nexit 2\n")  # no user is to be deleted here
    place = host / "var" / "lib" / "memhint"
    place.mkdir(parents=True)
    store = open_store(f"sqlite:///{place}/memhint.db")
    assert _run(host, *REMOVALS[kind])[:2] == (0, "")
    marks = Marks(store.database, "host-a")
    marks.put(Mark("vm-1", "memory.swap.max", "max", "0", "4242:1000", 1.0))
    store.close()
    code, said, _ = _run(host, *REMOVALS[kind])
    assert code == 0
    assert f"see {place}/not-put-back" in said
    assert (place / "not-put-back").read_text() == "vm-1\tmemory.swap.max\tmax\t0\n"
    assert "is kept" in _run(host, *PURGE)[1]
    assert (place / "memhint.db").exists()
    (place / "not-put-back").unlink()
    assert _run(host, *PURGE)[:2] == (0, "")
    assert not place.exists()


@pytest.mark.parametrize("text", ["", "no database", None])
def test_a_store_that_tells_nothing_is_not_taken_for_one_without_marks(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "memhint.db"
    if text is not None:
        path.write_text(text)
    assert not_put_back.main([str(path)]) == (1 if text else 0)


@pytest.mark.parametrize(("kind", "word"), [("deb", "upgrade"), ("rpm", "1")])
def test_an_upgrade_names_none(kind: str, word: str, host: Path) -> None:
    machines = host / "etc" / "libvirt" / "qemu"
    machines.mkdir(parents=True)
    (machines / "small.xml").write_text("<emulator>/usr/bin/memhint-small-pages</emulator>\n")
    assert _run(host, *REMOVALS[kind][:2], word)[:2] == (0, "")


def _conffiles() -> dict[str, Path]:
    """What an operator may edit: where it is, and of which file of the tree it is made."""
    (line,) = re.findall(r"^printf '(.+)' >\"\$root/DEBIAN/conffiles\"$", DEB, re.MULTILINE)
    names = line.removesuffix(r"\n").split(r"\n")
    return {name: ROOT / source for name in names for source in _sources(name)}


def _sources(name: str) -> list[str]:
    """The files that `tools/stage` puts at a place."""
    return re.findall(rf'^install .*?(etc/\S+) "\$root{re.escape(name)}"$', STAGE, re.MULTILINE)


def test_what_an_operator_may_edit_changes_with_no_release() -> None:
    found = {name: hashlib.sha256(source.read_bytes()).hexdigest()[:16] for name, source in _conffiles().items()}
    assert found == SETTLED


def test_both_packages_keep_what_an_operator_edited() -> None:
    kept = re.findall(r"^%config\(noreplace\) .*?(/\S+)$", SPEC, re.MULTILINE)
    assert sorted(kept) == sorted(_conffiles())


def test_the_configuration_that_is_shipped_sets_nothing_and_names_what_is_there() -> None:
    source = _conffiles()["/etc/memhint/memhint.conf"]
    load([source])
    lines = [line for line in source.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["[DEFAULT]"]
    named = re.findall(r"/usr/share/\S+", source.read_text())
    assert "/usr/share/memhint/memhint.conf.sample" in named
    for name in named:
        base, file = name.rsplit("/", 1)
        assert base in ("/usr/share/memhint", "/usr/share/doc/memhint")
        assert (ROOT / ("doc" if "/doc/" in name else "etc") / file).is_file(), name


def test_the_sample_is_beside_that_of_the_policy() -> None:
    (line,) = re.findall(r'^install -m 0644 (.+) "\$share"$', STAGE, re.MULTILINE)
    assert {"etc/memhint.conf.sample", "etc/policy.yaml.sample"} <= set(line.split())


def test_the_page_gives_the_ratios_back_before_it_stops_and_removes_what_does_it() -> None:
    page = (ROOT / "doc" / "install.md").read_text().split("\n## Uninstall\n")[1]
    steps = [
        page.index(f"       {words}") for words in ("memhint openstack uninstall\n", "systemctl disable", "rm -rf /opt")
    ]
    assert steps == sorted(steps)


def test_the_page_has_all_that_the_api_reads_in_place_before_it_starts() -> None:
    page = (ROOT / "doc" / "install.md").read_text().split("\n## The API\n")[1].split("\n## ")[0]
    words = (
        "memhint token create",
        "chgrp memhint",
        "memhint-api.service.d/single-host.conf\n",
        "daemon-reload",
        "restart",
    )
    steps = [re.search(rf"^    .*{re.escape(word)}", page, re.MULTILINE) for word in words]
    places = [step.start() for step in steps if step]
    assert len(places) == len(words)
    assert places == sorted(places)
    (share,) = re.findall(r"/usr/share/memhint/\S+\.conf", page)
    (line,) = re.findall(r'^install -m 0644 (.+) "\$share"$', STAGE, re.MULTILINE)
    assert f"etc/systemd/{Path(share).name}" in line.split()
