"""The VMs that run, a column per attribute. A VM that goes leaves its row to the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from memhint.sim.fleet import Fleet, Ints

_COLUMNS = {
    "host": np.int64,
    "departure": np.int64,
    "row": np.int64,
    "memory": np.float64,
    "offset": np.float64,
    "scale": np.float64,
    "former": np.float64,  # footprint of the step before, NaN in a VM's first
    "born": np.float64,  # seconds of its first step, NaN before it
    "stormy": np.bool_,
    "guaranteed": np.bool_,
}


class Table:
    """Rows 0 to ``len`` are in use. ``columns`` are views of these, valid until the next change."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {name: np.zeros(64, dtype=kind) for name, kind in _COLUMNS.items()}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> Any:
        """One column."""
        return self._columns[name][: self._count]

    def append(self, fleet: Fleet, vms: Ints, hosts: Ints) -> None:
        """``vms`` of the fleet run on ``hosts`` from now on."""
        need = self._count + len(vms)
        room = len(self._columns["host"])
        if need > room:
            more = max(need, 2 * room) - room
            self._columns = {name: np.pad(values, (0, more)) for name, values in self._columns.items()}
        new = slice(self._count, need)
        self._count = need
        self._columns["host"][new] = hosts
        for name in ("departure", "row", "memory", "offset", "scale"):
            self._columns[name][new] = getattr(fleet, name)[vms]
        for name in ("stormy", "guaranteed"):
            values = getattr(fleet, name)
            self._columns[name][new] = values[vms] if values.size else False
        self._columns["former"][new] = np.nan
        self._columns["born"][new] = np.nan

    def remove(self, gone: Ints) -> tuple[Ints, Ints]:
        """Without the rows ``gone``. Rows were moved from the first that is returned to the second."""
        left = self._count - len(gone)
        stays = np.ones(self._count, dtype=bool)
        stays[gone] = False
        source = np.flatnonzero(stays[left:]) + left
        target = np.flatnonzero(~stays[:left])
        for values in self._columns.values():
            values[target] = values[source]
        self._count = left
        return source, target
