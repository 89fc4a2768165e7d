"""An initramfs archive in the "newc" format, written here so that it is the same bytes for the same input."""

from __future__ import annotations

import stat
from pathlib import Path


class Archive:
    """Collects entries in order; parents are made by themselves."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._seen: set[str] = set()
        self._inode = 0

    def directory(self, path: str) -> None:
        """Add a directory, unless it is there."""
        path = path.strip("/")
        if path and path not in self._seen:
            self._parents(path)
            self._entry(path, stat.S_IFDIR | 0o755, b"")

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Add a file; the first of a path stays."""
        path = path.strip("/")
        if path not in self._seen:
            self._parents(path)
            self._entry(path, stat.S_IFREG | mode, content)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        path = path.strip("/")
        if path not in self._seen:
            self._parents(path)
            self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def tree(self, root: Path) -> None:
        """Add the directories and files below a directory, files with their own modes."""
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            if path.is_dir():
                self.directory(name)
            else:
                self.file(name, path.read_bytes(), stat.S_IMODE(path.stat().st_mode))

    def character_device(self, path: str, major: int, minor: int) -> None:
        """Add a device node for root."""
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def content(self) -> bytes:
        """The finished archive; nothing can be added after."""
        self._entry("TRAILER!!!", 0, b"")
        return bytes(self._out)

    def _parents(self, path: str) -> None:
        if "/" in path:
            self.directory(path.rsplit("/", 1)[0])

    def _entry(self, path: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._seen.add(path)
        self._inode += 1
        name = path.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, device[0], device[1], len(name), 0)
        self._out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._pad()
        self._out += content
        self._pad()

    def _pad(self) -> None:
        self._out += b"\0" * (-len(self._out) % 4)
