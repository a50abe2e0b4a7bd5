"""The logs of a peer, whatever its kind: their partitions, and the first and the last offset of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

import trio

from rstreams import Connection
from rstreams.errors import ConfigError, ConnectionLost, PeerClosed
from rstreams_spark._logs.bounds import key_of
from rstreams_spark._logs.offsets_at import SeenOffsets, offsets_at
from rstreams_spark._logs.passing_refusals import PassingRefusals
from rstreams_spark.errors import SourceFailed

V = TypeVar("V")

ANSWER_WAIT_S: Final = 30.0
"""How long a peer may take to answer a question, if the connection is not lost meanwhile."""


class NoAnswer(SourceFailed):
    """The peer has not answered a question."""


class Tail(NamedTuple):
    """A partition of a log at one moment.

    Attributes:
        log: The log.
        number: The number of the partition.
        address: The address of a link to it.
        first: The offset of the oldest message.
        end: The offset behind the newest message.
        mean_bytes: The mean size of a message, about; 0 if it is not known.
        incarnation: Tells the log from an earlier or a later one with its name; "" if the peer does not tell it.
    """

    log: str
    number: int
    address: str
    first: int
    end: int
    mean_bytes: int = 0
    incarnation: str = ""

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
        refused_s: How many seconds to ask again while the peer refuses for a moment.
    """

    offset_annotation = "x-stream-offset"
    refuses_lost = False
    has_replicas = False
    refused_s = 0.0

    def __init__(self, connection: Connection) -> None:
        """Ask nothing yet."""
        self._connection = connection

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

    async def is_anew(self, tail: Tail, known: str) -> bool:
        """Return whether this is another log than the one with the incarnation `known`."""
        return bool(tail.incarnation) and tail.incarnation != known

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
        seen = await self.while_refused(lambda: self.offsets_at(tail.address, at, 1))
        return tail.end if seen.first is None else max(seen.first, tail.first)

    async def offsets_at(self, address: str, start: str | int | datetime, most: int | None) -> SeenOffsets:
        """Return the offsets of `most` messages from a place on; with None those of all that are there.

        Errors: `NoAnswer` if the peer does not answer; `LinkDetached` if it refuses the link.
        """

        async def ask() -> SeenOffsets:
            return await offsets_at(self._connection, address, start, most, self.offset_annotation)

        return await self.answered(repr(address), ask)

    async def while_refused(self, ask: Callable[[], Awaitable[V]]) -> V:
        """Return what `ask` returns; call it again after a refusal that passes, a lost connection, and no answer.

        Errors: The last error, if it does not pass within `refused_s`.
        """
        refusals = PassingRefusals(self.refused_s)
        while True:
            try:
                return await ask()
            except PeerClosed as error:
                if not self.refuses_for_a_moment(error):
                    raise
                await refusals.wait(error)
            except (ConnectionLost, NoAnswer) as error:
                await refusals.wait(error)

    async def answered(self, about: str, ask: Callable[[], Awaitable[V]]) -> V:
        """Return what `ask` returns; call it again if the connection was lost before the answer.

        Args:
            about: What the question is about, for the message.
            ask: Asks the peer.

        Errors: `NoAnswer` if the peer does not answer.
        """
        while True:
            before = self._connection.status
            with trio.move_on_after(ANSWER_WAIT_S):
                return await ask()
            if before.state == "connected" and self._connection.status is before:
                msg = f"the peer did not answer about {about} within {ANSWER_WAIT_S:g} s"
                raise NoAnswer(msg)
