"""Reading and writing one file in a guest through the stock agent's file commands.

What the agent does with a handle decides the order here. It keeps a C stdio stream behind each handle:

* guest-file-write only fills the stream's buffer; the kernel sees the bytes, and a sysfs file says EINVAL, at
  guest-file-flush. Closing without flushing would report the same error, but too late: a failed fclose() has freed the
  stream while the agent still lists the handle, and whatever touches that handle next uses freed memory.
* A failed fflush() empties the buffer (glibc and musl alike), so the close that follows has nothing left to write and
  succeeds. Not closing at all would leak a descriptor in the guest at every refused write.

Hence: open, write, flush, then close exactly once whatever happened, and never use a handle after its close, whether
that worked or not.
"""

from __future__ import annotations

import base64
import binascii

from memhint.guest import fields
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed, GuestWriteRefused
from memhint.guest.protocol import GuestAgent
from memhint.objects.units import KIB

READ_COMMANDS = frozenset({"guest-file-open", "guest-file-read", "guest-file-close"})
WRITE_COMMANDS = frozenset({"guest-file-open", "guest-file-write", "guest-file-flush", "guest-file-close"})

_HANDLE_MAX = (1 << 63) - 1
_READS_MAX = 16  # a guest that hands out one byte at a time is not worth the calls
_WRITE_MAX = 4 * KIB  # one stdio buffer: a sysfs file must get its text in one piece
_ANSWER_FRAME = 1 * KIB  # what surrounds the data in an answer


def read_file(agent: GuestAgent, path: str, limit: int = 64 * KIB) -> str:
    """The text of a file in the guest, of at most ``limit`` bytes. Always gives the handle back.

    :raises GuestAnswerMalformed: the file is longer, not UTF-8, or the agent's answers contradict each other
    :raises GuestError: as the agent's calls do; GuestCommandFailed where the file cannot be opened or read
    """
    handle = _open(agent, path, "r")
    try:
        data = _read_all(agent, handle, limit)
    finally:
        agent.release("guest-file-close", handle=handle)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise GuestAnswerMalformed("not UTF-8", path) from None


def write_file(agent: GuestAgent, path: str, text: str) -> None:
    """Write a short text to a file below /sys in the guest, in one piece. Always gives the handle back.

    When it returns, the guest's kernel has accepted the text, if the guest is honest: what became of it is known only
    by reading back. After a GuestTimeout or GuestAnswerMalformed it may or may not have been written.

    :raises ValueError: the path is not below /sys or the text does not fit one write; nothing was sent
    :raises GuestWriteRefused: the guest's kernel refused the text
    :raises GuestCommandFailed: the file cannot be opened
    :raises GuestError: as the agent's calls do
    """
    data = text.encode()
    # The agent's mode "w" would create a file that is not there; sysfs refuses that, other file systems do not.
    if not path.startswith("/sys/") or ".." in path:
        raise ValueError(f"{path!r} is not a file below /sys")
    if len(data) > _WRITE_MAX:
        raise ValueError(f"more than {_WRITE_MAX} bytes")
    handle = _open(agent, path, "w")
    try:
        answer = agent.call("guest-file-write", handle=handle, buf_b64=base64.b64encode(data).decode())
        if fields.integer(answer, "count", minimum=0, maximum=_WRITE_MAX) != len(data):
            raise GuestAnswerMalformed("not everything was written", path)
        try:
            agent.call("guest-file-flush", handle=handle)
        except GuestCommandFailed as error:
            raise GuestWriteRefused(error.detail, error.error_class) from error
    finally:
        agent.release("guest-file-close", handle=handle)


def _open(agent: GuestAgent, path: str, mode: str) -> int:
    return fields.integer(agent.call("guest-file-open", path=path, mode=mode), minimum=0, maximum=_HANDLE_MAX)


def _read_all(agent: GuestAgent, handle: int, limit: int) -> bytes:
    data = b""
    for _ in range(_READS_MAX):
        count = limit + 1 - len(data)  # the one byte more tells a file that fits from one that does not
        encoded_max = 4 * (count // 3 + 1)
        answer = agent.call("guest-file-read", max_answer=encoded_max + _ANSWER_FRAME, handle=handle, count=count)
        chunk = _chunk(answer, count, encoded_max)
        data += chunk
        if len(data) > limit:
            raise GuestAnswerMalformed(f"the file is longer than {limit} bytes")
        if fields.boolean(answer, "eof"):
            return data
        if not chunk:
            raise GuestAnswerMalformed("neither data nor the end of the file")
    raise GuestAnswerMalformed(f"no end of the file after {_READS_MAX} reads")


def _chunk(answer: object, count_max: int, encoded_max: int) -> bytes:
    count = fields.integer(answer, "count", minimum=0, maximum=count_max)
    # Agents leave the buffer out when there is nothing in it.
    encoded = fields.text(answer, "buf-b64", max_len=encoded_max) if fields.has(answer, "buf-b64") else ""
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise GuestAnswerMalformed("not base64", "buf-b64") from None
    if len(data) != count or base64.b64encode(data).decode() != encoded:
        raise GuestAnswerMalformed("not the base64 of as many bytes as it says", "buf-b64")
    return data
