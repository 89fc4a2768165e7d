"""A file that says that memhint has KSM run, for whoever comes when the agent is dead and cannot ask its ledger."""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process import instance_runs, own_instance
from memhint.kernel.root import KernelRoot

LOG = logging.getLogger(__name__)
PLACES = ("run/memhint", "var/lib/memhint")
"""Directories: it is in the first that can be written, which in a container that is read-only is the second."""
_NAME = "ksm"
_RUNS, _RESTS = "runs", "rests"


class KsmFlag:
    """The flag of one boot of the host: one of another boot says nothing."""

    def __init__(self, root: KernelRoot, host_boot: str) -> None:
        """:param host_boot: names this boot of the host"""
        self._root = root
        self._boot = host_boot

    def put_up(self) -> None:
        """KSM is about to run, by this process.

        :raises OSError: when it cannot be written
        """
        if self._read() != (own_instance(self._root), _RUNS):
            self._write(_RUNS)

    def is_up(self) -> bool:
        """Whether it was memhint that has KSM run."""
        return self._read()[1] == _RUNS

    def is_ours(self) -> bool:
        """Whether memhint has KSM run, and not another agent that lives and sees to it itself."""
        return self.is_up() and not self.of_another_that_lives()

    def of_another_that_lives(self) -> bool:
        """Whether another process has put it up, and runs."""
        instance, _ = self._read()
        try:
            return instance != own_instance(self._root) and instance_runs(self._root, instance)
        except KernelInterfaceError:
            return False

    def note_rest(self) -> None:
        """KSM was stopped for an agent that is dead.

        :raises OSError: when it cannot be written
        """
        self._write(_RESTS)

    def tells_of_rest(self) -> bool:
        """Whether KSM was stopped for an agent that is dead, and no other agent has heard of it yet."""
        return self._read()[1] == _RESTS

    def take_down(self) -> None:
        """KSM does not run by memhint any more, or its next agent has heard that it rests."""
        for place in PLACES:
            try:
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(self._path(place))
            except OSError as error:
                LOG.warning("it still says that memhint has KSM run: %s", error)

    def _path(self, place: str) -> str:
        return self._root.path(f"{place}/{_NAME}")

    def _read(self) -> tuple[str, str]:
        """The process that wrote it, and what it says."""
        for place in PLACES:
            try:
                words = self._root.read_text(f"{place}/{_NAME}").split()
            except KernelInterfaceError:
                continue
            if len(words) == 3 and words[0] == self._boot:
                return words[1], words[2]
        return "", ""

    def _write(self, word: str) -> None:
        problems = []
        for place in PLACES:
            try:
                os.makedirs(self._root.path(place), mode=0o750, exist_ok=True)
                # NOFOLLOW: on a host with its own API that one's user owns the second place.
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(self._path(place), flags, 0o640), "w", encoding="utf-8") as file:
                    file.write(f"{self._boot} {own_instance(self._root)} {word}\n")
                return
            except OSError as error:
                problems.append(str(error))
        raise OSError("; ".join(problems))
