"""A link played by the test, and an intake that subscribes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from rstreams_spark._columns import COLUMNS, Column
from rstreams_spark._intake import BatchPart, RowIntake
from rstreams_spark._record_batches import RecordBatches

from rstreams.message import Message, encode_item
from rstreams.testing.probes import ManualPublisher

BROKEN = b"\x00\x53\x75\xa0"


class PlayedLink(ManualPublisher[bytes]):
    """A link played by the test, which answers a drain with `on_drain`."""

    def __init__(self) -> None:
        super().__init__()
        self.drains: list[Callable[[], None]] = []
        self.on_drain: Callable[[], None] = lambda: None

    def drain(self, on_drained: Callable[[], None]) -> None:
        self.drains.append(on_drained)
        self.on_drain()

    def send(self, *bodies: object) -> None:
        """Send messages; a list stands for bytes that are no message."""
        self.next(*(BROKEN if isinstance(body, list) else encode_item(Message(body=body)) for body in bodies))

    @property
    def unsettled(self) -> int:
        return self.outcomes.count(None)


class Queue:
    """A queue behind a played link: a drain sends what it has, as far as there is credit."""

    def __init__(self, link: PlayedLink, *messages: object) -> None:
        self.messages = list(messages)
        self.link = link
        link.on_drain = self.drained

    def drained(self) -> None:
        while self.messages and self.link.outstanding:
            self.link.send(self.messages.pop(0))
        self.link.drains.pop()()


def linked(
    limit: int,
    *,
    reject: bool = False,
    most_rows: int = 10_000,
    enough: int | None = None,
    most_bytes: int | None = None,
    columns: tuple[Column, ...] = COLUMNS,
) -> tuple[PlayedLink, RowIntake]:
    link = PlayedLink()
    intake = RowIntake(
        limit,
        RecordBatches("a", columns),
        largest=100,
        reject_unparsable=reject,
        most_rows=most_rows,
        enough=enough,
        most_bytes=most_bytes,
    )
    link.subscribe(intake)
    return link, intake


def numbered(first: int, last: int) -> list[bytes]:
    return [encode_item(Message(body=b"%d" % n, id=f"m-{n}")) for n in range(first, last)]


def bodies(part: BatchPart) -> list[Any]:
    return [body for batch in part.record_batches for body in batch.column("body").to_pylist()]


async def collect(intake: RowIntake, committed: int, most: int, delay_s: float, *, goes_on: bool = False) -> list[Any]:
    """Return the bodies of the next part."""
    return bodies(await intake.collect(committed, most, delay_s, goes_on=goes_on))


async def collect_queued(
    intake: RowIntake, committed: int, most: int, delay_s: float, *, goes_on: bool = False
) -> list[Any]:
    """Return the bodies of the next part of the queued messages."""
    return bodies(await intake.collect_queued(committed, most, delay_s, goes_on=goes_on))


def record_batch_of(
    messages: Iterable[Message], address: str = "a", columns: tuple[Column, ...] = COLUMNS
) -> pa.RecordBatch:
    """Return the rows of messages."""
    rows = RecordBatches(address, columns)
    encoded = map(encode_item, messages)
    while (rare := rows.add(encoded, 2**31, 2**31, 2**31)) is not None:
        rows.add_rare(rare)
    return rows.take()
