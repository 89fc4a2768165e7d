"""The names on the broker, and what they mean there. Controllers make them; agents only write and keep one queue.

agents ──► memhint.report ──┬─► memhint.state    newest only: expires, and the oldest goes where there are too many
                            └─► memhint.record   kept: refused where there are too many, and stays with the agent
refused by a controller ────► memhint.dead ──────► memhint.dead
commands ──► memhint.command.HOST        answers ──► memhint.reply ──► the asking process's own queue
"""

from __future__ import annotations

from typing import Any

from pika.adapters.blocking_connection import BlockingChannel

from memhint.bus.envelope import MessageKind

REPORT = "memhint.report"
STATE = "memhint.state"
RECORD = "memhint.record"
DEAD = "memhint.dead"
REPLY = "memhint.reply"

_TRIES = 20  # deliveries of one message, before it counts as one that ends controllers
_MOST_STATES = 200_000
_MOST_RECORD_BYTES = 2**30
_MOST_DEAD = 10_000
_DEAD_MS = 7 * 86_400_000


def command_queue(host: str) -> str:
    """The queue of one host's agent."""
    return f"memhint.command.{host}"


def declare(channel: BlockingChannel) -> None:
    """Make what is not there yet. Fails where something of that name is there and is of another kind."""
    channel.exchange_declare(REPORT, "direct", durable=True)
    channel.exchange_declare(REPLY, "direct", durable=True)
    # A state that expired, or made room for a newer one, is no loss: only what was refused, or was delivered again and
    # again, is kept. The broker tells the two apart by a header of its own.
    channel.exchange_declare(DEAD, "headers", durable=True)
    channel.queue_declare(
        STATE, durable=True, arguments={**_quorum(), "x-max-length": _MOST_STATES, "x-overflow": "drop-head"}
    )
    channel.queue_declare(
        RECORD,
        durable=True,
        arguments={**_quorum(), "x-max-length-bytes": _MOST_RECORD_BYTES, "x-overflow": "reject-publish"},
    )
    channel.queue_declare(
        DEAD,
        durable=True,
        arguments={"x-queue-type": "quorum", "x-max-length": _MOST_DEAD, "x-message-ttl": _DEAD_MS},
    )
    channel.queue_bind(STATE, REPORT, str(MessageKind.STATE))
    channel.queue_bind(RECORD, REPORT, str(MessageKind.RECORD))
    for reason in ("rejected", "delivery_limit"):
        channel.queue_bind(DEAD, DEAD, arguments={"x-match": "all-with-x", "x-first-death-reason": reason})


def _quorum() -> dict[str, Any]:
    return {"x-queue-type": "quorum", "x-delivery-limit": _TRIES, "x-dead-letter-exchange": DEAD}
