"""Run a program inside cgroups: `python confine.py [--no-thp] [--cgroup DIR]... [--user UID] -- PROGRAM ARGUMENT...`.

A program of its own, and only the standard library: it has to be in its cgroup before the program it becomes allocates
anything, and the settings it makes must not touch the process that starts it.
"""

import ctypes
import os
import sys

PR_SET_THP_DISABLE = 41


def main(arguments: list[str]) -> None:
    """Apply the options before the `--`, then become the program after it."""
    split = arguments.index("--")
    options, program = arguments[:split], arguments[split + 1 :]
    while options:
        option = options.pop(0)
        if option == "--cgroup":
            with open(os.path.join(options.pop(0), "cgroup.procs"), "w") as procs:
                procs.write("0")
        elif option == "--no-thp":
            # Inherited by every child: no huge pages behind any guest of this libvirt.
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
                sys.exit(f"PR_SET_THP_DISABLE: {os.strerror(ctypes.get_errno())}")
        elif option == "--user":
            # Last of the options: only root may enter a cgroup.
            os.setuid(int(options.pop(0)))
        else:
            sys.exit(f"unknown option {option}")
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
