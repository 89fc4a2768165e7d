"""What holds for each VM: the store's inputs, brought up to date with what the definitions say now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from memhint.objects.domain import DomainFacts
from memhint.objects.policy import Origin, Policy, effective, remembered

LOG = logging.getLogger(__name__)
Inputs = dict[str, dict[Origin, dict[str, str]]]


class PolicyStore(Protocol):
    """Where policy is owned."""

    def inputs(self) -> Inputs:
        """Every input by domain UUID and origin."""

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """One origin's values for one domain."""


class Policies:
    """Effective policy per VM, each cycle."""

    def __init__(self, store: PolicyStore, host: Mapping[Origin, Mapping[str, str]], *, dry_run: bool = False) -> None:
        """:param host: what the host's configuration says for every VM, by origin"""
        self._store = store
        self._host = {origin: dict(values) for origin, values in host.items()}
        self._dry_run = dry_run

    def update(self, facts: Mapping[str, DomainFacts]) -> dict[str, Policy]:
        """The policy of each domain of ``facts``.

        :raises StoreError: when the store cannot be read; the caller keeps what held before
        """
        inputs = self._store.inputs()
        found: dict[str, Policy] = {}
        for uuid, fact in facts.items():
            known = dict(inputs.get(uuid, {}))
            for origin, said in ((Origin.METADATA, fact.policy), (Origin.FLAVOR, fact.flavor_specs)):
                before = known.get(origin, {})
                now = remembered(before, said)
                if now != before:
                    LOG.info("policy of %s by %s: %s", uuid, origin, now or "nothing")
                    if not self._dry_run:
                        self._store.replace(uuid, origin, now)
                known[origin] = now
            found[uuid] = effective({**known, **self._host})
        return found
