"""The kernel's source as Debian packages it: fetched into a cache, patched, configured. Nothing is installed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VERSIONS = ("7.3", "6.12", "6.1")


@dataclass(frozen=True)
class Series:
    """Patches for one purpose, and what a kernel with them is made of."""

    name: str
    files: tuple[str, ...] = ()
    """Which list them, in the folder of a version, in their order."""
    base: str = "guest"
    """The configuration that they are built with."""
    own: tuple[str, ...] = ()
    """What is added to it."""
    test: tuple[str, ...] = ()
    """What is added for its tests only."""
    kasan: bool = True
    """Whether it goes with KASAN."""

    @property
    def on_stats(self) -> bool:
        """Whether they go on top of those of `stats`."""
        return len(self.files) > 1

    @property
    def for_hosts(self) -> bool:
        """Whether the kernel is for hosts: on the plain source, with a configuration of its own."""
        return self.base == "host"


SERIES = {
    one.name: one
    for one in (
        Series("none"),
        Series("stats", ("series",)),
        Series("bitmap", ("series", "series.bitmap"), own=("bitmap",)),
        Series("recycler", ("series", "series.recycler"), own=("recycler",), test=("recycler-test",), kasan=False),
        Series("host", ("series.host",), base="host"),
    )
}

# Part of every cache key: raise it when the way of building changes what comes out.
RECIPE = 1

# Versions that the release this machine runs may not have, and the one that has them.
RELEASES = {"7.3": "trixie-backports"}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Architecture:
    """What a kernel is built for."""

    name: str
    """As Debian calls it."""
    image: str
    """What is booted, below the folder of the objects."""
    prefix: str = ""
    """Of the compiler's programs; empty for those of this machine."""
    words: tuple[str, ...] = ()
    """More for make."""

    @property
    def compiler(self) -> str:
        """The C compiler."""
        return f"{self.prefix}gcc"


AMD64 = Architecture("amd64", "arch/x86/boot/bzImage")
_ARM64 = "aarch64-linux-gnu-"
ARCHITECTURES = {
    one.name: one
    for one in (
        AMD64,
        Architecture("arm64", "arch/arm64/boot/Image", _ARM64, ("ARCH=arm64", f"CROSS_COMPILE={_ARM64}")),
    )
}

# A mirror that does not answer is asked again, and another apt on this machine is waited for.
PATIENT = ("-o", "Acquire::Retries=10", "-o", "DPkg::Lock::Timeout=600")


class KernelError(Exception):
    """Something the person at the terminal can act on; the text says how."""


def cache_dir() -> Path:
    """What can be made again: packages, source trees, built kernels."""
    explicit = os.environ.get("MEMHINT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return (Path(explicit) if explicit else Path(base) / "memhint") / "kernel"


def say(text: str) -> None:
    """Progress is for people, on standard error; standard output carries results only."""
    print(text, file=sys.stderr, flush=True)


def run(command: Sequence[object], what: str, **kwargs: Any) -> str:
    """Standard output of a command that has to succeed."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **kwargs)
    except FileNotFoundError:
        raise KernelError(f"{what}: there is no {command[0]}; kernel/README.md lists what to install") from None
    if done.returncode:
        raise KernelError(f"{what}: {command[0]} failed\n{(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time works on `name`; the others wait."""
    path = cache_dir() / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another build holds {path}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# Source packages


@dataclass(frozen=True)
class Package:
    """A Debian package of one exact version."""

    name: str
    version: str

    @property
    def file_name(self) -> str:
        """The name apt-get download gives it, without the architecture."""
        return f"{self.name}_{self.version.replace(':', '%3a')}"


def apt_environment(name: str) -> dict[str, str]:
    """For an apt that knows the package: this machine's, or one of our own that knows another release."""
    release = RELEASES.get(name.rpartition("-")[2])
    if release is None:
        return {**os.environ, "LC_ALL": "C"}
    return own_apt(f"apt-{release}", release)


def own_apt(place: str, release: str, architecture: str | None = None) -> dict[str, str]:
    """The environment of an apt of our own, in the folder `place` of the cache, that knows one release of Debian.

    :param architecture: in Debian's word; None: this machine's
    """
    folder = cache_dir() / place
    config = folder / "apt.conf"
    environment = {**os.environ, "LC_ALL": "C", "APT_CONFIG": str(config)}
    with locked(folder.name):
        if not config.exists():
            for part in ("lists/partial", "archives/partial", "none"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / "status").touch()
            own = {"Etc::parts": "none", "Etc::sourceparts": "none", "Etc::sourcelist": "sources.list"}
            own |= {"State::lists": "lists", "State::status": "status", "Cache::archives": "archives"}
            lines = [
                line
                for line in run(["apt-config", "dump"], "reading apt's options").splitlines()
                if "Acquire::" in line
            ]
            lines += [f'Dir::{name} "{folder / path}";' for name, path in own.items()]
            lines += ['Dir::Cache::pkgcache "";', 'Dir::Cache::srcpkgcache "";', 'APT::Sandbox::User "root";']
            if architecture:
                lines += ["#clear APT::Architectures;", f'APT::Architecture "{architecture}";']
            (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {release} main\n")
            config.write_text("\n".join(lines) + "\n")
        if not any((folder / "lists").glob("*Packages*")):
            try:
                run(["apt-get", "-q", *PATIENT, "update"], f"reading the index of {release}", env=environment)
            except KernelError as error:
                say(str(error))  # what is in the cache will do
    return environment


def mirror() -> str:
    """Where this machine's apt has Debian's main archive from."""
    columns = "$(REPO_URI)|$(ORIGIN)|$(LABEL)|$(COMPONENT)"
    for row in run(
        ["apt-get", "indextargets", "--format", columns, "Created-By: Packages"], "reading apt's entries"
    ).splitlines():
        uri, *archive = row.split("|")
        if archive == ["Debian", "Debian", "main"]:
            return uri
    raise KernelError("this machine's apt has no entry for Debian's main archive: run apt-get update")


def find_package(name: str) -> Package:
    """The version apt offers now, or the one in the cache when apt offers none."""
    text = run(["apt-cache", "policy", name], "looking for a package", env=apt_environment(name))
    match = re.search(r"^  Candidate: (\S+)$", text, re.MULTILINE)
    if match and match[1] != "(none)":
        return Package(name, match[1])
    kept = sorted((cache_dir() / "deb").glob(f"{name}_*.deb"), key=lambda path: path.stat().st_mtime)
    if kept:
        return Package(name, kept[-1].name.split("_")[1].replace("%3a", ":"))
    raise KernelError(f"apt offers no {name}: run apt-get update, and enable the distribution's security suite")


def fetch(package: Package) -> Path:
    """The package's .deb in the cache, downloaded unless it is there."""
    into = cache_dir() / "deb"
    into.mkdir(parents=True, exist_ok=True)
    kept = list(into.glob(f"{package.file_name}_*.deb"))
    if kept:
        return kept[0]
    say(f"downloading {package.name} {package.version}")
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        # Without the sandbox option apt warns that its own user cannot write here.
        command = ["apt-get", "-q", *PATIENT, "-o", "APT::Sandbox::User=root"]
        command += ["download", f"{package.name}={package.version}"]
        what = f"download of {package.name} {package.version}; apt-get update may help"
        run(command, what, cwd=scratch, env=apt_environment(package.name))
        (deb,) = Path(scratch).glob("*.deb")
        return Path(shutil.move(deb, into / deb.name))


def fetch_offered(name: str) -> tuple[Package, Path]:
    """The package that apt offers and its .deb in the cache.

    The archive drops a version some time after it has a newer one. An index older than that is read anew.
    """
    package = find_package(name)
    try:
        return package, fetch(package)
    except KernelError as error:
        if not refreshed(name):
            raise
        newer = find_package(name)
        if newer == package:
            raise
        say(f"{error}\n{name} is {newer.version} by now")
        return newer, fetch(newer)


def refreshed(name: str) -> bool:
    """Read the index anew of the apt that knows the package; whether it was. This machine's only root may."""
    environment = apt_environment(name)
    if os.geteuid() != 0 and "APT_CONFIG" not in environment:
        return False
    try:
        run(["apt-get", "-q", *PATIENT, "update"], "reading apt's index anew", env=environment)
    except KernelError as error:
        say(str(error))
        return False
    return True


def foreign(name: str, architecture: Architecture) -> Path:
    """The .deb of another architecture's package in the cache, of the release that this machine runs."""
    release = re.search(r"^VERSION_CODENAME=(\S+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    if release is None:
        raise KernelError("this machine's release has no name in /etc/os-release")
    environment = own_apt(f"apt-{release[1]}-{architecture.name}", release[1], architecture.name)
    into = cache_dir() / "deb"
    into.mkdir(parents=True, exist_ok=True)
    if not (kept := sorted(into.glob(f"{name}_*_{architecture.name}.deb"))):
        say(f"downloading {name} of {architecture.name}")
        command = ["apt-get", "-q", *PATIENT, "download", name]
        run(command, f"download of {name} of {architecture.name}", cwd=into, env=environment)
        kept = sorted(into.glob(f"{name}_*_{architecture.name}.deb"))
    return kept[-1]


def pristine(version: str) -> tuple[Package, Path]:
    """The unpacked, unchanged source tree. Never built in, never written to."""
    name = f"linux-source-{version}"
    package = find_package(name)
    tree = cache_dir() / "src" / package.file_name
    if tree.exists():
        return package, tree
    with locked(name):
        if tree.exists():
            return package, tree
        package, deb = fetch_offered(name)
        tree = cache_dir() / "src" / package.file_name
        if tree.exists():
            return package, tree
        say(f"unpacking {deb.name}")
        tree.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
            run(["dpkg", "-x", deb, scratch], f"unpacking {deb.name}")
            (tarball,) = Path(scratch).glob("usr/src/linux-source-*.tar.xz")
            run(["tar", "-C", scratch, "-xf", tarball], f"unpacking {tarball.name}")
            (Path(scratch) / tarball.name.removesuffix(".tar.xz")).rename(tree)
    return package, tree


# Patches


def patches(version: str, series: str) -> list[Path]:
    """The patches of a series in order."""
    files = SERIES[series].files
    folder = HERE / "patches" / version
    if missing := [file for file in files if not (folder / file).exists()]:
        raise KernelError(f"there is no {missing[-1]} for {version}: the series {series} is for {has_series(series)}")
    return [folder / line for file in files for line in (folder / file).read_text().split()]


def has_series(series: str) -> str:
    """The versions that a series with a file of its own is for."""
    return ", ".join(version for version in VERSIONS if (HERE / "patches" / version / f"series.{series}").exists())


def apply(tree: Path, patch: Path) -> None:
    """Apply one patch, exactly: one that needs fuzz may have gone to the wrong place."""
    command = ["patch", "-p1", "-s", "-F0", "--no-backup-if-mismatch", "-d", tree, "-i", patch]
    run(command, f"{patch.name} does not apply to {tree.name}")


def touched(patch: Path) -> set[str]:
    """Files a patch adds or changes."""
    return set(re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE))


def patched_tree(source: Path, series: Sequence[Path], tree: Path) -> None:
    """Make `tree` the source with the series applied.

    Files that come out as they were keep their times, so that make builds again only what depends on a change.
    """
    stamp = tree / ".memhint-series"
    want = "".join(f"{hashlib.sha256(patch.read_bytes()).hexdigest()} {patch.name}\n" for patch in series) + source.name
    if stamp.exists() and stamp.read_text() == want:
        return
    new = tree.with_name(tree.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    # Hard links: quick, and patch replaces the files it changes.
    run(["cp", "-al", source, new], f"copying {source.name}")
    changed: set[str] = set()
    for patch in series:
        apply(new, patch)
        changed |= touched(patch)
    # Only files named by this series or the one before can differ between the trees.
    before = tree / ".memhint-touched"
    for name in changed | set(before.read_text().split() if before.exists() else []):
        is_new, is_old = (new / name).exists(), (tree / name).exists()
        if is_new and is_old and (new / name).read_bytes() == (tree / name).read_bytes():
            shutil.copystat(tree / name, new / name)
        elif is_new:
            content = (new / name).read_bytes()
            (new / name).unlink()
            (new / name).write_bytes(content)
    (new / ".memhint-touched").write_text("\n".join(sorted(changed)))
    (new / ".memhint-series").write_text(want)
    shutil.rmtree(tree, ignore_errors=True)
    new.rename(tree)


# Configuration and make


def fragments(version: str, series: str, extra: Sequence[str] = ()) -> list[Path]:
    """The configuration fragments a kernel is built from, last one wins."""
    one = SERIES[series]
    folder = HERE / "config"
    renamed = folder / f"{version}.config"
    parts = [folder / f"{one.base}.config", *([renamed] if renamed.exists() and not one.for_hosts else [])]
    return parts + [folder / f"{name}.config" for name in (*one.own, *extra)]


def configure(
    tree: Path, out: Path, parts: Sequence[Path], base: Path | None = None, architecture: Architecture = AMD64
) -> None:
    """Write .config in `out` from tinyconfig, or from `base`, and the fragments. Unchanged, it keeps its time."""
    out.mkdir(parents=True, exist_ok=True)
    final = out / ".config"
    before = final.read_text() if final.exists() else ""
    made = final.stat() if before else None
    command = ["make", "-s", "-C", tree, f"O={out}", *architecture.words]
    if base:
        shutil.copy(base, final)
    else:
        run([*command, "tinyconfig"], "tinyconfig")
    with final.open("a") as file:
        file.writelines(part.read_text() for part in parts)
    run([*command, "olddefconfig"], "olddefconfig")
    if made and final.read_text() == before:
        os.utime(final, ns=(made.st_atime_ns, made.st_mtime_ns))


def unmet(out: Path, parts: Sequence[Path]) -> list[str]:
    """Lines of the fragments that have no effect: this version does not know the name, or a dependency is missing."""
    wanted: dict[str, str] = {}
    for part in parts:
        for line in part.read_text().splitlines():
            match = re.match(r"(?:# )?(CONFIG_\w+)(?:=| is not set)", line)
            if match:
                wanted[match[1]] = line
    have = set((out / ".config").read_text().splitlines())
    return [
        line
        for name, line in wanted.items()
        if line not in have and not (line.startswith("#") and not any(other.startswith(f"{name}=") for other in have))
    ]


def make(
    tree: Path, out: Path, targets: Sequence[str], what: str, jobs: int, architecture: Architecture = AMD64
) -> None:
    """Run make, with a line of progress; the whole output goes to a log beside the objects."""
    log = out / "build.log"
    command = ["make", "-C", str(tree), f"O={out}", f"-j{jobs}", "LOCALVERSION=", *architecture.words, *targets]
    environment = {**os.environ, "LC_ALL": "C", "KBUILD_BUILD_USER": "memhint", "KBUILD_BUILD_HOST": "memhint"}
    started = shown = time.monotonic()
    steps = 0
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            steps += 1
            now = time.monotonic()
            if now - shown >= (0.5 if sys.stderr.isatty() else 60):
                shown = now
                text = f"{what}: {steps} steps, {now - started:.0f} s"
                if sys.stderr.isatty():
                    print(f"\r{text}: {line.strip()[:60]:60}", end="", file=sys.stderr, flush=True)
                else:
                    say(text)
        status = process.wait()
    if sys.stderr.isatty():
        print("\r" + " " * 110 + "\r", end="", file=sys.stderr)
    if status:
        errors = [line for line in log.read_text().splitlines() if re.search(r"error|Error|warning:", line)]
        raise KernelError(f"{what}: make failed, the output is in {log}\n" + "\n".join(errors[:10]))
    say(f"{what}: done in {time.monotonic() - started:.0f} s")
