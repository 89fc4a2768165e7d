"""oslo.policy over the rules of memhint.api.policies."""

from __future__ import annotations

from oslo_config import cfg
from oslo_policy import opts, policy

from memhint.api.context import Context
from memhint.api.errors import Problem
from memhint.api.policies import list_rules


class Enforcer:
    """Decides who may do what. The operator's policy file is read again when it changes."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        opts._register(conf)
        self._enforcer = policy.Enforcer(conf)
        # A rule of the same name from an older shape of the file must not open anything silently.
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.register_defaults(list_rules())
        self._enforcer.load_rules()

    def allowed(self, rule: str, who: Context, project: str | None) -> bool:
        """Whether the caller may do it to something of this project.

        :raises oslo_policy.policy.PolicyNotRegistered: when there is no such rule
        """
        # oslo.policy compares texts: what has no owner must not match a caller without a project, None with None.
        return bool(self._enforcer.authorize(rule, {"project_id": project or ""}, who))

    def authorize(self, rule: str, who: Context, project: str | None) -> None:
        """Let it pass, or refuse it.

        :raises Problem: 403
        """
        if not self.allowed(rule, who, project):
            raise Problem(403, "forbidden", f"the policy {rule} does not let {who.name} do this: ask for another role")
