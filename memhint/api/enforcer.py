"""oslo.policy over the rules of memhint.api.policies."""

from __future__ import annotations

import logging

from oslo_config import cfg
from oslo_policy import opts, policy

from memhint.api.context import Context
from memhint.api.errors import Problem
from memhint.api.policies import list_rules
from memhint.conf.errors import ConfigError

LOG = logging.getLogger(__name__)


class Enforcer:
    """Decides who may do what. The operator's policy file is read again when it changes, unless it is spoilt."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: when the policy file is spoilt"""
        opts._register(conf)
        self._enforcer = policy.Enforcer(conf)
        # A rule of the same name from an older shape of the file must not open anything silently.
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.register_defaults(list_rules())
        self._told = ""
        self._names = frozenset(rule.name for rule in list_rules())
        self._unknown: frozenset[str] = frozenset()
        try:
            self._enforcer.load_rules()
        except Exception as error:  # whatever the library meets in it
            raise ConfigError(None, "[oslo_policy] policy_file", f"{self._file()}: {_line(error)}") from error
        self._tell_unknown()

    def allowed(self, rule: str, who: Context, project: str | None) -> bool:
        """Whether the caller may do it to something of this project.

        :raises oslo_policy.policy.PolicyNotRegistered: when there is no such rule
        """
        # oslo.policy compares texts: what has no owner must not match a caller without a project, None with None.
        target = {"project_id": project or ""}
        try:
            found = bool(self._enforcer.authorize(rule, target, who))
            self._tell_unknown()  # the file may have been read again
            return found
        except policy.PolicyNotRegistered:
            raise
        except Exception as error:  # noqa: BLE001  whatever the library meets in a file that was changed
            self._tell(_line(error))
        self._enforcer.use_conf = False  # by what it knows
        try:
            return bool(self._enforcer.authorize(rule, target, who))
        finally:
            self._enforcer.use_conf = True

    def authorize(self, rule: str, who: Context, project: str | None) -> None:
        """Let it pass, or refuse it.

        :raises Problem: 403
        """
        if not self.allowed(rule, who, project):
            raise Problem(403, "forbidden", f"the policy {rule} does not let {who.name} do this: ask for another role")

    def _file(self) -> str:
        return str(self._enforcer.policy_path or self._enforcer.policy_file)

    def _tell_unknown(self) -> None:
        names = tuple(map(str, tuple(self._enforcer.file_rules)))  # another thread may be reading the file
        unknown = frozenset(name for name in names if name.startswith("memhint:") and name not in self._names)
        if unknown and unknown != self._unknown:
            told = ", ".join(sorted(unknown))
            LOG.warning("%s has rules that there are not, which change nothing: %s", self._file(), told)
        self._unknown = unknown

    def _tell(self, error: str) -> None:
        if error != self._told:
            LOG.error("%s is not taken, the rules before it hold: %s", self._file(), error)
        self._told = error


def _line(error: Exception) -> str:
    if isinstance(error, (AttributeError, TypeError)):  # the library asks what it has parsed for its rules
        return "is no mapping of rules to text"
    return " ".join(str(error).split())[:300] or type(error).__name__
