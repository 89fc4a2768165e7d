"""What this version puts on the wire, one message of each kind with as much in it as there can be.

`python -m tests.unit.bus.wire DIRECTORY` keeps them as files. Done with each version that lands, in a directory of its
own: later versions are held against them. It uses only what every version has.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from memhint.bus.commands import answer
from memhint.bus.envelope import Envelope, MessageKind, text_of
from memhint.bus.record import Record
from memhint.controller.messages import interrupt_command, policy_command, reclaim_command
from memhint.objects.event import Event
from memhint.objects.history import point_of
from memhint.objects.provider import NovaCompute
from memhint.objects.reclaim import Reclaim
from memhint.store.central_policies import Wishes
from memhint.store.reclaims import HostReclaim
from tests.unit import builders

EPOCH = "001700000000000-0000000a"
COMMANDS = ("look", "policy", "reclaim", "interrupt")


def messages() -> dict[str, str]:
    """Their texts by name."""
    made = replace(
        builders.report(epoch=EPOCH),
        nova=NovaCompute("4b4f7c63-6a10-4ffd-8fb3-5b70ce1dd0b0", 1.5),
        dedup=builders.dedup_estimate(),
        slot_overhead=128 * 2**20,
        agent="0.1",
    )
    reclaim = Reclaim(builders.reclaim_request())
    state = builders.lever_state()
    event = Event(builders.NOW, "host-a", state.subject, state.lever, state.desired, state.verdict)
    record = Record((point_of(made),), (event,), 3, (reclaim,))
    waiting = HostReclaim("host-a", reclaim, "taken back")
    sent = {
        "policy": policy_command("host-a", Wishes(builders.WEB, 7, {"reporting": "off"}), EPOCH),
        "reclaim": reclaim_command(waiting, builders.NOW, EPOCH),
        "interrupt": interrupt_command(waiting, "taken back", builders.NOW, EPOCH),
    }
    found = {
        "state": text_of(Envelope(MessageKind.STATE, "host-a", EPOCH, made.sequence, 12.5, made)),
        "record": text_of(Envelope(MessageKind.RECORD, "host-a", EPOCH, made.sequence, 12.5, record)),
        "look": _command("look", {}, None),
        **{name: _command(one.name, dict(one.arguments), one.epoch) for name, one in sent.items()},
    }
    handlers = {"look": lambda _: {}, "policy": lambda _: {"applied": True}, "fails": _fails}
    for name, text in {
        "answer-done": found["policy"],
        "answer-epoch": _command("policy", {}, "another"),
        "answer-unknown": _command("new_command", {}, EPOCH),
        "answer-failed": _command("fails", {}, EPOCH),
    }.items():
        found[name] = answer(text.encode(), None, EPOCH, handlers).decode()
    return found


def keep(place: Path) -> None:
    """Write them as files."""
    place.mkdir(parents=True, exist_ok=True)
    for name, text in messages().items():
        (place / f"{name}.json").write_text(json.dumps(json.loads(text), indent=1) + "\n")


def _command(name: str, arguments: dict[str, object], epoch: str | None) -> str:
    return json.dumps({"memhint": 1, "command": name, "arguments": arguments, "epoch": epoch})


def _fails(_: object) -> dict[str, object]:
    raise ValueError("it went wrong")


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
