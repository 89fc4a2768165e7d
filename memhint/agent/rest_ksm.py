"""Has KSM rest where the agent that had it run is dead: `python -m memhint.agent.rest_ksm`, as the agent's unit ends.

A VM that starts now is mergeable by QEMU's default, and nobody keeps it out. This reads neither store nor
configuration: what is wrong with those may be why there is no agent.
"""

from __future__ import annotations

import sys

from memhint.kernel.boot import host_boot
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.ksm import KsmKnob, read_knob, write_knob
from memhint.kernel.root import KernelRoot
from memhint.levers.ksm_flag import KsmFlag


def rest_ksm(root: KernelRoot) -> bool:
    """Stop KSM where memhint has it run and the agent is dead: what is merged stays so. Whether it ran.

    :raises KernelInterfaceError: when it cannot be stopped
    :raises OSError: when the next agent cannot be told, which takes it for somebody else's doing
    """
    flag = KsmFlag(root, host_boot(root))
    if not flag.is_ours():
        return False
    if read_knob(root, KsmKnob.RUN) != "1":
        flag.take_down()  # somebody has stopped it, and it is theirs to run
        return False
    write_knob(root, KsmKnob.RUN, "0")
    flag.note_rest()
    return True


def say_rest(root: KernelRoot) -> bool:
    """As `rest_ksm`, with a line on stderr where there is something to say; False where it failed."""
    try:
        if rest_ksm(root):
            sys.stderr.write("KSM rests: there is no agent that keeps out who must not merge\n")
    except (KernelInterfaceError, OSError) as error:
        sys.stderr.write(f"KSM may go on without an agent: {error}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(0 if say_rest(KernelRoot()) else 1)
