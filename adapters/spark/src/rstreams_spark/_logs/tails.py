"""The logs of a peer: their partitions, and the first and the last offset of each.

A node tells it all in its statistics. RabbitMQ tells a queue's type; the ends of a stream are read from two short
links, of which the one at the end gets the last chunk of the stream.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import trio

from rstreams import Connection
from rstreams.errors import Condition, ConfigError, LinkDetached, PeerClosed, RStreamsError
from rstreams.net.rabbitmq_management import ManagementRefused, rabbitmq_management
from rstreams_spark._logs.bounds import key_of
from rstreams_spark._logs.glance import Seen, glance
from rstreams_spark._logs.patience import Patience
from rstreams_spark._options import SourceOptions
from rstreams_spark.errors import SourceFailed

STATISTICS: Final = "$statistics"
_ANSWER_WAIT_S: Final = 30.0
_QUEUES: Final = "/queues/"


class Tail(NamedTuple):
    """A partition of a log at one moment.

    Attributes:
        log: The log.
        number: The number of the partition.
        address: The address of a link to it.
        first: The offset of the oldest message.
        end: The offset behind the newest message.
        mean_bytes: The mean size of a message, about; 0 if it is not known.
    """

    log: str
    number: int
    address: str
    first: int
    end: int
    mean_bytes: int = 0

    @property
    def key(self) -> str:
        """The key of the partition in the offsets of a query."""
        return key_of(self.log, self.number)


class Logs(ABC):
    """The logs of a peer, over one connection.

    Context: The trio thread of the connection.

    Attributes:
        offset_annotation: The annotation of a message that has its offset.
        refuses_lost: Whether the peer refuses a link that begins at a message that is gone, instead of beginning later.
        has_replicas: Whether the messages that one link can get may be fewer than the log has, for a moment.
    """

    offset_annotation = "x-stream-offset"
    refuses_lost = False
    has_replicas = False

    def __init__(self, connection: Connection, patience_s: float = 0.0) -> None:
        """Ask nothing yet.

        Args:
            connection: The connection to the peer.
            patience_s: How many seconds to ask again while the peer refuses for a moment.
        """
        self._connection = connection
        self._patience_s = patience_s

    def refuses_for_a_moment(self, _refusal: PeerClosed) -> bool:
        """Return whether a refusal passes by itself."""
        return False

    @abstractmethod
    async def kind_of(self, address: str) -> str | None:
        """Return what is at an address: "log", another kind, or None if the peer does not tell or has none."""

    @abstractmethod
    async def tails(self, names: Sequence[str]) -> list[Tail]:
        """Return the partitions of logs; none for a log that is not there."""

    async def tail(self, asked: Tail) -> Tail | None:
        """Return one partition as it is now; None if it is not there."""
        return next((each for each in await self.tails([asked.log]) if each.number == asked.number), None)

    async def has_lost(self, tail: Tail, at: int) -> bool:
        """Return whether messages from the offset `at` on are gone, which is before the first one."""
        return at < tail.first

    async def matching(self, pattern: str) -> list[str]:
        """Return the names of the logs whose whole name matches.

        Errors: `ConfigError` if the peer does not list its logs.
        """
        msg = f"option addressPattern={pattern!r}: this peer does not list its logs; name them in option addresses"
        raise ConfigError(msg)

    async def offset_at(self, tail: Tail, at: datetime) -> int:
        """Return the offset of the first message at a time or later; the end if there is none."""
        seen = await self._glance(tail.address, at, 1)
        return tail.end if seen.first is None else max(seen.first, tail.first)

    async def _glance(self, address: str, start: str | int | datetime, most: int | None) -> Seen:
        patience = Patience(self._patience_s)
        while True:
            try:
                return await self._glance_once(address, start, most)
            except PeerClosed as refusal:
                if not self.refuses_for_a_moment(refusal):
                    raise
                await patience.wait(refusal)

    async def _glance_once(self, address: str, start: Any, most: int | None) -> Seen:  # noqa: ANN401 - an `Offset`
        with trio.move_on_after(_ANSWER_WAIT_S):
            return await glance(self._connection, address, start, most, self.offset_annotation)
        msg = f"the peer did not answer about {address!r} within {_ANSWER_WAIT_S:g} s"
        raise SourceFailed(msg)


class NodeLogs(Logs):
    """The logs of a node of rstreams, by its statistics."""

    refuses_lost = True
    _KINDS: Final = {"queues": "queue", "multicasts": "multicast", "served": "served stream", "logs": "log"}

    async def kind_of(self, address: str) -> str | None:
        """Return what is at an address; None if the statistics may not be read."""
        try:
            statistics = await self._statistics()
        except LinkDetached:
            return None
        found = (kind for table, kind in self._KINDS.items() if address in statistics.get(table, {}))
        return next(found, None)

    async def matching(self, pattern: str) -> list[str]:
        """Return the names of the logs whose whole name matches."""
        return sorted(name for name in (await self._statistics())["logs"] if re.fullmatch(pattern, name))

    async def has_lost(self, tail: Tail, at: int) -> bool:
        """Return whether messages are gone: a link to a compacted log may begin before its first message."""
        try:
            await self._glance(tail.address, at, 1)
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
            parts: Sequence[Mapping[str, int]] = logs[name]["partitions"] if name in logs else ()
            for number, part in enumerate(parts):
                address = name if len(parts) == 1 else f"{name}-{number}"
                mean = part["bytes"] // part["messages"] if part["messages"] else 0
                made.append(Tail(name, number, address, part["first"], part["next"], mean))
        return made

    async def _statistics(self) -> Mapping[str, Any]:
        with trio.move_on_after(_ANSWER_WAIT_S):
            statistics = await self._connection.stream(STATISTICS).first_or_none()
            if isinstance(statistics, Mapping):
                return statistics
        msg = f"the node did not tell its statistics within {_ANSWER_WAIT_S:g} s"
        raise SourceFailed(msg)


class RabbitMQStreams(Logs):
    """The streams of RabbitMQ 4, and its super streams, whose partitions are `name-0`, `name-1` and so on."""

    has_replicas = True

    def __init__(self, connection: Connection, patience_s: float = 0.0) -> None:
        """Ask nothing yet."""
        super().__init__(connection, patience_s)
        self._partitions: dict[str, list[str]] = {}
        self._firsts: dict[str, int] = {}

    def refuses_for_a_moment(self, refusal: PeerClosed) -> bool:
        """Return whether the broker has no copy of the stream that runs: it has one again when a leader is chosen."""
        return refusal.condition == Condition.PRECONDITION_FAILED.value

    async def kind_of(self, address: str) -> str | None:
        """Return "log" for a stream or a super stream, "queue" for another queue."""
        async with rabbitmq_management(self._connection) as management:
            kind = await self._type(management, address)
            if kind is None and await self._type(management, f"{address}-0") == "stream":
                kind = "stream"
        return {"stream": "log", None: None}.get(kind, "queue")

    async def tails(self, names: Sequence[str]) -> list[Tail]:
        """Return the partitions of logs, each asked for at the same time."""
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
            first = await self._glance(address, "first", 1)
            last = await self._glance(address, "last", None)
        except LinkDetached as error:
            if error.condition == Condition.NOT_FOUND.value:
                return None
            raise
        if first.first is None or last.last is None:
            return Tail(name, number, address, 0, 0)
        return Tail(name, number, address, first.first, last.last + 1, last.bytes // max(1, last.messages))

    async def _parts(self, name: str) -> list[str]:
        """Return the streams of a stream or a super stream; those of a super stream may become more."""
        async with rabbitmq_management(self._connection) as management:
            known = self._partitions.setdefault(name, [])
            if known == [name] or (not known and await self._type(management, name) == "stream"):
                self._partitions[name] = [name]
                return [name]
            while await self._type(management, f"{name}-{len(known)}") == "stream":
                known.append(f"{name}-{len(known)}")
            return known

    async def _type(self, management: Any, name: str) -> str | None:  # noqa: ANN401 - of `rabbitmq_management`
        place = self._connection.dialect.source(name).address
        if not place.startswith(_QUEUES):
            return None
        try:
            queue = await management.queue(unquote(place.removeprefix(_QUEUES)))
        except ManagementRefused:
            return None
        return str(queue.get("type"))


def logs_of(connection: Connection, options: SourceOptions) -> Logs | None:
    """Return the logs of a peer; None if it is of a kind that has none."""
    patience_s = options.max_reconnect_s if options.reconnect else 0.0
    if connection.peer_properties.get("product") == "rstreams":
        return NodeLogs(connection, patience_s)
    if connection.dialect.name == "rabbitmq4":
        return RabbitMQStreams(connection, patience_s)
    return None
