"""The names of the agent's commands, in one place.

Upstream reserves "__RFQDN_" for commands that are not upstream's. To ship them under such a
name set PREFIX, for instance to '__org.memhint_', and rebuild: build, tests and fuzzer follow.
Clients find out what an agent has from guest-info, they must not assume it.
"""

PREFIX = ""

COMMANDS = {
    "meminfo": "guest-get-meminfo",
    "get": "guest-get-page-reporting",
    "set": "guest-set-page-reporting",
    "reclaim": "guest-reclaim-memory",
}


def name(command):
    return PREFIX + COMMANDS[command]


def rename(source):
    """Gives the commands their prefix in an unpacked and patched source tree."""
    if not PREFIX:
        return
    for path in (
        "qga/qapi-schema.json",
        "qga/commands-linux.c",
        "qga/commands-posix.c",
        "tests/unit/test-qga.c",
        "docs/interop/qemu-ga.rst",
    ):
        file = source / path
        text = file.read_text()
        for command in COMMANDS.values():
            new = PREFIX + command
            text = text.replace("qmp_" + c_name(command) + "(", "qmp_" + c_name(new) + "(")
            for quote in "'", '"', "@", "-b ", "=", ",", "``":
                text = text.replace(quote + command, quote + new)
        file.write_text(text)


def c_name(command):
    return "".join(c if c.isalnum() else "_" for c in command)
