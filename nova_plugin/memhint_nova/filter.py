"""MemhintFilter: no VM where what was measured says that it would not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import nova.conf
from nova.scheduler import filters, utils
from oslo_log import log as logging

from memhint_nova.judge import Compute, Judge, tally
from memhint_nova.reason import Reason
from memhint_nova.shared import shared
from memhint_nova.wish import IMAGE_PROPERTIES, Wish, wish

LOG = logging.getLogger(__name__)

EXAMPLES = 3  # hosts of each reason that a refusal's line in the log names


class MemhintFilter(filters.BaseHostFilter):
    """Vetoes by a snapshot of what memhint measured, by nominal accounting where that is of no use.

    It asks no server while a request is under way: ``memhint_nova.refresher`` keeps the snapshot.
    """

    RUN_ON_REBUILD = False  # a rebuild takes no memory that the VM did not have
    run_filter_once_per_request = False  # each VM of one request takes of the headroom

    def __init__(self) -> None:
        super().__init__()
        self._shared = shared(nova.conf.CONF)
        self._warned: set[str] = set()

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> list[Any]:
        """The computes that may get the VM."""
        computes = list(filter_obj_list)
        if utils.request_is_rebuild(spec_obj):
            return computes
        asked, judge = self._wish(spec_obj), self._shared.judge()
        kept: list[Any] = []
        vetoes: dict[Reason, list[Compute]] = {}
        veto = judge.veto
        for compute in computes:
            reason = veto(compute, asked)
            if reason is None:
                kept.append(compute)
            else:
                vetoes.setdefault(reason, []).append(compute)
        if vetoes:
            self._tell(spec_obj, asked, judge, vetoes, len(computes))
        return kept

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """One compute only, as other code may ask."""
        return bool(self.filter_all([host_state], filter_properties))

    def _wish(self, spec_obj: Any) -> Wish:
        specs: Mapping[str, str] = spec_obj.flavor.extra_specs if "extra_specs" in spec_obj.flavor else {}
        asked = wish(spec_obj.memory_mb, specs or {}, self._shared.class_ratios(), _beyond_flavor(spec_obj))
        for fault in asked.faults:
            self._shared.counts.add({"flavor.bad_value": 1})
            if fault not in self._warned and len(self._warned) < 1000:
                self._warned.add(fault)
                LOG.warning("memhint: flavor %s: %s", spec_obj.flavor.name, fault)
        return asked

    def _tell(
        self, spec_obj: Any, asked: Wish, judge: Judge, vetoes: Mapping[Reason, list[Compute]], among: int
    ) -> None:
        counted = tally(vetoes)
        self._shared.counts.add({f"veto.{reason}": count for reason, count in counted.items()})
        if LOG.isEnabledFor(logging.DEBUG):
            for reason, computes in vetoes.items():
                for compute in computes:
                    LOG.debug("memhint: veto %s: %s", reason, judge.explain(compute, asked, reason))
        LOG.info(
            "memhint: %d of %d hosts do not get instance %s: %s",
            sum(counted.values()),
            among,
            spec_obj.instance_uuid,
            "; ".join(_told(judge, asked, reason, computes) for reason, computes in vetoes.items()),
        )


def _told(judge: Judge, asked: Wish, reason: Reason, computes: list[Compute]) -> str:
    examples = ", ".join(judge.explain(one, asked, reason) for one in computes[:EXAMPLES])
    return f"{reason} {len(computes)} ({examples})"


def _beyond_flavor(spec_obj: Any) -> str | None:
    """What of a request keeps the VM's memory from coming back, whether flavor, image or port says so."""
    if _field(spec_obj, "numa_topology") is not None:
        return "it has a NUMA topology, huge pages or pinned CPUs"
    devices = _field(spec_obj, "pci_requests")
    if devices is not None and devices.requests:
        return "it has a passed-through device"
    image = _field(spec_obj, "image")
    if image is not None and "properties" in image:
        for name in IMAGE_PROPERTIES:
            if image.properties.get(name):
                return f"its image says {name}"
    return None


def _field(spec_obj: Any, name: str) -> Any:
    """Nova's objects raise for a field that was not set, or ask the database."""
    return getattr(spec_obj, name) if name in spec_obj else None
