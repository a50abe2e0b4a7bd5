"""Served streams with positions: a subscriber goes on behind its last item, also at a node that was started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Message, Node, Reconnect, Stream
from rstreams._codec import Described, Symbol
from rstreams.errors import Condition, ConfigError, LinkDetached, ProtocolError
from rstreams.message import decode_message
from rstreams.testing import FaultyNetwork, ManualPublisher, ProbeSubscriber
from tests.net.foreign import foreign
from tests.net.over_tcp import until

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)
PATIENT = Reconnect(first_delay_s=0.02, max_delay_s=0.02)
ITEMS = 200
START = "rabbitmq:stream-offset-spec"


class Numbers:
    """Makes the stream of the numbers from a position on, and notes the positions."""

    def __init__(self, items: int = ITEMS) -> None:
        self.asked: list[int] = []
        self._items = items

    def __call__(self, position: int) -> Stream[int]:
        self.asked.append(position)
        return Stream.range(position, self._items)


@asynccontextmanager
async def serving(make: Callable[[int], Any], **options: Any) -> AsyncIterator[tuple[Node, FaultyNetwork]]:  # noqa: ANN401
    async with Node() as node:
        node.serve("numbers", from_offset=make, **options)
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network:
            yield node, network


async def test_a_link_begins_at_its_position_and_items_carry_theirs() -> None:
    numbers = Numbers()
    async with serving(numbers) as (node, network), rstreams.connect(network.url) as connection:
        starts: list[tuple[Any, int]] = [(None, 0), ("first", 0), (0, 0), (150, 150), (ITEMS, ITEMS)]
        for start, first in starts:
            messages = await connection.messages("numbers", start=start).to_list()
            assert [each.body for each in messages] == list(range(first, ITEMS))
            assert [each.annotations["x-stream-offset"] for each in messages] == list(range(first, ITEMS))
        assert numbers.asked == [0, 0, 0, 150, ITEMS]
        now = node.statistics().served["numbers"]
        assert (now.subscriptions, now.completed, now.delivered) == (5, 5, 3 * ITEMS + 50)


@pytest.mark.slow
@pytest.mark.parametrize("keep_s", [0, 30])
@pytest.mark.parametrize("window", [1, 7, 64])
@pytest.mark.parametrize("performative", ["attach", "flow", "transfer", "disposition", "detach"])
@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once", "effectively_once"])
async def test_a_stream_that_is_cut_comes_once_and_whole(
    settlement: Any,  # noqa: ANN401
    performative: Any,  # noqa: ANN401
    window: int,
    keep_s: float,
) -> None:
    numbers = Numbers(60)
    for place in ("before", "inside", "after"):
        async with (
            serving(numbers, keep_s=keep_s) as (_, network),
            rstreams.connect(network.url, reconnect=AT_ONCE) as connection,
        ):
            network.when(performative, at=place, times=3).reset()
            items = connection.stream("numbers", start="first", settlement=settlement, window=window)
            assert await items.to_list() == list(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("keep_s", [0, 30])
async def test_items_that_had_come_and_were_not_handed_over_come_once(keep_s: float) -> None:
    async with (
        serving(Numbers(), keep_s=keep_s) as (_, network),
        rstreams.connect(network.url, reconnect=AT_ONCE) as connection,
    ):
        probe = ProbeSubscriber[int](3)
        connection.stream("numbers", start=0, window=50).subscribe(probe)
        for expected in range(3, 60, 3):
            await until(lambda: len(probe.items) == expected)  # noqa: B023
            network.reset()
            await until(lambda: connection.status.state == "connected")
            probe.request(3)
        await until(lambda: len(probe.items) == 60)
        assert probe.items == list(range(60))


@pytest.mark.parametrize("settlement", ["at_least_once", "effectively_once"])
async def test_it_goes_on_at_a_node_that_was_started_again(settlement: Any) -> None:  # noqa: ANN401
    got: list[int] = []
    numbers = Numbers()
    place = "127.0.0.1:0"

    async def receive(url: str) -> None:
        async with rstreams.connect(url, reconnect=PATIENT) as connection:
            await connection.stream("numbers", start="first", settlement=settlement, window=5).for_each(got.append)

    def gated(position: int) -> Stream[int]:
        return numbers(position).take(40).concat(Stream.never()) if position < 120 else numbers(position)

    async with trio.open_nursery() as nursery:
        for count in (40, 80, 120, ITEMS):
            async with Node() as node:
                node.serve("numbers", from_offset=gated, keep_s=30)
                listener = await node.listen(place)
                if place.endswith(":0"):
                    place = listener.url.removeprefix("amqp://")
                    nursery.start_soon(receive, listener.url)
                await until(lambda: len(got) == count)  # noqa: B023
    assert got == list(range(ITEMS))
    assert numbers.asked == [0, 40, 80, 120]


_PROGRAM = """
import sys, trio, rstreams
from rstreams import Stream

async def main():
    async with rstreams.Node() as node:
        node.serve("numbers", from_offset=lambda position: Stream.range(position, 3000), keep_s=30)
        listener = await node.listen("127.0.0.1:" + sys.argv[1])
        print(listener.url, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [(500,), (500, 1500)])
async def test_a_process_that_is_killed_in_the_middle(kills: tuple[int, ...]) -> None:
    """Each item comes once and in order, although the node is killed without a warning."""
    got: list[int] = []
    url, port = "", "0"
    async with trio.open_nursery() as nursery:
        for killed_at in (*kills, None):
            process = await trio.lowlevel.open_process([sys.executable, "-c", _PROGRAM, port], stdout=subprocess.PIPE)
            try:
                assert process.stdout is not None
                url = (await process.stdout.receive_some()).decode().strip()
                if port == "0":
                    port = url.rpartition(":")[2]
                    nursery.start_soon(_receive, url, got, nursery.cancel_scope)
                if killed_at is None:
                    await until(lambda: len(got) == 3000)
                else:
                    await until(lambda: len(got) >= killed_at)  # noqa: B023
                    process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
                await process.wait()
    assert got == list(range(3000))


async def _receive(url: str, got: list[int], scope: trio.CancelScope) -> None:
    async with rstreams.connect(url, reconnect=PATIENT) as connection:

        async def handle(item: int) -> None:
            got.append(item)
            await trio.lowlevel.checkpoint()

        await connection.consume("numbers", handle, start="first", window=32)
    if len(got) < 3000:
        scope.cancel()


async def test_a_client_of_another_make_goes_on_with_what_was_kept() -> None:
    """Without another position the subscription is the same: what was not settled comes again."""
    numbers = Numbers()
    async with Node() as node:
        node.serve("numbers", from_offset=numbers, keep_s=30)
        listener = await node.listen("127.0.0.1:0")
        for expected in ([0, 1, 2], [0, 1, 2, 3]):
            async with foreign(listener) as client:
                await client.attach("mine", "receiver", address="numbers")
                await client.grant(len(expected))
                came = [decode_message((await client.due("transfer")).payload) for _ in expected]
                assert [each.annotations["x-stream-offset"] for each in came] == expected
            await until(lambda: node.statistics().served["numbers"].away == 1)
        assert numbers.asked == [0]


async def test_one_that_knows_its_position_gets_it_in_place_of_what_was_kept() -> None:
    source = ManualPublisher[int]()
    asked: list[int] = []

    def make(position: int) -> Any:  # noqa: ANN401
        asked.append(position)
        return source if position == 0 else Stream.range(position, ITEMS)

    async with (
        serving(make, keep_s=3600) as (node, network),
        rstreams.connect(network.url, reconnect=AT_ONCE) as connection,
    ):
        probe = ProbeSubscriber[int](2, hold=True)
        connection.stream("numbers", start="first", window=10).subscribe(probe)
        await until(lambda: source.requested)
        source.next(0, 1)
        await until(lambda: probe.items == [0, 1])
        network.reset()
        await until(lambda: source.cancelled)
        probe.request(2)
        await until(lambda: probe.items == [0, 1, 2, 3])
        assert asked == [0, 2]
        assert node.statistics().served["numbers"].away == 0


async def test_values_are_encoded_and_messages_keep_their_annotations() -> None:
    def make(position: int) -> Stream[Any]:
        return Stream.of("a", Message("b", annotations={"colour": "red"}), "c").skip(position)

    async with serving(make) as (_, network), rstreams.connect(network.url) as connection:
        messages = await connection.messages("numbers", start=1).to_list()
        assert [(each.body, dict(each.annotations)) for each in messages] == [
            ("b", {"colour": "red", "x-stream-offset": 1}),
            ("c", {"x-stream-offset": 2}),
        ]
    async with serving(Numbers(), encode=str) as (_, network), rstreams.connect(network.url) as connection:
        assert await connection.stream("numbers", start=197).to_list() == ["197", "198", "199"]


# bad input


@pytest.mark.parametrize("start", ["last", "next"])
async def test_other_places_are_refused(start: Any) -> None:  # noqa: ANN401
    async with serving(Numbers()) as (_, network), rstreams.connect(network.url) as connection:
        with pytest.raises(LinkDetached, match=f"={start}: served stream 'numbers' begins at 'first' or at a position"):
            await connection.stream("numbers", start=start).to_list()


@pytest.mark.parametrize("value", [2**64 - 1, -1, 1.5, ["first"], "yesterday", True])
async def test_places_that_cannot_be_are_refused(value: Any) -> None:  # noqa: ANN401
    async with serving(Numbers()) as (_, network), rstreams.connect(network.url) as connection:
        with pytest.raises(LinkDetached, match="it must be 'first', 'last', 'next', an offset") as told:
            await connection.stream("numbers", filters={START: Described(Symbol(START), value)}).to_list()
        assert told.value.condition == "amqp:invalid-field"


async def test_a_stream_without_a_start_is_not_repeated_effectively_once() -> None:
    async with (
        serving(Numbers()) as (_, network),
        rstreams.connect(network.url, reconnect=AT_ONCE) as connection,
    ):
        probe = ProbeSubscriber[int](5)
        connection.stream("numbers", settlement="effectively_once").subscribe(probe)
        await until(lambda: len(probe.items) == 5)
        network.reset()
        await until(lambda: probe.signals[-1] == "on_error")
        assert isinstance(probe.error, LinkDetached)
        assert (probe.error.condition, 'start="first"' in str(probe.error)) == ("amqp:not-found", True)


async def test_a_function_that_raises_ends_its_link(caplog: pytest.LogCaptureFixture) -> None:
    def gone(position: int) -> Stream[int]:
        if position == 7:
            raise ProtocolError(Condition.NOT_FOUND.value, "the items below 100 are gone")
        msg = "secret"
        raise RuntimeError(msg)

    async with serving(gone) as (_, network), rstreams.connect(network.url) as connection:
        with pytest.raises(LinkDetached, match="the items below 100 are gone"):
            await connection.stream("numbers", start=7).to_list()
        assert not [each for each in caplog.records if each.levelname != "INFO"]
        with pytest.raises(LinkDetached) as told:
            await connection.stream("numbers", start=8).to_list()
        assert "secret" not in str(told.value)
        assert "from_offset(8) of the served stream 'numbers' raised" in caplog.text


async def test_a_function_that_returns_no_stream_ends_its_link(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(lambda _: [1, 2]) as (_, network), rstreams.connect(network.url) as connection:
        with pytest.raises(LinkDetached):
            await connection.stream("numbers", start=8).to_list()
        assert "from_offset must return a Publisher, not [1, 2]; use Stream.from_iterable(...)" in caplog.text


async def test_an_item_that_cannot_be_sent_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        serving(lambda position: Stream.of(1, 2, object()).skip(position)) as (_, network),
        rstreams.connect(network.url) as connection,
    ):
        probe = ProbeSubscriber[int](5)
        connection.stream("numbers", start=1).subscribe(probe)
        await until(lambda: probe.ended)
        assert probe.items == [2]
        assert "the item at 2 of the served stream 'numbers' cannot be sent" in caplog.text


def test_one_of_a_publisher_and_a_function_is_given() -> None:
    node = Node()
    with pytest.raises(ConfigError, match=r"served stream 'a': give either a publisher or from_offset; it has neither"):
        node.serve("a")
    with pytest.raises(ConfigError, match=r"served stream 'a': give either a publisher or from_offset; it has both"):
        node.serve("a", Stream.range(3), from_offset=lambda _: Stream.range(3))
    with pytest.raises(TypeError, match="from_offset"):
        node.serve("a", from_offset=3)  # type: ignore[arg-type]
