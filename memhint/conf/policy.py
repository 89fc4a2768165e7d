"""[policy] and [aggregate_name]: what holds for a VM where neither an operator nor its metadata nor its flavor says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg, types

from memhint.objects.policy import KEYS, Consent, Mode, Origin, PolicyKey, QosClass
from memhint.objects.policy_values import Choice, Name

GROUP = "policy"

_MEANING: Mapping[str, str] = {
    Mode.ON: "wanted",
    Mode.OFF: "not wanted",
    Mode.AUTO: "left to memhint",
    Consent.ALLOW: "may be done",
    Consent.DENY: "must not be done",
    QosClass.GUARANTEED: "all of its memory, at any time",
    QosClass.BURSTABLE: "what it is forecast to need",
    QosClass.BEST_EFFORT: "what it is forecast to need, and first to give",
}


class PolicyValue(types.ConfigType):
    """A value of a policy key that is no choice of words."""

    def __init__(self, key: PolicyKey) -> None:
        super().__init__(type_name="policy value")
        self.key = key

    def __call__(self, value: Any) -> str:
        """The value in its one spelling.

        :raises ValueError: when the key does not take it
        """
        return self.key.check(str(value))

    def __str__(self) -> str:
        return self.key.kind.accepted

    def __repr__(self) -> str:
        return f"PolicyValue({self.key.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PolicyValue) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key.name)

    def _formatter(self, value: Any) -> str:
        return str(value)


def _option(key: PolicyKey, default: str | None, text: str) -> cfg.Opt:
    if isinstance(key.kind, Choice):
        choices = [(word, _MEANING[word]) for word in key.kind.words]
        return cfg.StrOpt(key.name, default=default, choices=choices, help=text)
    return cfg.Opt(key.name, type=PolicyValue(key), default=default, help=text)


# A name, such as whose VM it is, has no sensible default for a whole host.
_KEYS = tuple(key for key in KEYS.values() if not isinstance(key.kind, Name))
OPTS = tuple(_option(key, str(key.default), f"Default of every VM: {key.help}.") for key in _KEYS)
AGGREGATE_OPTS = tuple(
    _option(key, None, f"Default of every VM on a host of this aggregate: {key.name} of [policy], before that one.")
    for key in _KEYS
)


def host_inputs(conf: cfg.ConfigOpts) -> dict[Origin, dict[str, str]]:
    """The host's own wishes for every VM, by origin. Of its aggregates the first one that says something holds."""
    said: dict[str, str] = {}
    for name in reversed(conf.host.aggregates):
        group = conf[aggregate_group(name)]
        said.update({key.name: group[key.name] for key in _KEYS if group[key.name] is not None})
    return {Origin.AGGREGATE: said, Origin.DEFAULT: {key.name: conf[GROUP][key.name] for key in _KEYS}}


def aggregate_group(name: str) -> str:
    """The section in which the aggregate of this name has its options."""
    return f"aggregate_{name}"
