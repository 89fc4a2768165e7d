"""Who may do what: the rules of oslo.policy, one file per resource."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from oslo_policy.policy import RuleDefault


def list_rules() -> list[RuleDefault]:
    """Every rule of every file here, in the order of the sample file: those that the others are made of come first."""
    found = sorted((one.name for one in pkgutil.iter_modules(__path__)), key=lambda name: (name != "base", name))
    return [rule for name in found for rule in import_module(f"{__name__}.{name}").RULES]
