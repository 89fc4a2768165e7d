"""A PostgreSQL server: its own directory and socket, no port."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from lab.process import Process
from lab.servers.directory import ServerDirectory, ServerFailed, kill, wait_until


class Postgres:
    """One server; whoever uses it makes a database of his own in it."""

    def __init__(self) -> None:
        self.place = ServerDirectory.temporary("pg")
        self._bin = _programs()
        self._data = self.place.path / "data"
        self._kept = self.place.path / "kept"
        self.process: subprocess.Popen[bytes] | None = None
        self.place.run(
            [
                f"{self._bin}/initdb",
                "-D",
                str(self._data),
                "-U",
                "memhint",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-locale",
                "-N",
            ]
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = (
            "listen_addresses=",
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=60",
            "dynamic_shared_memory_type=mmap",  # in its own directory: of a killed one nothing stays in /dev/shm
        )
        command = [f"{self._bin}/postgres", "-D", str(self._data), "-k", str(self.place.path)]
        self.process = self.place.start([*command, *(word for one in options for word in ("-c", one))])
        wait_until(self._ready, "PostgreSQL", self.process)

    def kill(self) -> None:
        """As a power cut would."""
        # Its children have sessions of their own; one that lives on keeps a new server from starting.
        children = self._children()
        kill(self.process)
        for one in children:
            one.kill(signal.SIGKILL)
        wait_until(lambda: not any(one.alive for one in children), "PostgreSQL's children to end")
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def keep(self) -> None:
        """Remember what it holds now. It must not run."""
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self._data, self._kept)
        self.place.own(self._kept)

    def go_back(self) -> None:
        """Hold what was remembered and nothing newer, as a standby that had not heard of it. It must not run."""
        shutil.rmtree(self._data)
        self._kept.rename(self._data)

    def close(self) -> None:
        """End it, and remove its data."""
        kill(self.process, signal.SIGINT)
        self.place.remove()

    def create(self, name: str) -> str:
        """The URL of a new database."""
        self._sql(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://memhint@/{name}?host={self.place.path}"

    def drop(self, name: str) -> None:
        """Remove a database."""
        self._sql(f"DROP DATABASE {name} WITH (FORCE)")

    def _children(self) -> list[Process]:
        if self.process is None or self.process.poll() is not None:
            return []
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [found for one in text.split() if (found := Process.of(int(one))) is not None]

    def _sql(self, words: str) -> None:
        self.place.run(
            [f"{self._bin}/psql", "-h", str(self.place.path), "-U", "memhint", "-d", "postgres", "-qc", words]
        )

    def _ready(self) -> bool:
        command = [f"{self._bin}/pg_isready", "-q", "-h", str(self.place.path)]
        return subprocess.run(command, check=False).returncode == 0


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    if not found:
        raise ServerFailed("PostgreSQL is not installed: tools/setup installs what bindep.txt names")
    return found[-1]
