"""A ledger in memory, for what pulls levers without an agent. Virtual hosts have it inside, too."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.ownership import Mark


class MemoryLedger:
    """Marks in the order in which they were first put."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, str], Mark] = {}

    def put(self, mark: Mark) -> None:
        """Keep a mark; what an older one of the same instance says of before stays."""
        older = self.marks.get((mark.subject, mark.knob))
        if older is not None and older.instance == mark.instance:
            mark = replace(mark, before=older.before)
        self.marks[(mark.subject, mark.knob)] = mark

    def get(self, subject: str, knob: str) -> Mark | None:
        """The mark of a knob, if there is one."""
        return self.marks.get((subject, knob))

    def remove(self, subject: str, knob: str) -> None:
        """Forget a mark."""
        self.marks.pop((subject, knob), None)

    def of(self, subject: str) -> tuple[Mark, ...]:
        """The marks of one subject."""
        return tuple(mark for mark in self.marks.values() if mark.subject == subject)

    def all(self) -> tuple[Mark, ...]:
        """Every mark."""
        return tuple(self.marks.values())
