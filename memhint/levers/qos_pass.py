"""What one pass of the QoS lever knows: its marks, and each cgroup's memory.min beside what its children have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import dirname

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.memcg import UNLIMITED, amount, amount_text
from memhint.kernel.root import KernelRoot
from memhint.objects.ownership import Mark

# The subject of marks on cgroups that several VMs share.
CGROUPS = "cgroups"
OOM_KNOB = "oom_score_adj"
MIN, SWAP_MAX = "memory.min", "memory.swap.max"
OF = " of "  # between a cgroup's file and its directory, in a knob's name


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is to hold something else."""

    subject: str
    knob: str
    path: str
    before: str
    after: str
    instance: str

    def __str__(self) -> str:
        name, of, place = self.knob.partition(OF)
        return f"{name}={self.after}{of}{place}"


class Pass:
    """One pass: what was read, kept true while things are written (or, in a dry run, as if they were)."""

    def __init__(self, root: KernelRoot, host_boot: str, marks: Iterable[Mark]) -> None:
        """:param host_boot: names this boot of the host; marks of another one are void"""
        self._root = root
        self._host_boot = host_boot
        self._marks: dict[str, dict[str, Mark]] = {}  # by subject, for there may be many VMs
        for mark in marks:
            if is_qos(mark):
                self.keep(mark)
        self.held: set[str] = set()  # cgroups of VMs that are guaranteed as of this pass
        self.released = False  # something of a VM was put back, and the cgroups above it are not lowered yet
        self._mins: dict[str, int] = {}
        self._claims: dict[str, int] = {}

    def mark(self, subject: str, knob: str, instance: str) -> Mark | None:
        """The mark of this very process or cgroup."""
        found = self.known(subject, knob)
        return found if found is not None and found.instance == instance else None

    def known(self, subject: str, knob: str) -> Mark | None:
        """The mark of whatever process or cgroup there was."""
        return self._marks.get(subject, {}).get(knob)

    def keep(self, mark: Mark) -> None:
        """A mark is another now, or new."""
        self._marks.setdefault(mark.subject, {})[mark.knob] = mark

    def drop(self, mark: Mark) -> None:
        """A mark is not there any more."""
        self._marks.get(mark.subject, {}).pop(mark.knob, None)

    def cgroup(self, path: str) -> str:
        """The instance of a cgroup that several VMs share: one that is made again has another.

        :raises InterfaceMissing: when it is gone
        """
        return f"{self._host_boot}:{self._root.inode(path)}"

    def of(self, subject: str) -> list[Mark]:
        """The marks of one VM, or those of `CGROUPS`."""
        return list(self._marks.get(subject, {}).values())

    def of_vms(self) -> list[Mark]:
        """The marks of all VMs: not to be asked for once per VM."""
        return [mark for subject in self._marks if subject != CGROUPS for mark in self.of(subject)]

    def shared(self) -> list[Mark]:
        """The marks of cgroups above VMs, the deepest first. There may be one per VM."""
        return sorted(self.of(CGROUPS), key=lambda mark: -mark.knob.count("/"))

    def above_guaranteed(self) -> set[str]:
        """The cgroups above VMs that are guaranteed: as of this pass, or by the mark of an earlier one."""
        found: set[str] = set()
        for path in [*self.held, *map(file_of, self.of_vms())]:
            while (path := dirname(path)) not in found and path not in ("", "/"):
                found.add(path)
        return found

    def min(self, path: str) -> int:
        """memory.min of a cgroup.

        :raises KernelInterfaceError: when it has none, or it cannot be read
        """
        if path not in self._mins:
            self._mins[path] = amount(self._root, f"{path}/{MIN}")
        return self._mins[path]

    def claims(self, path: str) -> int:
        """The sum of the children's memory.min.

        :raises KernelInterfaceError: when the cgroup cannot be listed or a child's makes no sense
        """
        if path not in self._claims:
            self._claims[path] = sum(claim(self._child(f"{path}/{name}")) for name in self._root.directories(path))
        return self._claims[path]

    def moved(self, path: str, text: str) -> None:
        """A cgroup's memory.min is another now."""
        value, parent = bytes_of(text), dirname(path)
        if parent in self._claims:
            self._claims[parent] += claim(value) - claim(self.min(path))
        self._mins[path] = value

    def pretend(self, change: Change) -> None:
        """What a dry run would have written, so that the next VM is planned on top of it."""
        if change.knob.startswith(MIN + OF):
            self.moved(dirname(change.path), change.after)

    def _child(self, path: str) -> int:
        try:
            return self.min(path)
        except InterfaceMissing:
            return 0  # threaded, or it ended meanwhile


def is_qos(mark: Mark) -> bool:
    """Whether a mark is the QoS lever's."""
    return mark.knob == OOM_KNOB or mark.knob.startswith((MIN + OF, SWAP_MAX + OF))


def knob_of(name: str, path: str) -> str:
    """A file of a cgroup as the knob of a mark."""
    return f"{name}{OF}{path}"


def file_of(mark: Mark) -> str:
    """The file that a mark stands for."""
    if mark.knob == OOM_KNOB:
        return f"proc/{mark.instance.partition(':')[0]}/{OOM_KNOB}"
    name, _, path = mark.knob.partition(OF)
    return f"{path}/{name}"


def base_of(mark: Mark | None, seen: int) -> int:
    """What somebody else gave: the value from before memhint's, or the present one where it is not memhint's."""
    return bytes_of(mark.before) if mark is not None and explained(mark, amount_text(seen)) else seen


def explained(mark: Mark, seen: str) -> bool:
    """Whether nobody else has set what is seen: it is memhint's, or was there before."""
    return mark.made(seen) or seen == mark.before


def bytes_of(text: str) -> int:
    """An amount as the kernel shows it."""
    return UNLIMITED if text == "max" else int(text)


def claim(value: int) -> int:
    """What a child's memory.min asks of its parent: of one without a bound no sum can be made."""
    return 0 if value >= UNLIMITED else value
