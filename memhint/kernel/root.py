"""The file system that the kernel's interfaces are read from: the real one, or a tree made by a test."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from memhint.kernel.errors import (
    InterfaceMalformed,
    InterfaceMissing,
    InterfaceUnreadable,
    KernelInterfaceError,
    ProcessGone,
    WriteIncomplete,
    WriteRejected,
)
from memhint.kernel.fields import number
from memhint.objects.units import KIB, MIB

PAGE_SIZE = mmap.PAGESIZE

_READ_AT_ONCE = 16 * KIB
READ_AT_MOST = MIB
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ENOSYS})


class KernelRoot:
    """Reads and writes small kernel files below ``path``. Names may start with a slash or not.

    Every OSError becomes a KernelInterfaceError: ENOENT and EOPNOTSUPP InterfaceMissing, ESRCH ProcessGone, what else
    fails InterfaceUnreadable, or WriteRejected for a write.
    """

    __slots__ = ("_prefix",)

    def __init__(self, path: Path = Path("/")) -> None:
        self._prefix = str(path).rstrip("/") + "/"

    def path(self, relative: str) -> str:
        """The full name of a file below this root."""
        return self._prefix + relative.lstrip("/")

    def read_text(self, relative: str, limit: int = READ_AT_MOST) -> str:
        """The whole text of a file of at most ``limit`` bytes; bytes that are not UTF-8 are replaced.

        :raises KernelInterfaceError: as the class says, and InterfaceMalformed when the file is longer
        """
        path = self.path(relative)
        try:
            # open() and its buffers cost more than the kernel does, and this runs for every VM in every cycle
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(fd, _READ_AT_ONCE)
                more = data
                while more and len(data) <= limit:
                    more = os.read(fd, _READ_AT_ONCE)
                    data += more
            finally:
                os.close(fd)
        except OSError as error:
            raise _read_error(path, error) from error
        if len(data) > limit:
            raise InterfaceMalformed(path, f"longer than {limit} bytes")
        return data.decode("utf-8", "replace")

    def read_int(self, relative: str) -> int:
        """The unsigned number that is all of a file.

        :raises KernelInterfaceError: as read_text, and InterfaceMalformed when it is no number
        """
        return number(self.read_text(relative).strip(), self.path(relative))

    def read_ints(self, directory: str, names: Iterable[str]) -> list[int]:
        """The unsigned numbers that are all of files below a directory, of thousands: looked up from there, each takes
        half the time.

        :raises KernelInterfaceError: as read_int
        """
        found, name = [], ""
        try:
            base = os.open(self.path(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for name in names:
                    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=base)
                    try:
                        data = os.read(fd, 64)
                    finally:
                        os.close(fd)
                    found.append(number(data.decode("utf-8", "replace").strip(), name))
            finally:
                os.close(base)
        except OSError as error:
            raise _read_error(self.path(f"{directory}/{name}"), error) from error
        return found

    def read_words(self, relative: str) -> list[str]:
        """The words of a file, split at white space.

        :raises KernelInterfaceError: as read_text
        """
        return self.read_text(relative).split()

    def lines(self, relative: str) -> Iterator[str]:
        """The lines of a file that can be long, one by one, without their line ends.

        :raises KernelInterfaceError: as read_text, while iterating
        """
        path = self.path(relative)
        try:
            with open(path, encoding="utf-8", errors="replace", newline="\n") as stream:
                for line in stream:
                    yield line.rstrip("\n")
        except OSError as error:
            raise _read_error(path, error) from error

    def write_text(self, relative: str, text: str) -> None:
        """Write all of ``text`` in one go into a file that exists.

        :raises KernelInterfaceError: InterfaceMissing, ProcessGone, or WriteRejected; WriteIncomplete on EAGAIN
        """
        path = self.path(relative)
        data = text.encode()
        try:
            fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            typed = _read_error(path, error)
            if isinstance(typed, InterfaceUnreadable):
                kind = WriteIncomplete if error.errno == errno.EAGAIN else WriteRejected
                typed = kind(path, f"writing {text!r}: {typed.detail}")
            raise typed from error
        if written != len(data):
            raise WriteRejected(path, f"took {written} of {len(data)} bytes")

    def open(self, relative: str) -> int:
        """A descriptor of a file to read from at any place; the caller closes it.

        :raises KernelInterfaceError: as the class says
        """
        path = self.path(relative)
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _read_error(path, error) from error

    def exists(self, relative: str) -> bool:
        """True when the name can be seen."""
        return os.path.exists(self.path(relative))

    def inode(self, relative: str) -> int:
        """The inode of a name: a cgroup that is removed and made again has another one.

        :raises KernelInterfaceError: as the class says
        """
        path = self.path(relative)
        try:
            return os.stat(path).st_ino
        except OSError as error:
            raise _read_error(path, error) from error

    def names(self, relative: str) -> list[str]:
        """The sorted names in a directory.

        :raises KernelInterfaceError: as the class says
        """
        path = self.path(relative)
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise _read_error(path, error) from error

    def directories(self, relative: str) -> list[str]:
        """The sorted names of the directories in a directory, links left out.

        :raises KernelInterfaceError: as the class says
        """
        path = self.path(relative)
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            raise _read_error(path, error) from error


def _read_error(path: str, error: OSError) -> KernelInterfaceError:
    detail = error.strerror or str(error)
    if error.errno in _MISSING:
        return InterfaceMissing(path, detail)
    if error.errno == errno.ESRCH:
        return ProcessGone(path, detail)
    return InterfaceUnreadable(path, detail)
