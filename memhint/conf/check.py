"""What no option can tell by itself: rules that join two of them."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf import swap_out
from memhint.conf.errors import ConfigError

_BELOW = (
    ("planner", "psi_exit", "psi_enter"),
    ("planner", "swap_in_exit_mib", "swap_in_enter_mib"),
    ("planner", "available_enter_percent", "available_exit_percent"),
    ("planner", "refault_exit_mib", "refault_enter_mib"),
    ("planner", "scarce_enter_percent", "scarce_exit_percent"),
    ("dedup", "auto_exit_percent", "auto_enter_percent"),
)
_NOT_ABOVE = (
    ("guest", "call_timeout", "conversation_timeout"),
    ("guest", "backoff_base", "backoff_max"),
    ("guest", "interval", "max_age"),
)


def check(conf: cfg.ConfigOpts) -> None:
    """Hold options against each other.

    :raises ConfigError: naming the first pair that cannot be meant
    """
    for group, low, high in _BELOW:
        if not conf[group][low] < conf[group][high]:
            raise ConfigError(
                None, f"[{group}] {low}", f"{conf[group][low]:g}: use less than {_named(conf, group, high)}"
            )
    for group, low, high in _NOT_ABOVE:
        if conf[group][low] > conf[group][high]:
            raise ConfigError(
                None, f"[{group}] {low}", f"{conf[group][low]:g}: use no more than {_named(conf, group, high)}"
            )
    swap_out.check(conf)


def _named(conf: cfg.ConfigOpts, group: str, option: str) -> str:
    return f"{option} ({conf[group][option]:g})"
