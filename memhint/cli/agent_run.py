"""`memhint agent` as it is nearly always started: without what reads other command lines and shows tables.

It runs on every host, for as long as the host does, so it carries nothing with it that it does not need.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence


def config_files(words: Sequence[str]) -> list[str] | None:
    """The files of a command line that says `agent` and names configuration files, nothing else; None of any other."""
    files: list[str] = []
    others: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option != "--config-file":
            others.append(word)
            continue
        file = value if equals else next(left, None)
        if file is None:
            return None
        files.append(file)
    return files if others == ["agent"] else None


def run_alone(files: Sequence[str]) -> int:
    """Run the agent in this process, which does nothing else; the exit code. An error is one line on stderr."""
    # here, for other commands load nothing of the agent
    from memhint.agent.heap import keep_heap_small
    from memhint.agent.unused import leave_unloaded

    keep_heap_small()
    leave_unloaded()
    try:
        return run_agent(files)
    except KeyboardInterrupt:  # before the agent heeds signals
        return 128 + signal.SIGINT
    except Exception as error:  # noqa: BLE001 - as every command ends
        from memhint.cli.errors import exit_of, line_of

        sys.stderr.write(f"{line_of(error)}\n")
        return exit_of(error)


def run_agent(files: Sequence[str] | None, log_file: str | None = None) -> int:
    """Run the agent with these configuration files until it is told to end; the exit code.

    :param files: none of them stands for the default one
    :param log_file: where it logs to; None where the configuration says
    :raises CliError: when this host has an agent
    :raises ConfigError: when the configuration is wrong
    :raises StoreError: when the store cannot be opened
    """
    from memhint import conf as configuration
    from memhint.agent.descriptors import allow_many_descriptors
    from memhint.agent.lock import AlreadyRunning
    from memhint.agent.rest_ksm import say_rest
    from memhint.agent.service import run
    from memhint.cli.exits import CliError, Exit
    from memhint.conf.log import set_up
    from memhint.kernel.root import KernelRoot

    try:
        conf = configuration.load(files or None)
        set_up(conf, "agent", log_file)
        allow_many_descriptors()
        return run(conf, log_file)
    except AlreadyRunning as error:
        raise CliError(Exit.FAILED, str(error)) from error
    except BaseException:
        # As the unit does at its end, where there is one: what an agent before this one had merge goes on until then.
        say_rest(KernelRoot())
        raise
