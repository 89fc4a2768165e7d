"""A MariaDB server: its own directory and socket, no port."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

import pymysql

from lab.servers.directory import ServerDirectory, kill, wait_until


class MariaDB:
    """A server with as many databases as are asked for."""

    def __init__(self, place: ServerDirectory | None = None, options: Sequence[str] = ()) -> None:
        """:param place: with the data of an earlier server, if there is one
        :param options: of mariadbd, besides those that keep it small
        """
        self.place = place or ServerDirectory.temporary("my")
        self.process: subprocess.Popen[bytes] | None = None
        self.socket = str(self.place.path / "socket")
        self._options = tuple(options)
        self._data = f"--datadir={self.place.path}/data"

    def start(self) -> None:
        """Start it, and wait until it answers; the first time there is no data yet, and it is made."""
        if not (self.place.path / "data").exists():
            make = ["/usr/bin/mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal"]
            quick = ["--skip-test-db", "--innodb-log-file-size=8M", "--innodb-flush-method=nosync"]
            self.place.run([*make, self._data, *quick])
        command = ["/usr/sbin/mariadbd", "--no-defaults", self._data, f"--socket={self.socket}", "--skip-networking"]
        small = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=2"]
        quick = ["--innodb-flush-method=nosync", "--skip-sync-frm", "--debug-no-sync", "--skip-name-resolve"]
        quick += [f"--pid-file={self.place.path}/pid"]
        self.process = self.place.start([*command, *small, *quick, *self._options])
        wait_until(self._ready, "MariaDB", self.process)

    def kill(self) -> None:
        """As a power cut would."""
        kill(self.process)

    def stop(self) -> None:
        """In order: what it leaves is complete."""
        kill(self.process, signal.SIGTERM)

    def close(self) -> None:
        """End it, and remove its data."""
        self.stop()
        self.place.remove()

    def url(self, name: str, dialect: str = "mariadb") -> str:
        """SQLAlchemy's URL of a database."""
        return f"{dialect}+pymysql://root@localhost/{name}?unix_socket={self.socket}"

    def create(self, name: str) -> str:
        """The URL of a new database."""
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, name: str) -> None:
        """Remove a database."""
        self.sql(f"DROP DATABASE {name}")

    def sql(self, words: str, database: str | None = None) -> None:
        """Run a statement."""
        with pymysql.connect(unix_socket=self.socket, user="root", database=database, autocommit=True) as connection:
            connection.cursor().execute(words)

    def _ready(self) -> bool:
        try:
            self.sql("SELECT 1")
        except pymysql.Error:
            return False
        return True
