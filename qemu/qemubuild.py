"""Fetch Debian's QEMU source, patch it, configure it and build some of it, once.

Used by qemu/build and guest_agent/build. Everything goes to a cache directory, under a key
made of the source's version, the configure options and the patches; what is there already
is not made again. Nothing below the project changes.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

MESON = "1.5.0"  # what QEMU 10.0 needs at least; Debian 12 has an older one
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


NOT_BUILT = 3  # exit code of build --if-built


class BuildError(Exception):
    pass


def cache_root():
    if "MEMHINT_CACHE" in os.environ:
        return Path(os.environ["MEMHINT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memhint"


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(args, log=None, **kwargs):
    """Runs a command; its output goes to a log, whose end is shown if it fails."""
    if log is None:
        return subprocess.run(args, check=True, capture_output=True, text=True, **kwargs).stdout
    with open(log, "ab") as out:
        if subprocess.run(args, stdout=out, stderr=out, stdin=subprocess.DEVNULL, **kwargs).returncode:
            tail = Path(log).read_text(errors="replace").splitlines()[-15:]
            raise BuildError(f"{args[0]} failed, see {log}:\n" + "\n".join(tail))
    return None


@contextlib.contextmanager
def lock(path):
    """One at a time; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build, {path.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Apt:
    """An apt of our own for one release's sources, at the mirrors this machine uses."""

    def __init__(self, directory, release):
        self.dir, self.release = directory, release
        for name in ("lists/partial", "archives/partial", "empty"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / "status").touch()
        config = [line for line in run(["apt-config", "dump"]).splitlines() if line.startswith("Acquire::")]
        config += [
            f'Dir::Etc::parts "{directory}/empty";',
            f'Dir::Etc::sourceparts "{directory}/empty";',
            f'Dir::Etc::sourcelist "{directory}/sources.list";',
            f'Dir::State::lists "{directory}/lists";',
            f'Dir::State::status "{directory}/status";',
            f'Dir::Cache::archives "{directory}/archives";',
            'Dir::Cache::pkgcache "";',
            'Dir::Cache::srcpkgcache "";',
            'APT::Sandbox::User "root";',
            # a mirror that does not answer is asked again, and half an index is none
            'Acquire::Retries "10";',
            'APT::Update::Error-Mode "any";',
        ]
        (directory / "apt.conf").write_text("\n".join(config) + "\n")
        self.env = dict(os.environ, APT_CONFIG=str(directory / "apt.conf"))

    def sources(self):
        """deb-src lines for our release, made of the machine's own entries for Debian."""
        lines = []
        rows = run(
            [
                "apt-get",
                "indextargets",
                "--format",
                "$(REPO_URI)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)|$(LABEL)",
                "Created-By: Packages",
            ]
        )
        for row in sorted(set(rows.splitlines())):
            uri, codename, component, origin, label = row.split("|")
            if origin != "Debian" or component != "main":
                continue
            suffix = "-security" if "Security" in label else ""
            lines.append(f"deb-src [signed-by={KEYRING}] {uri} {self.release}{suffix} main")
        if not lines:
            raise BuildError("this machine's apt has no entry for Debian's main archive (apt-get update first?)")
        return sorted(set(lines))

    def update(self):
        (self.dir / "sources.list").write_text("\n".join(self.sources()) + "\n")
        run(["apt-get", "update"], log=self.dir / "update.log", env=self.env)

    def newest(self, package, upstream):
        text = run(["apt-cache", "showsrc", package], env=self.env)
        found = re.findall(rf"^Version: ((?:\d+:)?{re.escape(upstream)}[.+~-]\S*)$", text, re.M)
        if not found:
            raise BuildError(f"no {package} {upstream} in {self.release}")
        best = found[0]
        for version in found[1:]:
            if not subprocess.run(["dpkg", "--compare-versions", version, "gt", best]).returncode:
                best = version
        return best

    def fetch(self, package, version, directory):
        run(
            ["apt-get", "source", "--download-only", f"{package}={version}"],
            log=self.dir / "source.log",
            cwd=directory,
            env=self.env,
        )


class Build:
    def __init__(self, name, release, upstream, options, patches, targets, root=None):
        self.name, self.release, self.upstream = name, release, upstream
        self.options, self.targets = options, targets
        self.series = []
        for directory in patches:
            for line in (Path(directory) / "series").read_text().split():
                self.series.append(Path(directory) / line)
        self.root = root or cache_root() / "qemu"

    # the source

    def _version_file(self):
        return self.root / "source" / f"{self.release}-{self.upstream}.version"

    def resolve(self, update=False):
        """The version of Debian's source; asks the mirror the first time, and when told to."""
        with lock(self.root / "source/lock"):
            return self._resolve(update)

    def _resolve(self, update):
        file = self._version_file()
        if update or not file.exists():
            say(f"looking for qemu {self.upstream} of {self.release}")
            apt = Apt(self.root / "source" / f"apt-{self.release}", self.release)
            apt.update()
            version = apt.newest("qemu", self.upstream)
            directory = self.root / "source" / version.replace(":", "_")
            if not list(directory.glob("*.dsc")):
                say(f"fetching qemu {version}")
                # it gets its name when it is whole: a download that was ended half-way has a .dsc too
                new = directory.with_name(directory.name + ".new")
                for one in (new, directory):
                    shutil.rmtree(one, ignore_errors=True)
                new.mkdir(parents=True)
                apt.fetch("qemu", version, new)
                new.rename(directory)
            whole = file.with_name(file.name + ".new")
            whole.write_text(version + "\n")
            whole.replace(file)
        self.version = file.read_text().strip()
        self.source = self.root / "source" / self.version.replace(":", "_")
        return self.version

    def key(self):
        digest = hashlib.sha256()
        for part in (self.version, MESON, *self.options, *self.targets):
            digest.update(part.encode() + b"\0")
        for patch in self.series:
            digest.update(patch.read_bytes() + b"\0")
        return f"{self.name}-{self.version.replace(':', '_')}-{digest.hexdigest()[:12]}"

    # the steps

    def unpack(self):
        shutil.rmtree(self.dir / "src", ignore_errors=True)
        dsc = next(self.source.glob("*.dsc"))
        say(f"unpacking {dsc.name}")
        run(["dpkg-source", "--no-check", "--no-copy", "-x", dsc, self.dir / "src"], log=self.log)
        for patch in self.series:
            say(f"  {patch.name}")
            run(
                ["patch", "-p1", "-s", "-F0", "--no-backup-if-mismatch", "-i", patch.resolve()],
                log=self.log,
                cwd=self.dir / "src",
            )

    def meson(self):
        venv = self.root / f"meson-{MESON}"
        with lock(self.root / "meson.lock"):
            if not works(venv):
                say(f"getting meson {MESON}")
                run([sys.executable, "-m", "venv", "--clear", venv], log=self.log)
                run([venv / "bin/pip", "-q", "install", f"meson=={MESON}", "pycotap"], log=self.log)
        return venv

    def configure(self):
        say("configuring")
        venv = self.meson()
        out = self.dir / "build"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        env = dict(os.environ, PATH=f"{venv}/bin:" + os.environ["PATH"])
        options = list(self.options)
        if self.upstream.startswith("7."):
            options += [f"--meson={venv}/bin/meson", "--with-git-submodules=ignore"]
        else:
            options += [f"--python={venv}/bin/python3", "--disable-download"]
        run(["../src/configure", *options], log=self.log, cwd=out, env=env)

    def compile(self, jobs, targets=None):
        """ninja, with one line of progress."""
        args = ["ninja", "-C", str(self.dir / "build"), f"-j{jobs}", *(targets or self.targets)]
        begin, shown = time.monotonic(), 0.0
        with (
            open(self.log, "ab") as log,
            subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as ninja,
        ):
            for line in ninja.stdout:
                log.write(line)
                now = time.monotonic()
                step = re.match(rb"\[(\d+)/(\d+)\]", line)
                if step and (now - shown > (0.5 if sys.stderr.isatty() else 20)):
                    shown = now
                    text = f"compiling {int(step[1])}/{int(step[2])}, {now - begin:.0f} s"
                    print(
                        "\r" + text if sys.stderr.isatty() else text,
                        file=sys.stderr,
                        end=" " if sys.stderr.isatty() else "\n",
                        flush=True,
                    )
        if ninja.returncode:
            tail = Path(self.log).read_text(errors="replace").splitlines()[-25:]
            raise BuildError(f"compiling failed, see {self.log}:\n" + "\n".join(tail))
        say(f"compiled in {time.monotonic() - begin:.0f} s")

    def prepare(self, update=False):
        """Where things are; builds nothing."""
        self.resolve(update)
        self.dir = self.root / self.key()
        self.install = self.dir / "install"
        self.log = self.dir / "log"
        self.stamp = self.dir / "done"
        return self

    def cached(self):
        """Whether it has been built; asks no mirror and builds nothing."""
        return self._version_file().exists() and self.prepare().stamp.exists()

    def make(self, jobs, install, update=False):
        """Builds unless it has been built; install copies the results."""
        self.prepare(update)
        with lock(self.root / f"{self.dir.name}.lock"):
            if not self.stamp.exists():
                self.dir.mkdir(parents=True, exist_ok=True)
                self.log.write_bytes(b"")
                self.unpack()
                self.configure()
                self.compile(jobs)
                install(self)
                self.stamp.touch()
        current = self.root / self.name
        link = self.root / f".{self.name}.{os.getpid()}"
        link.unlink(missing_ok=True)  # of a process of this number that was ended
        link.symlink_to(self.dir.name)
        link.replace(current)
        return self


def works(venv):
    """Whether a virtualenv has all of meson and can run it: its Python may have gone since, or be another one."""
    # pip writes RECORD last
    whole = all(list(venv.glob(f"lib/python3*/site-packages/{p}-*/RECORD")) for p in ("meson", "pycotap"))
    asked = ([venv / "bin/python3", "-c", "import mesonbuild, pycotap"], [venv / "bin/meson", "--version"])
    try:
        return whole and not any(subprocess.run(one, capture_output=True).returncode for one in asked)
    except OSError:
        return False


def missing(packages):
    """The Debian packages of those given that are not installed."""

    def installed(name):
        asked = ["dpkg-query", "-W", "-f", "${db:Status-Status}", name]  # of one on hold too
        return subprocess.run(asked, capture_output=True, text=True).stdout == "installed"

    return [p for p in packages if not installed(p)]


def check_packages(packages):
    lacking = missing(packages)
    if lacking:
        raise BuildError("packages are missing:\n  apt-get install --no-install-recommends " + " ".join(lacking))
