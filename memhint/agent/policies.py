"""What holds for each VM: the store's inputs, brought up to date with what the definitions say now."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from memhint.objects.domain import DomainFacts
from memhint.objects.policy import Origin, Policy, careful, effective, remembered
from memhint.store.errors import StoreError
from memhint.store.rows.policies import StoredPolicies

LOG = logging.getLogger(__name__)


class PolicyStore(Protocol):
    """Where policy is owned."""

    def of(self, uuids: Iterable[str]) -> StoredPolicies:
        """Every input of these VMs by domain UUID and origin, and of which VMs one cannot be read."""

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """One origin's values for one domain."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What holds, by domain UUID."""

    policies: Mapping[str, Policy]
    unreadable: Mapping[str, str]
    """VMs of which a wish cannot be read, and which wish. Such a VM counts in full, and nothing is done to it."""
    unkept: str = ""
    """Why the store did not take what the definitions say now. It holds all the same."""


class Policies:
    """Effective policy per VM, each cycle."""

    def __init__(self, store: PolicyStore, host: Mapping[Origin, Mapping[str, str]], *, dry_run: bool = False) -> None:
        """:param host: what the host's configuration says for every VM, by origin"""
        self._store = store
        self._host = {origin: dict(values) for origin, values in host.items()}
        self._dry_run = dry_run
        self._told: dict[str, str] = {}
        self._unkept: dict[tuple[str, Origin], Mapping[str, str]] = {}  # what the store has not taken yet

    def update(self, facts: Mapping[str, DomainFacts]) -> Holding:
        """The policy of each domain of ``facts``.

        A word that the store cannot take holds all the same: it may be a denial.

        :raises StoreError: when the store cannot be read; the caller keeps what held before
        """
        stored = self._store.of(facts)
        found: dict[str, Policy] = {}
        unreadable = stored.unreadable
        self._unkept = {whose: values for whose, values in self._unkept.items() if whose[0] in facts}
        trouble = ""
        for uuid, fact in facts.items():
            known = dict(stored.inputs.get(uuid, {}))
            for origin, said in ((Origin.METADATA, fact.policy), (Origin.FLAVOR, fact.flavor_specs)):
                kept = known.get(origin, {})
                before = self._unkept.get((uuid, origin), kept)
                known[origin] = now = remembered(before, said)
                if now != before:
                    LOG.info("policy of %s by %s: %s", uuid, origin, now or "nothing")
                # What cannot be read stays as it is, for who can read it.
                if now == kept or self._dry_run or uuid in unreadable:
                    continue
                try:
                    self._store.replace(uuid, origin, now)
                    self._unkept.pop((uuid, origin), None)
                except StoreError as error:
                    self._unkept[uuid, origin], trouble = now, str(error)
            policy = effective({**known, **self._host})
            found[uuid] = careful(policy) if uuid in unreadable else policy
        for uuid, why in unreadable.items():
            if self._told.get(uuid) != why:
                LOG.error("the VM counts in full and nothing is done to it: %s", why)
        self._told = unreadable
        return Holding(found, unreadable, trouble)

    def without_store(self, facts: Mapping[str, DomainFacts]) -> dict[str, Policy]:
        """What holds while the store cannot be read: what the definitions and the configuration say, with care."""
        return {
            uuid: careful(effective({Origin.METADATA: fact.policy, Origin.FLAVOR: fact.flavor_specs, **self._host}))
            for uuid, fact in facts.items()
        }
