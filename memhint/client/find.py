"""A VM of the fleet by what a person types."""

from __future__ import annotations

import difflib
import re

from memhint.client.client import Client, Item
from memhint.client.errors import ClientError

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SHOWN = 5


class NoSuchVm(ClientError):
    """No VM that the caller may see has this name."""


class Ambiguous(ClientError):
    """Several VMs have this name."""


def find_uuid(client: Client, wanted: str, host: str | None = None) -> str:
    """The UUID of the one VM with this name or UUID. Whether a UUID is anybody's is not asked.

    :raises NoSuchVm: when no VM has this name
    :raises Ambiguous: when several have
    :raises ClientError: when the API cannot be asked
    """
    if _UUID.fullmatch(wanted):
        return wanted.lower()
    if not wanted:
        raise NoSuchVm("a VM has a name or a UUID: this is empty")
    near: list[str] = []
    found: list[Item] = []
    for one in client.domains(name=wanted, host=host):
        if one.get("name") == wanted:
            found.append(one)
        elif len(near) < _SHOWN:
            near.append(str(one.get("name")))
    # A VM that migrates has a line of either host, and one that was evacuated of the host that died.
    uuids = {str(one["uuid"]) for one in found}
    if len(uuids) == 1:
        return uuids.pop()
    if found:
        some = ", ".join(f"{one['uuid']} on {one.get('host')}" for one in found[:_SHOWN])
        more = ", …" if len(found) > _SHOWN else ""
        raise Ambiguous(f"{len(uuids)} VMs are called {wanted!r}: use a UUID, one of {some}{more}")
    close = difflib.get_close_matches(wanted, near, n=3, cutoff=0.0)
    hint = f"there is {' and '.join(close)}" if close else "no name holds that word"
    raise NoSuchVm(f"no VM that you may see is called {wanted!r}: {hint}")
