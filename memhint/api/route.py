"""One line of the route table, what a handler is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from werkzeug import Request, Response

from memhint.api.context import Context

if TYPE_CHECKING:
    from memhint.api.parts import Parts

Schema = Mapping[str, Any]
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has passed: who asks, and its checked words.

    ``still`` is whether the caller is whom it was, ``there`` whether it has not hung up.
    """

    request: Request
    who: Context
    parts: Parts
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None
    still: Callable[[], bool] = lambda: True
    there: Callable[[], bool] = lambda: True

    def authorize(self, rule: str, project: str | None = None) -> None:
        """Hold the caller against a rule, for something that belongs to this project.

        :raises Problem: 403
        """
        self.parts.enforcer.authorize(rule, self.who, project)

    def allowed(self, rule: str, project: str | None = None) -> bool:
        """Whether the rule lets the caller do it."""
        return self.parts.enforcer.allowed(rule, self.who, project)


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """What becomes of it. ``body`` is plain JSON data, bytes, or what is streamed piece by piece."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON


Handler = Callable[[Call], ApiResponse | Response] | Callable[[Call], ApiResponse] | Callable[[Call], Response]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One operation. ``path`` is as werkzeug's routing has it; ``rule`` None lets everybody in.

    The rule is asked before the handler, for something of the caller's own project. Where it depends on whose the
    thing is, the handler asks again when it knows.
    """

    method: str
    path: str
    handler: Handler
    rule: str | None
    summary: str
    answer: Schema | None = None
    query: Schema = field(default_factory=dict)
    body: Schema | None = None
    status: int = 200
    media: str = JSON
    problems: tuple[int, ...] = ()
    headers: tuple[str, ...] = ()  # request headers with a meaning of their own here
    leads: bool = False  # may send a browser elsewhere, with 302
    unavailable: Schema | None = None  # the answer with 503, where that is no problem document

    @property
    def id(self) -> str:
        """A name for programs: the handler's."""
        return f"{self.handler.__module__.rsplit('.', 1)[1]}_{self.handler.__name__}"
