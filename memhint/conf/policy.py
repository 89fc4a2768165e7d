"""[policy]: what holds for a VM where neither an operator nor its metadata nor its flavor says anything."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from memhint.objects.policy import KEYS, Consent, Mode, PolicyKey

GROUP = "policy"

_MEANING: Mapping[str, str] = {
    Mode.ON: "wanted",
    Mode.OFF: "not wanted",
    Mode.AUTO: "left to memhint",
    Consent.ALLOW: "may be done",
    Consent.DENY: "must not be done",
}


def _option(key: PolicyKey) -> cfg.StrOpt:
    return cfg.StrOpt(
        key.name,
        default=str(key.default),
        choices=[(str(value), _MEANING[value]) for value in key.allowed],
        help=f"Default of every VM: {key.help}.",
    )


# Free text, such as whose VM it is, has no sensible default for a whole host.
OPTS = tuple(_option(key) for key in KEYS.values() if key.allowed)


def defaults(conf: cfg.ConfigOpts) -> dict[str, str]:
    """The host's own wishes for every VM, as the input of origin DEFAULT."""
    return {option.dest: conf[GROUP][option.dest] for option in OPTS}
