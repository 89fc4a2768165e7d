"""What an operator, a project or the host wants for one VM, and where each wish came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.policy_values import Choice, Kind, Name, Part, PolicyError, Whole, is_whole, part_of
from memhint.objects.units import MIB
from memhint.objects.words import Word, read_word

__all__ = [
    "KEYS",
    "PRECEDENCE",
    "SCHEDULER_KEYS",
    "Consent",
    "Mode",
    "Origin",
    "Policy",
    "PolicyError",
    "PolicyKey",
    "QosClass",
    "Setting",
    "careful",
    "effective",
    "parse_policy",
    "remembered",
]


class Mode(Word):
    """A lever's wish: on, off, or memhint's own choice."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


class Consent(StrEnum):
    """Whether something may be done that costs the VM something, or that changes its inside."""

    ALLOW = "allow"
    DENY = "deny"


class QosClass(Word):
    """How much of its memory a VM is promised at any time."""

    GUARANTEED = "guaranteed"  # all of it: counts in full, and nothing is taken from it
    BURSTABLE = "burstable"  # what it is forecast to need
    BEST_EFFORT = "best-effort"  # the same, and the first to give when the host is under pressure


class Origin(Word):
    """Who said so, strongest first."""

    OPERATOR = "operator"  # `memhint set`, kept in the store
    METADATA = "metadata"  # libvirt domain metadata under our namespace
    FLAVOR = "flavor"  # memhint:… extra specs in Nova's metadata
    AGGREGATE = "aggregate"  # the host's configuration, for an aggregate that it belongs to
    DEFAULT = "default"  # the host's configuration, for every VM


PRECEDENCE = tuple(Origin)

AUTO = "auto"

# Of a flavor, read where VMs are placed and by no agent.
SCHEDULER_KEYS = frozenset({"max_ratio"})


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """One thing that can be set per VM."""

    name: str
    kind: Kind
    default: str
    help: str
    opt_out: str | None = None  # the value that survives the loss of the metadata that said it

    def check(self, value: str) -> str:
        """The value in its one spelling, when it is one that this key takes.

        :raises PolicyError: otherwise
        """
        checked = self.kind.check(value)
        if checked is None:
            raise PolicyError(f"{self.name}={value!r}: use {self.kind.accepted}")
        return checked


def _choice(words: type[StrEnum]) -> Choice:
    return Choice(tuple(str(word) for word in words))


KEYS: Mapping[str, PolicyKey] = {
    key.name: key
    for key in (
        PolicyKey(
            "reporting",
            _choice(Mode),
            Mode.AUTO,
            "free page reporting: on, off, or left as the guest has it (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "dedup",
            _choice(Mode),
            Mode.OFF,
            "merge equal pages with other VMs of the same project",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "guest_actions",
            _choice(Consent),
            Consent.DENY,
            "whether memhint may change anything inside the guest",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "guest_unbind",
            _choice(Consent),
            Consent.DENY,
            "whether reporting may be stopped by unbinding the guest's balloon driver (stock 6.12 has no other switch)",
            opt_out=Consent.DENY,
        ),
        PolicyKey("project", Name(), "", "whose VM this is, where Nova's metadata does not say"),
        PolicyKey(
            "class",
            _choice(QosClass),
            QosClass.BURSTABLE,
            "how much of its memory the VM is promised at any time: all of it (guaranteed), what it is forecast to "
            "need (burstable), or the same and first to give (best-effort)",
            opt_out=QosClass.GUARANTEED,
        ),
        PolicyKey(
            "min_mb",
            Whole(0, 1 << 24, "MiB"),
            "0",
            "MiB that the VM always counts with at least and that no lever takes below; 0 is none",
        ),
        PolicyKey(
            "overcommit",
            _choice(Consent),
            Consent.ALLOW,
            "whether memory that the VM does not use may be promised to others",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "group",
            Name(),
            "",
            "anti-affinity group: VMs of one group are expected to grow at the same time",
        ),
        PolicyKey(
            "balloon",
            _choice(Consent),
            Consent.DENY,
            "whether an idle best-effort VM may be ballooned down to its minimum when the host is under pressure",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "swap_out",
            _choice(Consent),
            Consent.DENY,
            "whether the VM's cold memory may be swapped out: when the host is under pressure, and where its "
            "`[ladder] always` has `swap_out` on a calm host too",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "recycler",
            _choice(Mode),
            Mode.AUTO,
            "give back single free pages where QEMU and the guest can: always, never, or while it is idle (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "thp",
            _choice(Mode),
            Mode.AUTO,
            "make huge pages again for a VM that works: wherever they are missing, never, or after memhint took memory "
            "from it in pieces (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "tiering",
            _choice(Consent),
            Consent.DENY,
            "whether the VM's memory may be moved between NUMA nodes: what is hot to fast ones, what is cold to slow "
            "ones, what is scattered to one",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "fast_min",
            Part(1 << 24),
            "0%",
            "how much of the VM's memory lies on fast NUMA nodes at least, in percent or MiB, where tiering is allowed",
        ),
        PolicyKey(
            "fast_max",
            Part(1 << 24),
            "100%",
            "how much of the VM's memory lies on fast NUMA nodes at most, in percent or MiB, where tiering is allowed",
        ),
        PolicyKey(
            "reporting_order",
            Whole(0, 10, words=(AUTO,)),
            AUTO,
            "smallest free block that the guest reports, as an order: 2^order pages; auto is memhint's own choice",
        ),
        PolicyKey(
            "reporting_delay_ms",
            Whole(0, 3_600_000, "ms", words=(AUTO,)),
            AUTO,
            "milliseconds for which the guest collects free memory before it reports; auto is memhint's own choice",
        ),
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
    _agree(values.get("fast_min", ""), values.get("fast_max", ""))
    return values


def _agree(least: str, most: str) -> None:
    """:raises PolicyError: when a minimum is above its maximum; what cannot be compared here is compared per VM"""
    if least.endswith("%") == most.endswith("%"):
        low, high = part_of(least, 100 * MIB), part_of(most, 100 * MIB)
        if low is not None and high is not None and low > high:
            raise PolicyError(f"fast_min={least} is more than fast_max={most}: make it smaller")


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective value and its origin."""

    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for one VM."""

    settings: Mapping[str, Setting]

    def value(self, name: str) -> str:
        """What holds for one key. An agent of another version may lack it: then the default holds."""
        found = self.settings.get(name)
        return KEYS[name].default if found is None else found.value

    @property
    def reporting(self) -> Mode:
        """The wish for free page reporting."""
        return _mode(self.value("reporting"))

    @property
    def dedup(self) -> Mode:
        """The wish for merging."""
        return _mode(self.value("dedup"))

    @property
    def guest_actions(self) -> bool:
        """True where the guest may be changed."""
        return self.value("guest_actions") == Consent.ALLOW

    @property
    def guest_unbind(self) -> bool:
        """True where the balloon driver may be unbound."""
        return self.value("guest_unbind") == Consent.ALLOW

    @property
    def project(self) -> str | None:
        """The owner as policy has it; None where it has none."""
        return self.value("project") or None

    @property
    def qos(self) -> QosClass:
        """The VM's class."""
        word = self.value("class")
        return _QOS.get(word) or read_word(QosClass, word)

    @property
    def minimum(self) -> int:
        """Bytes that the VM keeps whatever happens."""
        value = self.value("min_mb")
        return 0 if value == "0" else (_number(value) or 0) * MIB

    @property
    def overcommit(self) -> bool:
        """True where memory that the VM does not use may be promised to others."""
        return self.value("overcommit") == Consent.ALLOW

    @property
    def group(self) -> str | None:
        """The VM's anti-affinity group; None where it has none."""
        return self.value("group") or None

    @property
    def balloon(self) -> bool:
        """True where an idle best-effort VM may be ballooned."""
        return self.value("balloon") == Consent.ALLOW

    @property
    def swap_out(self) -> bool:
        """True where cold memory may be swapped out."""
        return self.value("swap_out") == Consent.ALLOW

    @property
    def recycler(self) -> Mode:
        """The wish for the page recycler."""
        return _mode(self.value("recycler"))

    @property
    def reporting_order(self) -> int | None:
        """The wished order; None where it is memhint's choice."""
        return _number(self.value("reporting_order"))

    @property
    def thp(self) -> Mode:
        """The wish for huge pages to be made again."""
        return _mode(self.value("thp"))

    @property
    def tiering(self) -> bool:
        """True where memory may be moved between NUMA nodes."""
        return self.value("tiering") == Consent.ALLOW

    def fast_min(self, assigned: int) -> int:
        """Bytes that lie on fast nodes at least, of a VM of so many."""
        return part_of(self.value("fast_min"), assigned) or 0

    def fast_max(self, assigned: int) -> int:
        """Bytes that lie on fast nodes at most, of a VM of so many; all of it without a bound."""
        found = part_of(self.value("fast_max"), assigned)
        return assigned if found is None else found

    @property
    def reporting_delay_ms(self) -> int | None:
        """The wished delay in milliseconds; None where it is memhint's choice."""
        return _number(self.value("reporting_delay_ms"))


# Asked for every VM in every cycle; looking a word up among an enumeration's values takes far longer.
_MODES: Mapping[str, Mode] = {str(word): word for word in Mode}
_QOS: Mapping[str, QosClass] = {str(word): word for word in QosClass}


def _mode(word: str) -> Mode:
    return _MODES.get(word) or read_word(Mode, word)


def _number(value: str) -> int | None:
    return int(value) if is_whole(value) else None


def effective(inputs: Mapping[Origin, Mapping[str, str]]) -> Policy:
    """The strongest origin's value for each key; the shipped default where none has one."""
    settings: dict[str, Setting] = {}
    for name, key in KEYS.items():
        settings[name] = Setting(key.default, Origin.DEFAULT)
        for origin in PRECEDENCE:
            if name in inputs.get(origin, {}):
                settings[name] = Setting(inputs[origin][name], origin)
                break
    return Policy(settings)


# Of a VM whose wishes cannot be read: nothing of its memory is promised, and nothing is done to it.
_CAREFUL: Mapping[str, str] = {
    "overcommit": Consent.DENY,
    "guest_actions": Consent.DENY,
    "guest_unbind": Consent.DENY,
    "balloon": Consent.DENY,
    "swap_out": Consent.DENY,
    "dedup": Mode.OFF,
    "recycler": Mode.OFF,
    "thp": Mode.OFF,
    "tiering": Consent.DENY,
}


def careful(policy: Policy) -> Policy:
    """The policy with each consent withdrawn, for a VM of which a wish cannot be read: it may have been the denial."""
    settings = dict(policy.settings)
    for name, value in _CAREFUL.items():
        if settings[name].value != value:  # who denied it already is not forgotten
            settings[name] = Setting(str(value), Origin.DEFAULT)
    if policy.qos is QosClass.BEST_EFFORT:
        settings["class"] = Setting(str(QosClass.BURSTABLE), Origin.DEFAULT)
    return Policy(settings)


def remembered(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """One input's values after it was read again: an opt-out outlives the metadata that said it.

    Nova writes the domain's XML again on hard reboot, resize and rebuild; what a VM was kept out of must not start
    because of that. An opt-out ends when the same input says something else.
    """
    survivors = {name: value for name, value in before.items() if value == KEYS[name].opt_out}
    return {**survivors, **now}
