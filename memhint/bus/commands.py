"""Commands to one host: asked of one agent, answered by it within a deadline, and refused where it is another life."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from memhint.bus.envelope import JSON, LARGEST, VERSION, pack, unpack
from memhint.bus.errors import BusError, CommandTimeout, HostAway, Poison
from memhint.bus.link import LOST, LinkSettings, connect, user_of, within
from memhint.bus.topology import REPLY, command_queue

LOG = logging.getLogger(__name__)

_LEEWAY = 1.0  # seconds that the broker may need beside the agent

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class CommandStatus(StrEnum):
    """What became of a command."""

    DONE = "done"
    EPOCH = "epoch"  # it was meant for another life of this agent, and nothing was done
    UNKNOWN = "unknown"  # this agent has no such command
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's answer."""

    outcome: CommandStatus
    epoch: str
    detail: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


# Of an agent that answers more than once, the newest are kept: it harms its own question only.
_ANSWERS = {"x-max-length": 16, "x-max-length-bytes": 2 * LARGEST}


class _Waiter:
    """Waits for the answer to one question, from the host that was asked; all else that comes is dropped."""

    def __init__(self, number: str, host: str) -> None:
        self.number = number
        self.reply: tuple[bytes, str | None] | None = None
        self._host = host

    def on_message(self, channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        mine = (properties.correlation_id, properties.user_id) == (self.number, self._host)
        if mine and self.reply is None:
            self.reply = (body, properties.content_encoding)


def answer(body: bytes, encoding: str | None, epoch: str, handlers: Mapping[str, Handler]) -> bytes:
    """Carry a command out; the reply's text. A handler returns at once: it starts things, it does not wait for them."""
    try:
        asked = unpack(body, encoding)
        arguments = asked.get("arguments")
        if asked.get("epoch") not in (None, epoch):
            reply = Reply(CommandStatus.EPOCH, epoch, "the agent was restarted meanwhile")
        elif not isinstance(arguments, dict) or asked.get("command") not in handlers:
            reply = Reply(CommandStatus.UNKNOWN, epoch, f"no command {str(asked.get('command'))[:64]!r}")
        else:
            reply = Reply(CommandStatus.DONE, epoch, "", handlers[asked["command"]](arguments))
    except Exception as error:  # whatever a command does, the reports go on
        LOG.exception("a command failed")
        reply = Reply(CommandStatus.FAILED, epoch, f"{type(error).__name__}: {error}"[:300])
    plain = {
        "memhint": VERSION,
        "outcome": str(reply.outcome),
        "epoch": reply.epoch,
        "detail": reply.detail,
        "result": dict(reply.result),
    }
    return json.dumps(plain).encode()


class Commander:
    """Asks agents, one command after the other. Not for several threads."""

    def __init__(self, settings: LinkSettings) -> None:
        """:raises BusError: when the broker cannot be reached."""
        self._user = user_of(settings)
        self._answer = settings.answer
        self._connection = connect(settings)
        try:
            with within(self._connection, settings.timeout):
                self._channel = self._connection.channel()
                self._channel.confirm_delivery()
                self._channel.basic_qos(prefetch_count=1)  # of an answer that never ends, no more than one is here
        except LOST as error:
            with suppress(*LOST):
                self.close()
            raise _went_away(error) from error

    def ask(
        self,
        host: str,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        deadline: float,
        epoch: str | None = None,
    ) -> Reply:
        """Ask one host's agent and wait for its answer, ``deadline`` seconds at most; and a second for the broker.

        :param epoch: the life of the agent that is meant; None for whichever lives
        :raises HostAway: when no agent listens; nothing was done
        :raises CommandTimeout: when it does not answer; whether it was done is not known
        :raises BusError: when the broker fails
        """
        waiter = _Waiter(uuid.uuid4().hex, host)
        until = time.monotonic() + deadline
        try:
            with within(self._connection, deadline + _LEEWAY), self._queue(waiter) as queue:
                self._send(host, command, arguments, deadline, epoch, correlation_id=waiter.number, reply_to=queue)
                while waiter.reply is None and (left := until - time.monotonic()) > 0:
                    self._connection.process_data_events(left)
        except LOST as error:
            raise _went_away(error) from error
        if waiter.reply is None:
            raise CommandTimeout(f"{host} did not answer {command!r} within {deadline:g} s")
        return _reply(*waiter.reply)

    def tell(
        self,
        host: str,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        deadline: float,
        epoch: str | None = None,
    ) -> None:
        """Send a command and wait for no answer: what it does shows in the host's next report.

        :param deadline: seconds after which it shall not be begun any more
        :raises HostAway: when no agent listens
        :raises BusError: when the broker fails
        """
        with within(self._connection, self._answer):
            self._send(host, command, arguments, deadline, epoch)

    def rest(self) -> None:
        """Answer the broker's own questions, between two commands.

        :raises BusError: when the broker fails
        """
        try:
            self._connection.process_data_events(0)
        except LOST as error:
            raise _went_away(error) from error

    def _send(
        self,
        host: str,
        command: str,
        arguments: Mapping[str, Any] | None,
        deadline: float,
        epoch: str | None,
        **properties: str,
    ) -> None:
        body, encoding = pack(
            json.dumps({"memhint": VERSION, "command": command, "arguments": dict(arguments or {}), "epoch": epoch})
        )
        described = pika.BasicProperties(
            content_type=JSON,
            content_encoding=encoding,
            user_id=self._user,
            expiration=str(int(deadline * 1000)),  # an agent that comes back later does not find it
            **properties,
        )
        try:
            self._channel.basic_publish("", command_queue(host), body, described, mandatory=True)
        except UnroutableError as error:
            raise HostAway(f"no agent of {host} listens") from error
        except LOST as error:
            raise _went_away(error) from error

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection.is_open:
            self._connection.close()

    @contextmanager
    def _queue(self, waiter: _Waiter) -> Iterator[str]:
        """A queue for the answers to one question. Its name is of no use for the next one."""
        name = f"memhint.asking.{uuid.uuid4().hex}"
        self._channel.queue_declare(name, exclusive=True, auto_delete=True, arguments=_ANSWERS)
        self._channel.queue_bind(name, REPLY, name)
        consumer = self._channel.basic_consume(name, waiter.on_message)
        try:
            yield name
        finally:
            if self._channel.is_open:
                self._channel.basic_cancel(consumer)  # the queue goes with its only consumer


def _reply(body: bytes, encoding: str | None) -> Reply:
    try:
        read = unpack(body, encoding)
        result = read.get("result")
        if not isinstance(result, dict):
            raise Poison("it has no result")
        return Reply(CommandStatus(read["outcome"]), str(read["epoch"]), str(read.get("detail", "")), result)
    except (KeyError, ValueError, Poison) as error:
        raise BusError(f"the answer cannot be read: {error}") from error


def _went_away(error: BaseException) -> BusError:
    return BusError(f"the broker went away: {error!r}")
