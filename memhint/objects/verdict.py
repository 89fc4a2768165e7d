"""A typed answer with its reason: every refusal and every action gives one."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.words import Word


class Answer(Word):
    """What became of a wish."""

    APPLIED = "applied"  # done now, and read back
    UNCHANGED = "unchanged"  # it was so already
    PLANNED = "planned"  # a dry run: it would be done
    PENDING = "pending"  # begun or queued; a later cycle will tell
    UNSUPPORTED = "unsupported"  # this guest, kernel or hypervisor cannot; not the same as off
    REFUSED = "refused"  # it could be done and a rule forbids it
    CONFLICT = "conflict"  # somebody else owns the setting
    FAILED = "failed"  # it was tried and did not work


class Reason(Word):
    """Why, in one word that programs can count. The detail is for people."""

    NONE = "none"
    CONSENT = "consent"  # a policy key that allows it is missing, mostly guest_actions
    UNBIND_OPT_IN = "unbind_opt_in"  # guest_unbind is deny
    BALLOON_INFLATED = "balloon_inflated"
    MONITOR_COMMANDS = "monitor_commands"  # allow_monitor_commands is off
    NO_GUEST_AGENT = "no_guest_agent"
    GUEST_ANSWER = "guest_answer"  # the guest answered with an error or nonsense
    GUEST_TIMEOUT = "guest_timeout"
    GUEST_COMMAND = "guest_command"  # the guest's agent does not have the command
    GUEST_BLOCKED = "guest_blocked"  # it has the command, and the guest's administrator blocks it
    GUEST_PRESSURE = "guest_pressure"  # the guest's own memory pressure passed the limit
    IN_USE = "in_use"  # the guest uses what it would be asked for
    KERNEL = "kernel"  # the kernel, the guest's or the host's, does not have it
    DEVICE = "device"  # the VM was started without the device or its feature
    NEXT_BOOT = "next_boot"  # takes effect when the VM next starts
    REARM = "rearm"  # on again, and nothing is reported before the guest next frees a block of its order
    NOT_RUNNING = "not_running"
    OTHER_MANAGER = "other_manager"  # ksmtuned, MOM or an operator's own setting
    TENANT = "tenant"  # would merge memory across a project boundary
    NO_PROJECT = "no_project"  # it is unknown whose VM it is
    PARTITION = "partition"  # KSM does not keep it apart from others: it could not be put into its partition
    NOT_VERIFIED = "not_verified"  # somebody's merge=off could not be verified
    HEADROOM = "headroom"  # it would take memory that the host, or the VM's minimum, does not leave
    REPORTING_OFF = "reporting_off"  # what the guest frees would not come back
    TIME_UP = "time_up"  # the time that the request gave is over
    EXPIRED = "expired"  # the request was not begun within its time to live
    INTERRUPTED = "interrupted"  # taken back, or the agent was stopped while it went on
    OPT_OUT = "opt_out"
    PRESSURE = "pressure"  # the host waits for memory, or runs short: done for that, or not done because of it
    EXCLUDED = "excluded"  # a VM like this one must not have it done: real time, a passed-through device
    NO_ESTIMATE = "no_estimate"  # auto needs an estimate that is not there, or not yet
    DOES_NOT_PAY = "does_not_pay"  # auto: merging would save too little, or cost more than it saved
    PAGES_BREAK = "pages_break"  # merged pages are written to faster than merging them is worth
    TURN = "turn"  # others come first, of which more is saved
    SHARED_CGROUP = "shared_cgroup"  # the VM has no memory cgroup of its own
    NO_BLOCKS = "no_blocks"  # the host has no huge page to give, and compacts in vain for one
    ONE_NODE = "one_node"  # the host has no other NUMA node that the VM may use
    NODE_FULL = "node_full"  # the node that memory is moved to has no room left
    NODE_GONE = "node_gone"  # the node that memory is moved to is offline
    LIMITS = "limits"  # fast_min and fast_max contradict each other, or what the host has
    NO_READING = "no_reading"  # which memory is in use is not known, or not yet
    NO_SWAP = "no_swap"  # no disk swap with room that the VM may use
    NOT_ENCRYPTED = "not_encrypted"  # disk swap that would keep guest memory in the clear
    STALLS = "stalls"  # the VM waits for its memory: no more is taken from it
    HYPERVISOR = "hypervisor"  # libvirt or QEMU answered with an error
    DRY_RUN = "dry_run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, its reason, and a sentence with what to do next."""

    answer: Answer
    reason: Reason = Reason.NONE
    detail: str = ""

    @property
    def ok(self) -> bool:
        """True where nothing stands between the wish and its fulfilment."""
        return self.answer in (Answer.APPLIED, Answer.UNCHANGED, Answer.PLANNED, Answer.PENDING)

    def __str__(self) -> str:
        return verdict_text(self.answer, self.reason, self.detail)


def verdict_text(answer: str, reason: str, detail: str) -> str:
    """A verdict for people."""
    why = "" if reason == Reason.NONE else f" ({reason})"
    return f"{answer}{why}" + (f": {detail}" if detail else "")
