"""What an operator, a project or the host wants for one VM, and where each wish came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memhint.objects.policy_keys import KEYS, NOVA_KEYS, PolicyKey, check_agree, parse_policy, read_wishes
from memhint.objects.policy_values import Consent, Mode, PolicyError, QosClass, is_whole, part_of
from memhint.objects.units import MIB
from memhint.objects.words import Word, read_word

__all__ = [
    "KEYS",
    "NOVA_KEYS",
    "PRECEDENCE",
    "Consent",
    "Mode",
    "Origin",
    "Policy",
    "PolicyError",
    "PolicyKey",
    "PolicySetting",
    "QosClass",
    "careful",
    "careful_value",
    "check_agree",
    "effective",
    "parse_policy",
    "read_wishes",
    "remembered",
]


class Origin(Word):
    """Who said so, strongest first."""

    OPERATOR = "operator"  # `memhint set`, kept in the store
    METADATA = "metadata"  # libvirt domain metadata under our namespace
    FLAVOR = "flavor"  # memhint:… extra specs in Nova's metadata
    AGGREGATE = "aggregate"  # the host's configuration, for an aggregate that it belongs to
    DEFAULT = "default"  # the host's configuration, for every VM


PRECEDENCE = tuple(Origin)


@dataclass(frozen=True, slots=True)
class PolicySetting:
    """One effective value and its origin."""

    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for one VM."""

    settings: Mapping[str, PolicySetting]

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
    settings: dict[str, PolicySetting] = {}
    for name, key in KEYS.items():
        settings[name] = PolicySetting(key.default, Origin.DEFAULT)
        for origin in PRECEDENCE:
            if name in inputs.get(origin, {}):
                settings[name] = PolicySetting(inputs[origin][name], origin)
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


def careful_value(name: str, value: str | None) -> str | None:
    """What holds for one key of a VM of which a wish cannot be read, where ``value`` would hold if it could."""
    if name == "class" and value == QosClass.BEST_EFFORT:
        return str(QosClass.BURSTABLE)
    denial = _CAREFUL.get(name)
    return value if denial is None else str(denial)


def careful(policy: Policy) -> Policy:
    """The policy with each consent withdrawn, for a VM of which a wish cannot be read: it may have been the denial."""
    settings = dict(policy.settings)
    for name in KEYS:
        value, now = policy.value(name), careful_value(name, policy.value(name))
        if now is not None and now != value:  # who denied it already is not forgotten
            settings[name] = PolicySetting(now, Origin.DEFAULT)
    return Policy(settings)


def remembered(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """One input's values after it was read again: an opt-out outlives the metadata that said it.

    Nova writes the domain's XML again on hard reboot, resize and rebuild; what a VM was kept out of must not start
    because of that. An opt-out ends when the same input says something else.
    """
    survivors = {name: value for name, value in before.items() if value == KEYS[name].opt_out}
    return {**survivors, **now}
