"""What an operator, a project or the host wants for one VM, and where each wish came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """A lever's wish: on, off, or memhint's own choice."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


class Consent(StrEnum):
    """Whether something inside the guest may be changed."""

    ALLOW = "allow"
    DENY = "deny"


class Origin(StrEnum):
    """Who said so, strongest first."""

    OPERATOR = "operator"  # `memhint set`, kept in the store
    METADATA = "metadata"  # libvirt domain metadata under our namespace
    FLAVOR = "flavor"  # memhint:… extra specs in Nova's metadata
    DEFAULT = "default"  # the host's configuration


PRECEDENCE = tuple(Origin)

_PROJECT = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class PolicyError(ValueError):
    """A policy key or value that does not exist; the text says which do."""


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """One thing that can be set per VM."""

    name: str
    allowed: tuple[str, ...]  # empty: free text of the project's form
    default: str
    help: str
    opt_out: str | None = None  # the value that survives the loss of the metadata that said it

    def check(self, value: str) -> str:
        """The value, when it is one that this key takes.

        :raises PolicyError: otherwise
        """
        if self.allowed and value not in self.allowed:
            raise PolicyError(f"{self.name}={value!r}: use one of {', '.join(self.allowed)}")
        if not self.allowed and value and not _PROJECT.fullmatch(value):
            raise PolicyError(f"{self.name}={value!r}: use up to 64 letters, digits and . _ : -")
        return value


KEYS: Mapping[str, PolicyKey] = {
    key.name: key
    for key in (
        PolicyKey(
            "reporting",
            tuple(Mode),
            Mode.AUTO,
            "free page reporting: on, off, or left as the guest has it (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "dedup",
            tuple(Mode),
            Mode.OFF,
            "merge equal pages with other VMs of the same project",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "guest_actions",
            tuple(Consent),
            Consent.DENY,
            "whether memhint may change anything inside the guest",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "guest_unbind",
            tuple(Consent),
            Consent.DENY,
            "whether reporting may be stopped by unbinding the guest's balloon driver (stock 6.12 has no other switch)",
            opt_out=Consent.DENY,
        ),
        PolicyKey("project", (), "", "whose VM this is, where Nova's metadata does not say"),
    )
}


def parse_policy(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Checked policy values by key.

    :raises PolicyError: on an unknown key or a value that the key does not take
    """
    values: dict[str, str] = {}
    for name, value in items:
        key = KEYS.get(name)
        if key is None:
            raise PolicyError(f"{name!r} is not a policy key: use {', '.join(KEYS)}")
        values[name] = key.check(value)
    return values


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective value and its origin."""

    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for one VM."""

    settings: Mapping[str, Setting]

    @property
    def reporting(self) -> Mode:
        """The wish for free page reporting."""
        return Mode(self.settings["reporting"].value)

    @property
    def dedup(self) -> Mode:
        """The wish for merging."""
        return Mode(self.settings["dedup"].value)

    @property
    def guest_actions(self) -> bool:
        """True where the guest may be changed."""
        return self.settings["guest_actions"].value == Consent.ALLOW

    @property
    def guest_unbind(self) -> bool:
        """True where the balloon driver may be unbound."""
        return self.settings["guest_unbind"].value == Consent.ALLOW

    @property
    def project(self) -> str | None:
        """The owner as policy has it; None where nobody said."""
        return self.settings["project"].value or None


def effective(inputs: Mapping[Origin, Mapping[str, str]]) -> Policy:
    """The strongest origin's value for each key; the shipped default where nobody speaks."""
    settings: dict[str, Setting] = {}
    for name, key in KEYS.items():
        settings[name] = Setting(key.default, Origin.DEFAULT)
        for origin in PRECEDENCE:
            if name in inputs.get(origin, {}):
                settings[name] = Setting(inputs[origin][name], origin)
                break
    return Policy(settings)


def remembered(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """One input's values after it was read again: an opt-out outlives the metadata that said it.

    Nova writes the domain's XML anew on hard reboot, resize and rebuild; what a VM was kept out of must not start
    because of that. An opt-out ends when the same input says something else.
    """
    survivors = {name: value for name, value in before.items() if value == KEYS[name].opt_out}
    return {**survivors, **now}
