"""A message of a log tells where and when it was appended, however it is read, and as often as it is read."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rstreams
from rstreams import Connection, Message, Node, Stream
from rstreams.message import Symbol, ULong, decode_message, encode_item
from rstreams.net.links.offsets import APPENDED_AT, PARTITION, Appended, read_offset, with_offset
from rstreams.node.log import LogAddress
from rstreams.store.entries import join

OFFSET = "x-stream-offset"
STALE = datetime(2001, 1, 1, tzinfo=UTC)

MESSAGES = [
    Message(b"body"),
    Message("a value"),
    Message(b"header", priority=9, ttl_s=60.0),
    Message(b"annotations", annotations={"x-opt-a": 1}),
    Message(b"properties", id="m-1", subject="s"),
    Message(b"stale", annotations={OFFSET: ULong(99), PARTITION: 99, APPENDED_AT: STALE, "x-opt-a": 1}),
]
"""Messages of each form in which a log gets them; the last one has been in another log."""


@asynccontextmanager
async def logged(store: Path | None, partitions: int) -> AsyncIterator[tuple[LogAddress, Connection]]:
    async with Node(store=store) as node:
        log = node.log("events", partitions=partitions, retention_items=10_000)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            yield log, connection


async def ways_to_read(log: LogAddress, connection: Connection, name: str) -> dict[str, list[Message]]:
    """Return all messages as readers and members get them; from what is in memory first, and then as they are kept."""
    found: dict[str, list[Message]] = {}
    for where in ("at hand", "kept"):
        if where == "kept":
            for part in log.partitions:
                part.remove(())  # nothing is at hand any more
        found[f"{name}, a group, {where}"] = await connection.messages(
            "events", group=f"{name}, {where}", to_end=True
        ).to_list()
        alone = found[f"{name}, readers, {where}"] = []
        for number, part in enumerate(log.partitions):
            came = await connection.messages(part.name, start="first", to_end=True).to_list()
            assert [each.annotations[PARTITION] for each in came] == [number] * len(came)
            assert [each.annotations[OFFSET] for each in came] == list(range(len(came)))
            alone += came
    return found


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kept", ["in memory", "in a store"])
async def test_all_who_read_a_message_are_told_the_same(tmp_path: Path, kept: str, partitions: int) -> None:
    store = tmp_path / "store" if kept == "in a store" else None
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    async with logged(store, partitions) as (log, connection):
        live: list[Message] = []
        readers = [connection.messages(part.name, start="next") for part in log.partitions]
        async with Stream.merge(*readers).open() as messages:
            for each in MESSAGES:  # each is a run by itself
                await connection.publish("events", Stream.of(each))
                live.append(await anext(messages))
        found = {"live": live} | await ways_to_read(log, connection, "at once")
    if store is not None:
        async with logged(store, partitions) as (log, connection):
            found |= await ways_to_read(log, connection, "after a restart")
    after = datetime.now(UTC)
    told = {way: {each.body: each for each in came} for way, came in found.items()}
    expected = told["live"]
    assert {way: came for way, came in told.items() if came != expected} == {}
    for sent in MESSAGES:
        got = expected[sent.body]
        own = {OFFSET, PARTITION, APPENDED_AT}
        assert own <= got.annotations.keys()
        assert replace(got, annotations={}) == replace(sent, annotations={})
        assert {name: got.annotations[name] for name in got.annotations.keys() - own} == {
            name: value for name, value in sent.annotations.items() if name not in own
        }
        assert before <= got.annotations[APPENDED_AT] <= after
    places = sorted((each.annotations[PARTITION], each.annotations[OFFSET]) for each in expected.values())
    assert places == sorted(divmod(at, len(MESSAGES) // partitions) for at in range(len(MESSAGES)))


@pytest.mark.parametrize("kept", ["in memory", "in a store"])
async def test_a_time_never_goes_back_and_is_a_place_to_begin_at(
    tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store" if kept == "in a store" else None
    days = iter([1_900_000_000.5, 1_800_000_000.123, 1_900_000_007.001, 1_850_000_000.0])
    times: list[Any] = []
    for _ in range(2 if store else 1):  # the store is opened again in between
        async with logged(store, 1) as (_, connection):
            for _ in range(2):
                day = next(days)
                with monkeypatch.context() as patched:
                    patched.setattr("rstreams._machine.calendar", lambda: day)  # noqa: B023
                    await connection.publish("events", Stream.of(*range(3)))
            came = await connection.messages("events", start="first", to_end=True).to_list()
            assert [each.annotations[APPENDED_AT] for each in came][: len(times)] == times
            times = [each.annotations[APPENDED_AT] for each in came]
            assert times == sorted(times)
            for at in set(times):
                again = await connection.messages("events", start=at, to_end=True).to_list()
                assert again[0].annotations[OFFSET] == times.index(at), "the first of those that came together"
    assert times[0] == datetime.fromtimestamp(1_900_000_000.5, UTC)
    assert len(set(times)) == (2 if store else 1)


# the bytes


def others() -> Iterator[Message]:
    """Messages that look nearly as those of a log."""
    yield Message(b"other", annotations={PARTITION: 1, APPENDED_AT: STALE, "x-stream-offsex": ULong(7)})
    yield Message(b"other", annotations={PARTITION: 1, "x-opt-enqueued-tima": STALE, OFFSET: ULong(7)})
    yield Message(b"other", annotations={"x-opt-partition-ix": 1, APPENDED_AT: STALE, OFFSET: ULong(7)})
    yield Message(b"other", annotations={PARTITION: 1, APPENDED_AT: STALE, OFFSET: ULong(7), "more": 1})
    yield Message(b"other", annotations={OFFSET: ULong(7), APPENDED_AT: STALE, PARTITION: 1})
    yield Message(b"other", annotations={OFFSET: "seven"})


@pytest.mark.parametrize("offset", [0, 255, 2**40])
def test_messages_of_a_run_are_noted_as_each_of_them_alone(offset: int) -> None:
    appended = Appended(4095, int(time.time() * 1000))
    encoded = [encode_item(each) for each in (*MESSAGES, *others())]
    offsets = range(offset, offset + len(encoded))
    noted = appended.noted(encoded, offsets)
    assert noted == [appended.noted([each], [at])[0] for each, at in zip(encoded, offsets, strict=True)]
    plain = [each for each in encoded if each[2] > 0x72]
    assert appended.cut(join(plain), len(plain), offset) == appended.noted(plain, range(offset, offset + len(plain)))
    assert appended.cut(join(encoded), len(encoded), offset) is None, "one of them begins with a header"
    for item, at in zip(noted, offsets, strict=True):
        notes = decode_message(item).annotations
        assert read_offset(item) == notes[OFFSET] == at
        assert (notes[PARTITION], notes[APPENDED_AT].timestamp() * 1000) == (4095, appended.time_ms)
        assert read_offset(with_offset(item, 3)) == 3


def test_the_offset_is_read_where_it_is_and_nowhere_else() -> None:
    for each in others():
        told = each.annotations.get(Symbol(OFFSET), each.annotations.get(OFFSET))
        assert read_offset(encode_item(each)) == (told if isinstance(told, int) else None), each.annotations
    for whole in (Appended(0, 0).noted([encode_item(b"x")], [5])[0], with_offset(encode_item(b"x"), 5)):
        end = len(whole) - len(encode_item(b"x"))
        for size in range(end):
            assert read_offset(whole[:size]) is None, "it is cut off"
        assert read_offset(whole[:end]) == 5
