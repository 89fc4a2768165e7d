"""The Debian package for tests: built once for a state of the checkout, and made over into another version."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from lab.paths import cache_dir

ROOT = Path(__file__).resolve().parent.parent


def built() -> Path:
    """What `tools/deb` makes of this checkout, by Debian's own Python."""
    return kept("deb")


def kept(kind: str) -> Path:
    """The package that `tools/KIND` makes of this checkout; from the cache where no file of it has changed. Its version
    is then that of the commit that it was first built at."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = sorted(subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0"))
    digest = hashlib.sha256()
    for name in files:
        path = ROOT / name.decode()
        if path.is_file() and not name.startswith(
            (b"tests/", b"lab/", b"bench/", b"kernel/", b"qemu/", b"guest_agent/")
        ):
            digest.update(name + b"\0" + path.read_bytes() + b"\0")
    folder = cache_dir() / ("package" if kind == "deb" else f"package-{kind}")
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / digest.hexdigest()[:16]
    with (folder / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            for older in folder.iterdir():
                if older.is_dir():
                    shutil.rmtree(older)
            new = folder / "new"
            run(ROOT / "tools" / kind, new)
            new.rename(final)
    (package,) = final.glob(f"*.{kind}")
    return package


def made_over(package: Path, into: Path, version: str, program: str) -> Path:
    """The same package as if it was of another version: of Debian's, and of what `memhint --version` says."""
    into.mkdir(parents=True)
    tree = into / "tree"
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
    (metadata,) = tree.glob("opt/memhint/lib/python3*/site-packages/memhint-*.dist-info/METADATA")
    metadata.write_text(re.sub(r"^Version: .*$", f"Version: {program}", metadata.read_text(), flags=re.MULTILINE))
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, into)
    shutil.rmtree(tree)
    (made,) = into.glob("*.deb")
    return made


def run(*words: str | Path) -> str:
    """What a command printed; it must not fail."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout
