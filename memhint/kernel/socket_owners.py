"""Whose sockets with a name are: the kernel's sock_diag(7), which remembers who made each of them.

The name tells nothing of that, for anybody may take one. Nor does /proc: who made a socket can hand it to a program
that root runs.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

# <linux/netlink.h>, <linux/sock_diag.h> and <linux/unix_diag.h>
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_SHOW_NAME, _SHOW_UID = 0x01, 0x40
_NAME, _UID = 0, 7
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIIIII")
_ANSWER = 16  # bytes of a socket's record before its attributes
_ATTRIBUTE = struct.Struct("=HH")
_NUMBER = struct.Struct("=I")
_ALL = 0xFFFFFFFF
_PATIENCE = 5.0  # seconds


def socket_owners() -> dict[bytes, int | None]:
    """The user of each socket of this network namespace that has a name, by the name; None: the kernel does not say.

    Names of the abstract namespace begin with a zero byte. Users are told since Linux 5.3.

    :raises OSError: when the kernel does not tell of sockets at all
    """
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW_NAME | _SHOW_UID, _ALL, _ALL)
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
    found: dict[bytes, int | None] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(_PATIENCE)
        asked.send(header + request)
        while True:
            for kind, body in _messages(asked.recv(1 << 16)):
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    (number,) = struct.unpack_from("=i", body)
                    raise OSError(-number, os.strerror(-number))
                attributes = dict(_attributes(body[_ANSWER:]))
                if name := attributes.get(_NAME):
                    uid = attributes.get(_UID)
                    found[name] = None if uid is None else _NUMBER.unpack(uid)[0]


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each message of a datagram."""
    while data:
        if len(data) < _HEADER.size:
            raise _malformed()
        length, kind, _, _, _ = _HEADER.unpack_from(data)
        if not _HEADER.size <= length <= len(data):
            raise _malformed()
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            raise _malformed()
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _malformed() -> OSError:
    return OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))


def _aligned(length: int) -> int:
    return (length + 3) & ~3
