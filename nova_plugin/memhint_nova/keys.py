"""Every ``memhint:KEY`` that a flavor can carry: for validators, driver and filter, and doc/flavor.md is made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

PREFIX = "memhint:"

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_DECIMAL = re.compile(r"\d{1,3}(\.\d{1,3})?", re.ASCII)
_DIGITS = 18  # more is no number that anybody means


class ValueType(Protocol):
    """What a key's values are."""

    @property
    def accepted(self) -> str:
        """The values in words, for an error and for the documentation."""

    def check(self, value: str) -> str | None:
        """The value in its one spelling; None where it is none of this kind."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return ", ".join(f"`{word}`" for word in self.words)

    def check(self, value: str) -> str | None:
        """See ValueType."""
        return value if value in self.words else None


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number from ``low`` to ``high``, or one of ``words``."""

    low: int
    high: int
    unit: str = ""
    words: tuple[str, ...] = ()

    @property
    def accepted(self) -> str:
        """See ValueType."""
        unit = f" {self.unit}" if self.unit else ""
        return ", ".join((f"{self.low} to {self.high}{unit}", *(f"`{word}`" for word in self.words)))

    def check(self, value: str) -> str | None:
        """See ValueType."""
        if value in self.words:
            return value
        # str.isdecimal alone takes the digits of every script
        if not (value.isascii() and value.isdecimal() and len(value) <= _DIGITS):
            return None
        return str(int(value)) if self.low <= int(value) <= self.high else None


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number from ``low`` to ``high`` with at most three decimals."""

    low: float
    high: float

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return f"{self.low:g} to {self.high:g}"

    def check(self, value: str) -> str | None:
        """See ValueType."""
        if not _DECIMAL.fullmatch(value):
            return None
        return f"{float(value):g}" if self.low <= float(value) <= self.high else None


@dataclass(frozen=True, slots=True)
class Name:
    """A name that somebody gave."""

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return "up to 64 letters, digits and `. _ : -`"

    def check(self, value: str) -> str | None:
        """See ValueType."""
        return value if not value or _NAME.fullmatch(value) else None


@dataclass(frozen=True, slots=True)
class PercentOrMib:
    """Whole percent, as ``40%``, or MiB up to ``high``."""

    high: int

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return f"`0%` to `100%`, 0 to {self.high} MiB"

    def check(self, value: str) -> str | None:
        """See ValueType."""
        text = value.removesuffix("%")
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
            return None
        return f"{int(text)}{value[len(text) :]}" if int(text) <= (self.high if text == value else 100) else None


@dataclass(frozen=True, slots=True)
class Key:
    """One extra spec.

    ``safe`` is what Nova's side takes where the value is none that the key takes: a misspelt wish is never a consent.
    """

    name: str
    kind: ValueType
    default: str
    safe: str
    readers: tuple[str, ...]  # who acts on it: agent, driver, filter
    help: str

    @property
    def spec(self) -> str:
        """The extra spec's whole name."""
        return PREFIX + self.name


_SWITCH = Choice(("on", "off", "auto"))
_CONSENT = Choice(("allow", "deny"))

KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key(
            "reporting",
            _SWITCH,
            "auto",
            "off",
            ("agent", "driver"),
            "Free page reporting. `off` also takes the feature away from the VM's balloon, so that no guest can "
            "report.",
        ),
        Key(
            "dedup",
            _SWITCH,
            "off",
            "off",
            ("agent", "driver"),
            "Merging equal pages with other VMs of the same project. `off`, where a flavor says it, also keeps QEMU "
            "from offering the VM's memory for merging until it is next started.",
        ),
        Key(
            "guest_actions",
            _CONSENT,
            "deny",
            "deny",
            ("agent",),
            "Whether anything inside the guest may be changed. Reading needs no consent.",
        ),
        Key(
            "guest_unbind",
            _CONSENT,
            "deny",
            "deny",
            ("agent",),
            "Whether reporting may be stopped by unbinding the guest's balloon driver.",
        ),
        Key("project", Name(), "", "", ("agent",), "Whose VM it is, where Nova's metadata does not say."),
        Key(
            "class",
            Choice(("guaranteed", "burstable", "best-effort")),
            "burstable",
            "guaranteed",
            ("agent", "filter"),
            "How much of its memory the VM is promised at any time. `[memhint]` of nova.conf can limit each class to "
            "hosts below a ratio.",
        ),
        Key(
            "min_mb",
            WholeNumber(0, 1 << 24, "MiB"),
            "0",
            "0",
            ("agent",),
            "What the VM always counts with at least and no lever takes below; 0 is none.",
        ),
        Key(
            "overcommit",
            _CONSENT,
            "allow",
            "deny",
            ("agent", "filter"),
            "Whether memory that the VM does not use may be promised to others. `deny`: it counts in full, and it is "
            "placed by nominal accounting only.",
        ),
        Key(
            "group",
            Name(),
            "",
            "",
            ("agent",),
            "Anti-affinity group: VMs of one group are expected to grow at the same time.",
        ),
        Key(
            "balloon",
            _CONSENT,
            "deny",
            "deny",
            ("agent",),
            "Whether an idle `best-effort` VM may be ballooned down to its minimum when its host is under pressure.",
        ),
        Key(
            "swap_out",
            _CONSENT,
            "deny",
            "deny",
            ("agent",),
            "Whether the VM's cold memory may be swapped out: when its host is under pressure, and where its "
            "`[ladder] always` has `swap_out` on a calm host too.",
        ),
        Key(
            "recycler",
            _SWITCH,
            "auto",
            "off",
            ("agent",),
            "Whether single free pages are given back, where QEMU and the guest can. `auto`: while the VM is idle.",
        ),
        Key(
            "thp",
            _SWITCH,
            "auto",
            "off",
            ("agent",),
            "Whether huge pages are made again for a VM that works: wherever they are missing, never, or after memhint "
            "took memory from it in pieces (`auto`).",
        ),
        Key(
            "tiering",
            _CONSENT,
            "deny",
            "deny",
            ("agent",),
            "Whether the VM's memory may be moved between the host's NUMA nodes: what is hot to fast ones, what is "
            "cold to slow ones, what is scattered to one.",
        ),
        Key(
            "fast_min",
            PercentOrMib(1 << 24),
            "0%",
            "0%",
            ("agent",),
            "How much of the VM's memory lies on fast NUMA nodes at least, where `memhint:tiering` allows it.",
        ),
        Key(
            "fast_max",
            PercentOrMib(1 << 24),
            "100%",
            "100%",
            ("agent",),
            "How much of the VM's memory lies on fast NUMA nodes at most, where `memhint:tiering` allows it.",
        ),
        Key(
            "reporting_order",
            WholeNumber(0, 10, words=("auto",)),
            "auto",
            "auto",
            ("agent",),
            "Smallest free block that the guest reports: 2^order pages.",
        ),
        Key(
            "reporting_delay_ms",
            WholeNumber(0, 3_600_000, "ms", words=("auto",)),
            "auto",
            "auto",
            ("agent",),
            "How long the guest collects free memory before it reports it.",
        ),
        Key(
            "huge_pages",
            _CONSENT,
            "allow",
            "allow",
            ("driver",),
            "Whether the host may back the VM with transparent huge pages. `deny`: its QEMU is started so that it "
            "never gets any, where `small_pages_emulator` of the compute's nova.conf says by what.",
        ),
        Key(
            "max_ratio",
            Decimal(0.1, 16),
            "",
            "1",
            ("filter",),
            "The VM is placed only where what Nova counts as used, this VM included, stays within so many times the "
            "host's memory. 1 is nominal accounting.",
        ),
    )
}


def value_of(extra_specs: Mapping[str, str], name: str) -> tuple[str, str | None]:
    """What a flavor says of a key, and what is wrong with that, if anything.

    The key's default where the flavor does not say, its safe value where it says something else than the key takes.
    """
    key = KEYS[name]
    said = extra_specs.get(key.spec)
    if said is None:
        return key.default, None
    checked = key.kind.check(said.strip()) if isinstance(said, str) else None
    if checked is None:
        return key.safe, f"{key.spec}={said!r} is none of {key.kind.accepted}: taken as {key.safe!r}"
    return checked, None
