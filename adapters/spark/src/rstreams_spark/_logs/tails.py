"""The logs of a node and of RabbitMQ 4.

A node tells it all in its statistics. RabbitMQ tells a queue's type; the ends of a stream are read from two short
links, of which the one at the end gets the last chunk of the stream.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import trio

from rstreams import Connection
from rstreams.errors import Condition, LinkDetached, PeerClosed, RStreamsError
from rstreams.net.rabbitmq_management import ManagementRefused, RabbitMQManagement, rabbitmq_management
from rstreams_spark._logs.event_hubs import EventHubLogs
from rstreams_spark._logs.logs import Logs, Tail
from rstreams_spark._options import SourceOptions
from rstreams_spark.errors import SourceFailed

V = TypeVar("V")

STATISTICS: Final = "$statistics"
_QUEUES: Final = "/queues/"
_NOT_FOUND: Final = 404
_AT: Final = ":"


class NodeLogs(Logs):
    """The logs of a node of rstreams, by its statistics."""

    refuses_lost = True
    _KINDS: Final = {"queues": "queue", "multicasts": "multicast", "served": "served stream"}

    async def kind_of(self, address: str) -> str | None:
        """Return what is at an address; None if the statistics may not be read."""
        try:
            statistics = await self._statistics()
        except LinkDetached:
            return None
        if _parts(statistics["logs"], address):
            return "log"
        found = (kind for table, kind in self._KINDS.items() if address in statistics.get(table, {}))
        return next(found, None)

    async def matching(self, pattern: str) -> list[str]:
        """Return the names of the logs whose whole name matches."""
        return sorted(name for name in (await self._statistics())["logs"] if re.fullmatch(pattern, name))

    async def has_lost(self, tail: Tail, at: int) -> bool:
        """Return whether messages are gone: a link to a compacted log may begin before its first message."""
        try:
            await self.offsets_at(tail.address, at, 1)
        except LinkDetached as error:
            if error.condition == Condition.NOT_FOUND.value:
                return True
            raise
        return False

    async def tails(self, names: Sequence[str]) -> list[Tail]:
        """Return the partitions of logs."""
        logs = (await self._statistics())["logs"]
        made = []
        for name in names:
            for number, (address, part) in enumerate(_parts(logs, name)):
                mean = part["bytes"] // part["messages"] if part["messages"] else 0
                incarnation = str(part.get("incarnation", ""))
                made.append(Tail(name, number, address, part["first"], part["next"], mean, incarnation))
        return made

    async def _statistics(self) -> Mapping[str, Any]:
        statistics = await self.answered(STATISTICS, self._connection.stream(STATISTICS).first_or_none)
        if not isinstance(statistics, Mapping):
            msg = "the node did not tell its statistics"
            raise SourceFailed(msg)
        return statistics


def _parts(logs: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the address and the statistics of each partition of a log, or of the one partition that has this name."""
    if name in logs:
        parts = logs[name]["partitions"]
        return [(name if len(parts) == 1 else f"{name}-{number}", part) for number, part in enumerate(parts)]
    log = name.rpartition("-")[0]
    return [(address, part) for address, part in _parts(logs, log) if address == name] if log in logs else []


class RabbitMQStreams(Logs):
    """The streams of RabbitMQ 4, and its super streams, whose partitions are `name-0`, `name-1` and so on.

    RabbitMQ tells no id of a stream. The first message takes its place: its offset, and a digest of it.
    """

    has_replicas = True

    def __init__(self, connection: Connection) -> None:
        """Ask nothing yet."""
        super().__init__(connection)
        self._partitions: dict[str, list[str]] = {}

    def refuses_for_a_moment(self, refusal: PeerClosed) -> bool:
        """Return whether the broker has no copy of the stream that runs, or fails at its copy.

        Both pass when the stream has a leader again.
        """
        return refusal.condition in (Condition.PRECONDITION_FAILED.value, Condition.INTERNAL_ERROR.value)

    async def kind_of(self, address: str) -> str | None:
        """Return "log" for a stream or a super stream, "queue" for another queue."""

        async def ask(management: RabbitMQManagement) -> str | None:
            kind = await self._type(management, address)
            if kind is None and await self._type(management, f"{address}-0") == "stream":
                kind = "stream"
            return kind

        try:
            kind = await self.while_refused(lambda: self._managed(ask))
        except ManagementRefused:
            return None
        return {"stream": "log", None: None}.get(kind, "queue")

    async def tails(self, names: Sequence[str]) -> list[Tail]:
        """Return the partitions of logs, each asked for at the same time."""
        return await self.while_refused(lambda: self._tails(names))

    async def tail(self, asked: Tail) -> Tail | None:
        """Return one partition as it is now; None if it is not there."""
        return await self.while_refused(lambda: self._ends(asked.log, asked.number, asked.address))

    async def _tails(self, names: Sequence[str]) -> list[Tail]:
        asked = [(name, number, each) for name in names for number, each in enumerate(await self._parts(name))]
        made: dict[tuple[str, int], Tail | None] = {}
        errors: list[RStreamsError] = []

        async def ask(name: str, number: int, address: str) -> None:
            try:
                made[name, number] = await self._ends(name, number, address)
            except RStreamsError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for each in asked:
                nursery.start_soon(ask, *each)
        if errors:
            raise errors[0]
        tails = (made[name, number] for name, number, _ in asked)
        return [tail for tail in tails if tail is not None]

    async def _ends(self, name: str, number: int, address: str) -> Tail | None:
        try:
            first = await self.offsets_at(address, "first", 1)
            last = await self.offsets_at(address, "last", None)
        except PeerClosed as error:
            if error.condition == Condition.NOT_FOUND.value:
                return None
            raise
        if first.first is None or last.last is None:
            return Tail(name, number, address, 0, 0)
        mean = last.bytes // max(1, last.messages)
        incarnation = f"{first.first}{_AT}{first.digest}" if first.digest else ""
        return Tail(name, number, address, first.first, last.last + 1, mean, incarnation)

    async def is_anew(self, tail: Tail, known: str) -> bool:
        """Return whether another message is where the first one was, when `known` was noted.

        Retention may have deleted the first one. Then the streams cannot be told apart.
        """
        offset = known.partition(_AT)[0]
        if not tail.incarnation or tail.incarnation == known or not offset.isdecimal():
            return False
        if not tail.first <= int(offset) < tail.end:
            return False
        seen = await self.while_refused(lambda: self.offsets_at(tail.address, int(offset), 1))
        return seen.first == int(offset) and f"{offset}{_AT}{seen.digest}" != known

    async def _parts(self, name: str) -> list[str]:
        """Return the streams of a stream or a super stream; those of a super stream may become more."""
        known = self._partitions.setdefault(name, [])
        if known == [name]:
            return known

        async def ask(management: RabbitMQManagement) -> None:
            if not known and await self._type(management, name) == "stream":
                known.append(name)
                return
            while await self._type(management, f"{name}-{len(known)}") == "stream":
                known.append(f"{name}-{len(known)}")

        await self._managed(ask)
        return known

    async def _managed(self, ask: Callable[[RabbitMQManagement], Awaitable[V]]) -> V:
        async def answer() -> V:
            async with rabbitmq_management(self._connection) as management:
                return await ask(management)

        return await self.answered("its queues", answer)

    async def _type(self, management: RabbitMQManagement, name: str) -> str | None:
        """Return the type of a queue; None if it is not there.

        Errors: `ManagementRefused` if the broker does not tell.
        """
        place = self._connection.dialect.source(name).address
        if not place.startswith(_QUEUES):
            return None
        try:
            queue = await management.queue(unquote(place.removeprefix(_QUEUES)))
        except ManagementRefused as refusal:
            if refusal.status == _NOT_FOUND:
                return None
            raise
        return str(queue.get("type"))


def logs_of(connection: Connection, options: SourceOptions) -> Logs | None:
    """Return the logs of a peer; None if it is of a kind that has none."""
    logs = _logs_of(connection, options.log.consumer_group)
    if logs is not None and options.reconnect:
        logs.refused_s = options.max_reconnect_s
    return logs


def _logs_of(connection: Connection, consumer_group: str) -> Logs | None:
    if connection.dialect.name == "eventhubs":
        return EventHubLogs(connection, consumer_group)
    if connection.peer_properties.get("product") == "rstreams":
        return NodeLogs(connection)
    if connection.dialect.name == "rabbitmq4":
        return RabbitMQStreams(connection)
    return None
