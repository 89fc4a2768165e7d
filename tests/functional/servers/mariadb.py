"""A MariaDB server of a test: its own directory and socket, no port."""

from __future__ import annotations

import signal
import subprocess

import pymysql

from tests.functional.servers.process import Place, kill, wait_until


class MariaDB:
    """Started once per session; each test has a database of its own in it."""

    def __init__(self) -> None:
        self.place = Place("my")
        self._data = f"--datadir={self.place.path}/data"
        self._socket = str(self.place.path / "socket")
        self._process: subprocess.Popen[bytes] | None = None
        self.place.run(
            [
                "/usr/bin/mariadb-install-db",
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                self._data,
                "--skip-test-db",
                "--innodb-log-file-size=8M",
                "--innodb-flush-method=nosync",
            ]
        )

    def start(self) -> None:
        command = ["/usr/sbin/mariadbd", "--no-defaults", self._data, f"--socket={self._socket}", "--skip-networking"]
        small = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=2"]
        quick = ["--innodb-flush-method=nosync", "--skip-name-resolve", f"--pid-file={self.place.path}/pid"]
        self._process = self.place.start([*command, *small, *quick])
        wait_until(self._ready, "MariaDB", self._process)

    def kill(self) -> None:
        """As a power cut would."""
        kill(self._process)

    def close(self) -> None:
        kill(self._process, signal.SIGTERM)
        self.place.remove()

    def create(self, name: str) -> str:
        self._sql(f"CREATE DATABASE {name}")
        return f"mariadb+pymysql://root@localhost/{name}?unix_socket={self._socket}"

    def drop(self, name: str) -> None:
        self._sql(f"DROP DATABASE {name}")

    def _sql(self, words: str) -> None:
        with pymysql.connect(unix_socket=self._socket, user="root", autocommit=True) as connection:
            connection.cursor().execute(words)

    def _ready(self) -> bool:
        try:
            self._sql("SELECT 1")
        except pymysql.Error:
            return False
        return True
