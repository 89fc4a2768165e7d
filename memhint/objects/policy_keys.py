"""What can be set per VM: each key with its values, its default, and what it means."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.policy_values import (
    Choice,
    Consent,
    Mode,
    Name,
    PercentOrMib,
    PolicyError,
    QosClass,
    ValueType,
    WholeNumber,
    part_of,
)
from memhint.objects.units import MIB

AUTO = "auto"

# Of a flavor, read where Nova places and starts VMs, and by no agent.
NOVA_KEYS = frozenset({"huge_pages", "max_ratio"})


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """One thing that can be set per VM."""

    name: str
    kind: ValueType
    default: str
    help: str
    opt_out: str | None = None  # the value that survives the loss of the metadata that said it

    def check(self, value: str) -> str:
        """The value in its one spelling, when it is one that this key takes.

        :raises PolicyError: otherwise
        """
        checked = self.kind.check(value)
        if checked is None:
            raise PolicyError(f"{self.name}={value!r}: use {self.kind.accepted}")
        return checked


def _choice(words: type[StrEnum]) -> Choice:
    return Choice(tuple(str(word) for word in words))


KEYS: Mapping[str, PolicyKey] = {
    key.name: key
    for key in (
        PolicyKey(
            "reporting",
            _choice(Mode),
            Mode.AUTO,
            "free page reporting: on, off, or left as the guest has it (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "dedup",
            _choice(Mode),
            Mode.OFF,
            "merge equal pages with other VMs of the same project",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "guest_actions",
            _choice(Consent),
            Consent.DENY,
            "whether memhint may change anything inside the guest",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "guest_unbind",
            _choice(Consent),
            Consent.DENY,
            "whether reporting may be stopped by unbinding the guest's balloon driver (stock 6.12 has no other switch)",
            opt_out=Consent.DENY,
        ),
        PolicyKey("project", Name(), "", "whose VM this is, where Nova's metadata does not say"),
        PolicyKey(
            "class",
            _choice(QosClass),
            QosClass.BURSTABLE,
            "how much of its memory the VM is promised at any time: all of it (guaranteed), what it is forecast to "
            "need (burstable), or the same and first to give (best-effort)",
            opt_out=QosClass.GUARANTEED,
        ),
        PolicyKey(
            "min_mb",
            WholeNumber(0, 1 << 24, "MiB"),
            "0",
            "MiB that the VM always counts with at least and that no lever takes below; 0 is none",
        ),
        PolicyKey(
            "overcommit",
            _choice(Consent),
            Consent.ALLOW,
            "whether memory that the VM does not use may be promised to others",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "group",
            Name(),
            "",
            "anti-affinity group: VMs of one group are expected to grow at the same time",
        ),
        PolicyKey(
            "balloon",
            _choice(Consent),
            Consent.DENY,
            "whether an idle best-effort VM may be ballooned down to its minimum when the host is under pressure",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "swap_out",
            _choice(Consent),
            Consent.DENY,
            "whether the VM's cold memory may be swapped out: when the host is under pressure, and where its "
            "`[ladder] always` has `swap_out` on a calm host too",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "recycler",
            _choice(Mode),
            Mode.AUTO,
            "give back single free pages where QEMU and the guest can: always, never, or while it is idle (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "thp",
            _choice(Mode),
            Mode.AUTO,
            "make huge pages again for a VM that works: wherever they are missing, never, or after memhint took memory "
            "from it in pieces (auto)",
            opt_out=Mode.OFF,
        ),
        PolicyKey(
            "tiering",
            _choice(Consent),
            Consent.DENY,
            "whether the VM's memory may be moved between NUMA nodes: what is hot to fast ones, what is cold to slow "
            "ones, what is scattered to one",
            opt_out=Consent.DENY,
        ),
        PolicyKey(
            "fast_min",
            PercentOrMib(1 << 24),
            "0%",
            "how much of the VM's memory lies on fast NUMA nodes at least, in percent or MiB, where tiering is allowed",
        ),
        PolicyKey(
            "fast_max",
            PercentOrMib(1 << 24),
            "100%",
            "how much of the VM's memory lies on fast NUMA nodes at most, in percent or MiB, where tiering is allowed",
        ),
        PolicyKey(
            "reporting_order",
            WholeNumber(0, 10, words=(AUTO,)),
            AUTO,
            "smallest free block that the guest reports, as an order: 2^order pages; auto is memhint's own choice",
        ),
        PolicyKey(
            "reporting_delay_ms",
            WholeNumber(0, 3_600_000, "ms", words=(AUTO,)),
            AUTO,
            "milliseconds for which the guest collects free memory before it reports; auto is memhint's own choice",
        ),
    )
}


def parse_policy(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Checked policy values by key, each for itself. Whether they agree is what who sets them is told (`check_agree`).

    :raises PolicyError: on an unknown key or a value that the key does not take
    """
    values: dict[str, str] = {}
    for name, value in items:
        key = KEYS.get(name)
        if key is None:
            raise PolicyError(f"{name!r} is not a policy key: use {', '.join(KEYS)}")
        values[name] = key.check(value)
    return values


def read_wishes(items: Iterable[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    """Checked policy values of one who cannot be told what is wrong, and what is: a misspelt wish is never a consent.

    A wrong value counts as the key's opt-out, and as not said where it has none. An unknown key counts as not said.
    """
    values: dict[str, str] = {}
    faults: list[str] = []
    for name, value in items:
        try:
            values.update(parse_policy([(name, value)]))
        except PolicyError as error:
            opt_out = KEYS[name].opt_out if name in KEYS else None
            if opt_out is not None:
                values[name] = str(opt_out)
            faults.append(str(error) if opt_out is None else f"{error}; it counts as {opt_out}")
    return values, faults


def check_agree(values: Mapping[str, str], named: Collection[str]) -> None:
    """For who sets wishes: that those which will hold together can. What one needs the VM's size for is seen per VM.

    What contradicts itself and came another way, as from a flavor, is refused by the lever, for that VM alone.

    :param values: all that will be wished
    :param named: of these keys somebody says something now; of others nothing is asked
    :raises PolicyError: when a minimum is above its maximum
    """
    if not {"fast_min", "fast_max"} & set(named):
        return
    least, most = values.get("fast_min", ""), values.get("fast_max", "")
    if least.endswith("%") == most.endswith("%"):
        low, high = part_of(least, 100 * MIB), part_of(most, 100 * MIB)
        if low is not None and high is not None and low > high:
            raise PolicyError(f"fast_min={least} is more than fast_max={most}: make it smaller")
