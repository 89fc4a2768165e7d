"""What the nova-compute of this host has written down: who it is in Placement, and whether it sets its own ratio."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence

from oslo_config import cfg

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.objects.gap import Gap, GapReason
from memhint.objects.provider import NovaCompute

_WHAT = "nova-compute"
_OPTION = "ram_allocation_ratio"
_LARGEST = 4096
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?")


class NovaFiles:
    """Read in each cycle; the configuration only when a file has changed."""

    def __init__(self, root: KernelRoot, compute_id: str, config_files: Sequence[str]) -> None:
        self._root = root
        self._compute_id = compute_id
        self._config_files = tuple(config_files)
        self._read_of: tuple[object, ...] | None = None
        self._ratio: float | None = None
        self._gaps: tuple[Gap, ...] = ()

    def read(self) -> tuple[NovaCompute | None, tuple[Gap, ...]]:
        """The nova-compute, None where this host has none, and what of it could not be read."""
        try:
            text = self._root.read_text(self._compute_id, _LARGEST).strip()
        except InterfaceMissing:
            return None, self._unknown()
        except KernelInterfaceError as error:
            return None, (error.gap(_WHAT),)
        try:
            provider = str(uuid.UUID(text))
        except ValueError:
            return None, (Gap(_WHAT, GapReason.MALFORMED, f"{self._compute_id} holds no UUID"),)
        stamps = tuple(self._stamp(name) for name in self._config_files)
        if stamps != self._read_of:
            self._read_of = stamps
            self._ratio, self._gaps = self._forced()
        return NovaCompute(provider, self._ratio), self._gaps

    def _unknown(self) -> tuple[Gap, ...]:
        """A nova-compute that is configured and has no id here: in a container, or elsewhere than as shipped."""
        for name in self._config_files:
            if self._root.exists(name):
                told = f"{name} is there, and {self._compute_id} is not: see [nova] compute_id"
                return (Gap(_WHAT, GapReason.UNREADABLE, told),)
        return ()

    def _stamp(self, name: str) -> object:
        try:
            found = os.stat(self._root.path(name))
        except OSError as error:
            return error.errno
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _forced(self) -> tuple[float | None, tuple[Gap, ...]]:
        said: str | None = None
        for name in self._config_files:
            sections: dict[str, dict[str, list[str]]] = {}
            try:
                cfg.ConfigParser(self._root.path(name), sections).parse()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError, cfg.ParseError) as error:
                # Whether nova-compute writes its own ratio is then not known; the first write that is undone shows it.
                # The line itself may be a password.
                why = f"line {error.lineno}: {error.msg}" if isinstance(error, cfg.ParseError) else str(error)
                return None, (Gap(_WHAT, GapReason.UNREADABLE, f"{name}: {why}"),)
            values = sections.get("DEFAULT", {}).get(_OPTION)
            said = values[-1] if values else said
        if said is None or said.strip() == "":
            return None, ()
        if not _NUMBER.fullmatch(said.strip()):
            return None, (Gap(_WHAT, GapReason.MALFORMED, f"{_OPTION} = {said[:40]}"),)
        ratio = float(said)
        return (ratio or None), ()  # 0.0 means to nova-compute that it is not set
