"""The rows of a range of a log, in an executor.

Spark keeps its Python workers from task to task. Therefore connections and links live in this module and the one of the
connections: the next range of a partition goes on with the link that stands where it begins. A worker that Spark ends
takes its links with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
import trio
from pyspark.sql.datasource import InputPartition

from rstreams.errors import MADE_ANEW, Condition, PeerClosed, RStreamsError
from rstreams_spark._connections import SendingConnection, connection_for, user_of
from rstreams_spark._log import MESSAGES_GONE, MESSAGES_LEFT_OUT, say
from rstreams_spark._logs.jumps import Jump
from rstreams_spark._logs.link import LinkLost, LinkOptions, LinkPart, LogLink
from rstreams_spark._logs.logs import Logs, Tail
from rstreams_spark._logs.passing_refusals import PassingRefusals
from rstreams_spark._logs.rows import link_columns
from rstreams_spark._logs.tails import logs_of
from rstreams_spark._options import SourceOptions, hide_credentials
from rstreams_spark._peer import Peer
from rstreams_spark.errors import SourceFailed, UnparsableMessage

_KEPT_LINKS: Final = 64
"""The most links that a worker keeps for later ranges."""

BEHIND_WAIT_S: Final = 30.0
"""How long a replica may take to get messages that the driver has seen."""


@dataclass
class LogRange(InputPartition):
    """The messages that one task reads.

    Attributes:
        log: The log.
        number: The number of the partition.
        address: The address of a link to the partition; empty if the partition is gone, and the range has no rows.
        first: The offset of the first message.
        end: The offset behind the last message.
        mean_bytes: The mean size of a message, about; 0 if it is not known.
        peer: The peer, with the credentials that the executor needs.
        incarnation: Tells the log from another one with its name; "" if it is not known.
    """

    log: str
    number: int
    address: str
    first: int
    end: int
    mean_bytes: int
    peer: Peer
    incarnation: str = ""


_kept: WeakKeyDictionary[SendingConnection, list[LogLink]] = WeakKeyDictionary()


def read_range(options: SourceOptions, part: LogRange, names: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, in the order of their offsets, with a column `offset`.

    Args:
        options: The options of the source.
        part: The range.
        names: The columns that Spark wants; None: all of a queue.

    Errors: `SourceFailed` if the range cannot be read, or messages of it are gone; `UnparsableMessage`.
    """
    where = f"rstreams source, address {part.address!r} at {part.peer}"
    connected = replace(options, peer=part.peer)
    if not part.address:
        return
    user = user_of(part.address)
    connection: SendingConnection | None = None
    reader: _RangeReader | None = None
    try:
        connection = connection_for(connected, "source", user, max_message_bytes=None)
        reader = _RangeReader(connection, connected, part, where, names)
        while not reader.ended:
            yield from connection.run(reader.part)
    except (SourceFailed, UnparsableMessage) as error:
        raise type(error)(hide_credentials(f"{where}: {error}")) from None
    except RStreamsError as error:
        raise SourceFailed(hide_credentials(f"{where}: {type(error).__name__}: {error}")) from None
    finally:
        if connection is not None:
            if reader is not None:
                connection.run_soon(reader.leave)
            connection.release(user)


class _RangeReader:
    """Reads one range over a link, and over another one if that is lost.

    Context: The trio thread of the connection.
    """

    def __init__(
        self,
        connection: SendingConnection,
        options: SourceOptions,
        part: LogRange,
        where: str,
        names: tuple[str, ...] | None,
    ) -> None:
        logs = logs_of(connection.connection, options)
        if logs is None:
            msg = f"the peer has no logs any more: it is now {connection.connection.peer_properties.get('product')!r}"
            raise SourceFailed(msg)
        self._connection = connection
        self._logs: Logs = logs
        self._fails = options.log.fail_on_data_loss
        self._part = part
        self._where = where
        self._position = part.first
        self._link: LogLink | None = None
        self._drains = True
        self._end_is_there = False  # whether the peer of this link has told that the log has the end of the range
        self._refusals = PassingRefusals(options.max_reconnect_s if options.reconnect else 0.0)
        self._link_options = LinkOptions(
            link_columns(names), logs.offset_annotation, options.max_message_bytes, options.on_unparsable == "reject"
        )

    @property
    def ended(self) -> bool:
        return self._position >= self._part.end

    async def part(self) -> list[pa.RecordBatch]:
        """Return the next rows; none, and perhaps the end, if there are no messages where some could be."""
        link = self._attached()
        try:
            part = await self._some(link)
        except LinkLost:
            self._drop()
            return []
        except PeerClosed as error:
            self._drop()
            if self._logs.refuses_for_a_moment(error):
                await self._refusals.wait(error)
                return []
            gone = error.condition in (Condition.NOT_FOUND.value, MADE_ANEW)
            if not gone or not self._skips_lost(await self._logs.tail(self._tail)):
                raise
            return []
        self._refusals.renew()
        if part.jumps and not self._logs.refuses_lost:
            self._note_lost(part.jumps, await self._logs.tail(self._tail))
        self._position = max(self._position, link.position)
        if part.exhausted and not self.ended:
            await self._look_at_end()
        return part.batches

    async def _some(self, link: LogLink) -> LinkPart:
        if self._drains:
            return await link.read(self._part.end, drains=True)
        with trio.move_on_after(BEHIND_WAIT_S):
            return await link.read(self._part.end, drains=False)
        tail = await self._logs.tail(self._tail)
        msg = (
            f"offsets {self._position} to {self._part.end - 1} did not come within {BEHIND_WAIT_S:g} s; the log has "
            f"{_shown(tail)}"
        )
        raise SourceFailed(msg)

    async def _look_at_end(self) -> None:
        """Find out why no message has come: some are gone, there is none left in the range, or they come later.

        A replica of RabbitMQ may lag behind the one that the driver has asked. It may also have caught up since the
        drain. Therefore only a further drain tells that there is none left. So it is with any peer: a row that is left
        out is lost, and a drain more costs little.
        """
        tail = await self._logs.tail(self._tail)
        if self._skips_lost(tail):
            return
        if tail is None or tail.end < self._part.end:
            self._drains = False
        elif self._end_is_there:
            self._position = self._part.end
        else:
            self._end_is_there = True

    def _skips_lost(self, tail: Tail | None) -> bool:
        """Pass over messages that are gone; return whether there are some.

        Errors: `SourceFailed` with failOnDataLoss=true.
        """
        lost_until = self._part.end if tail is None or self._is_anew(tail) else min(tail.first, self._part.end)
        if lost_until <= self._position:
            return False
        self._tell_lost(self._position, lost_until, tail)
        self._position = lost_until
        self._drop()
        return True

    def _note_lost(self, jumps: list[Jump], tail: Tail | None) -> None:
        """Find out whether the peer has jumped over messages that are gone; it may have deleted them under the link.

        Errors: `SourceFailed` with failOnDataLoss=true.
        """
        for jump in jumps:
            if tail is None or jump.first < tail.first:
                self._tell_lost(jump.first, jump.end if tail is None else min(jump.end, tail.first), tail)

    def _tell_lost(self, first: int, end: int, tail: Tail | None) -> None:
        anew = "the log was made anew: " if tail is not None and self._is_anew(tail) else ""
        text = f"{anew}offsets {first} to {end - 1} are gone; the log has {_shown(tail)}"
        if self._fails:
            msg = f"{text}. With option failOnDataLoss=false the query goes on without them"
            raise SourceFailed(msg)
        say(MESSAGES_GONE, self._where, f"{text}. The query goes on without them (option failOnDataLoss=false)")

    def _is_anew(self, tail: Tail) -> bool:
        """Whether the log was deleted and made anew: it has another id, or ends before the range begins."""
        if not self._logs.refuses_lost:
            return False
        known = self._part.incarnation
        return tail.end < self._position or (bool(known and tail.incarnation) and tail.incarnation != known)

    @property
    def _incarnation(self) -> str:
        """The id of the log for a node, which compares it; the driver has compared it for other peers."""
        return self._part.incarnation if self._logs.refuses_lost else ""

    @property
    def _tail(self) -> Tail:
        return Tail(self._part.log, self._part.number, self._part.address, 0, 0)

    def _attached(self) -> LogLink:
        """Return the link: one that stands where the range begins, or a new one."""
        if self._link is None:
            kept = _kept.setdefault(self._connection, [])
            for link in kept:
                if self._goes_on(link):
                    kept.remove(link)
                    self._link = link
                    return link
            place = self._part.address, self._position
            self._link = LogLink(*place, self._link_options, self._part.mean_bytes, self._incarnation)
            self._link.attach(self._connection.connection)
        return self._link

    def _goes_on(self, link: LogLink) -> bool:
        return (
            link.is_idle
            and link.address == self._part.address
            and link.position == self._position
            and link.options == self._link_options
            and link.incarnation == self._incarnation
        )

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._drains = True
        self._end_is_there = False

    def leave(self) -> None:
        """Keep the link for the next range, if it stands at the end of this one."""
        link, self._link = self._link, None
        if link is None:
            return
        if link.skipped:
            what = f"{link.skipped} messages were left out (option onUnparsable=reject)"
            say(MESSAGES_LEFT_OUT, self._where, what)
            link.skipped = 0
        kept = _kept.setdefault(self._connection, [])
        if not link.is_idle:
            link.close()
            return
        kept.append(link)
        while len(kept) > _KEPT_LINKS or kept[0].is_lost:
            kept.pop(0).close()


def _shown(tail: Tail | None) -> str:
    if tail is None:
        return "no messages, because the partition is not there"
    return f"offsets {tail.first} to {tail.end - 1}" if tail.end > tail.first else f"none before {tail.end}"
