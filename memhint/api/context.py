"""Who makes a request. oslo.log shows it in every line that is written meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_context.context import RequestContext

ANONYMOUS = "-"


class Context(RequestContext):
    """A caller: name, roles, and the project that its sight ends at. Without a project it is of the system."""

    def __init__(
        self,
        *,
        name: str = ANONYMOUS,
        known: bool = False,
        roles: Iterable[str] = (),
        project: str | None = None,
        system: bool = False,
        request_id: str | None = None,
        global_request_id: str | None = None,
    ) -> None:
        """:param known: whether the caller has shown who it is."""
        super().__init__(
            user_id=name,
            project_id=project,
            roles=list(roles),
            system_scope="all" if system else None,
            request_id=request_id,
            global_request_id=global_request_id,
            overwrite=True,
        )
        self.name = name
        self.known = known
