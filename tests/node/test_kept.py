"""A served stream goes on after a cut: first what was not settled, then the next item."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError, ConnectionLost, LinkDetached
from rstreams.message import Message
from rstreams.net.transport.listener import Listener
from rstreams.node import kept
from rstreams.testing import FaultyNetwork, ManualPublisher, ProbeSubscriber
from tests.net.foreign import foreign
from tests.net.over_tcp import until
from tests.net.wire import ACCEPT, Frame, condition_of, detach_frame, disposition_frame, flow_frame

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)
ITEMS = 100


async def received(network: FaultyNetwork, settlement: Any, window: int) -> list[int]:  # noqa: ANN401
    """Return all items of "numbers" as a client that reconnects gets them."""
    async with rstreams.connect(network.url, reconnect=AT_ONCE) as connection:
        items: list[int] = await connection.stream("numbers", settlement=settlement, window=window).to_list()
    return items


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[Node, FaultyNetwork]]:  # noqa: ANN401 - those of `serve`
    async with Node() as node:
        node.serve("numbers", Stream.range(ITEMS), **options)
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network:
            yield node, network


@asynccontextmanager
async def played(keep_s: float = 30) -> AsyncIterator[tuple[Node, ManualPublisher[int], Listener]]:
    """Return a node that serves a publisher played by the test."""
    async with Node() as node:
        source = ManualPublisher[int]()
        node.serve("numbers", source, keep_s=keep_s)
        yield node, source, await node.listen("127.0.0.1:0")


# through cuts


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before", "inside", "after"])
@pytest.mark.parametrize("performative", ["attach", "flow", "transfer", "disposition", "detach"])
@pytest.mark.parametrize("window", [1, 7])
async def test_a_stream_that_is_cut_at_any_frame_comes_whole(performative: Any, place: Any, window: int) -> None:  # noqa: ANN401
    for settlement in ("at_least_once", "effectively_once"):
        async with serving(keep_s=30) as (node, network):
            network.when(performative, at=place, times=3).reset()
            items = await received(network, settlement, window)
            expected = list(range(ITEMS))
            if settlement == "effectively_once":
                assert items == expected
            assert sorted(set(items)) == expected
            assert list(dict.fromkeys(items)) == expected, "each one's first time is in order"
            assert network.faults["reset"], "it was cut"
            now = node.statistics().served["numbers"]
            assert (now.subscriptions, now.delivered) == (1, ITEMS)


def encoded(number: int) -> Message:
    return Message(str(number).encode(), id=f"of {number}")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before", "inside", "after"])
@pytest.mark.parametrize("encode", [None, encoded])
@pytest.mark.parametrize("is_from_offset", [False, True])
async def test_items_come_once_however_the_stream_is_served(
    is_from_offset: bool,  # noqa: FBT001
    encode: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401
) -> None:
    """Nothing in a plain number tells it from an equal one, and the outcome of an accepted one was lost."""
    async with Node() as node:
        if is_from_offset:
            node.serve("numbers", from_offset=lambda at: Stream.range(at, ITEMS), encode=encode, keep_s=30)
        else:
            node.serve("numbers", Stream.range(ITEMS), encode=encode, keep_s=30)
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network:
            network.when("disposition", at=place, times=3).reset()
            items = await received(network, "effectively_once", 2)
            assert list(map(int, items)) == list(range(ITEMS))
            assert network.faults["reset"] == 3


async def test_an_end_that_did_not_arrive_comes_again() -> None:
    async with serving(keep_s=30) as (node, network):
        network.when("detach", direction="to_client", at="before").reset()
        assert await received(network, "effectively_once", 64) == list(range(ITEMS))
        assert node.statistics().served["numbers"].subscriptions == 1


@pytest.mark.parametrize("settlement", ["at_least_once", "effectively_once"])
async def test_what_a_slow_subscriber_has_not_been_handed_comes_again_with_the_end(settlement: Any) -> None:  # noqa: ANN401
    async with serving(keep_s=30) as (node, network), rstreams.connect(network.url, reconnect=AT_ONCE) as connection:
        probe = ProbeSubscriber[int](UNBOUNDED)

        def on_item(_item: int) -> None:
            if len(probe.items) <= 5:
                time.sleep(0.006)  # longer than a slice, so that all items and the end wait at the link
            if len(probe.items) == 5:
                network.reset()

        probe.on_item = on_item
        connection.stream("numbers", settlement=settlement).subscribe(probe)
        await until(lambda: probe.completed)
        assert list(dict.fromkeys(probe.items)) == list(range(ITEMS))
        assert settlement == "at_least_once" or len(probe.items) == ITEMS
        assert network.faults["reset"] == 1
        assert node.statistics().served["numbers"].subscriptions == 1


async def test_without_keep_s_the_stream_begins_again() -> None:
    async with serving() as (node, network):
        network.when("transfer", direction="to_client", nth=3, at="after").reset()
        items = await received(network, "at_least_once", 8)
        assert items[-ITEMS:] == list(range(ITEMS))
        assert len(items) > ITEMS
        assert node.statistics().served["numbers"].subscriptions == 2


async def test_while_it_is_away_nothing_is_asked_of_the_publisher() -> None:
    async with played() as (node, source, listener), FaultyNetwork(listener.url) as network:
        policy = Reconnect(first_delay_s=0.05, max_delay_s=0.05)
        async with rstreams.connect(network.url, reconnect=policy) as connection:
            probe = ProbeSubscriber[int](10, hold=True)
            connection.stream("numbers", window=4).subscribe(probe)
            await until(lambda: source.requested == 4)
            source.next(0, 1, 2, 3)
            await until(lambda: len(probe.items) == 4)
            network.close().reset()
            await until(lambda: node.statistics().served["numbers"].away == 1)
            assert "1 subscriber (1 away), 4 items delivered" in str(node.explain())
            for hold in probe.holds:
                hold.done()  # too late: the node cannot hear of it before the link is attached again
            assert (source.requested, source.cancelled) == (4, False)
            network.reopen()
            await until(lambda: len(probe.items) == 8)
            assert probe.items == [0, 1, 2, 3] * 2
            assert source.requested == 4
            for hold in probe.holds[4:]:
                hold.done()
            await until(lambda: source.requested == 6)
            assert node.statistics().served["numbers"].away == 0


# how it ends


async def test_a_subscription_that_is_away_too_long_is_cancelled() -> None:
    async with played(keep_s=0.01) as (node, source, listener):
        async with rstreams.connect(listener.url) as connection:
            connection.stream("numbers").subscribe(ProbeSubscriber[int](10))
            await until(lambda: source.requested)
        await until(lambda: source.cancelled)
        now = node.statistics().served["numbers"]
        assert (now.subscribers, now.cancelled, now.away) == (0, 1, 0)


async def test_a_subscriber_that_cancels_ends_it_at_once() -> None:
    async with serving(keep_s=3600) as (node, network), rstreams.connect(network.url) as connection:
        assert await connection.stream("numbers").take(3).to_list() == [0, 1, 2]
        await until(lambda: not node.statistics().served["numbers"].subscribers)
        assert node.statistics().served["numbers"].cancelled == 1


@pytest.mark.parametrize("settlement", ["effectively_once", "at_least_once"])
async def test_who_returns_too_late_gets_all_again_or_an_error(settlement: Any) -> None:  # noqa: ANN401
    async with (
        serving(keep_s=0.01) as (node, network),
        rstreams.connect(network.url, reconnect=AT_ONCE) as connection,
    ):
        probe = ProbeSubscriber[int](10)
        connection.stream("numbers", settlement=settlement).subscribe(probe)
        await until(lambda: len(probe.items) == 10)
        network.close().reset()
        await until(lambda: node.statistics().served["numbers"].cancelled)
        network.reopen()
        if settlement == "effectively_once":
            await until(lambda: probe.signals[-1] == "on_error")
            assert isinstance(probe.error, LinkDetached)
            assert (probe.error.condition, "not kept any more" in str(probe.error)) == ("amqp:not-found", True)
        else:
            await until(lambda: node.statistics().served["numbers"].subscriptions == 2)
            probe.request(1)
            await until(lambda: len(probe.items) == 11)
            assert probe.items == [*range(10), 0], "the stream begins again"


@pytest.mark.parametrize("how", ["closes", "drains"])
async def test_a_node_that_ends_cancels_those_that_are_away(how: str) -> None:
    source = ManualPublisher[int]()
    async with Node() as node:
        node.serve("numbers", source, keep_s=3600)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            connection.stream("numbers").subscribe(ProbeSubscriber[int](10))
            await until(lambda: source.requested)
        await until(lambda: node.statistics().served["numbers"].away)
        if how == "drains":
            await node.drain_and_close(timeout_s=5)
    assert source.cancelled


async def test_where_there_is_no_room_the_one_that_is_away_longest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_AWAY", 2)
    sources = [ManualPublisher[int]() for _ in range(3)]
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        for number, source in enumerate(sources):
            node.serve(f"numbers{number}", source, keep_s=3600)
            async with rstreams.connect(listener.url) as connection:
                connection.stream(f"numbers{number}").subscribe(ProbeSubscriber[int](10))
                await until(lambda: source.requested)  # noqa: B023
            await until(lambda: node.statistics().served[f"numbers{number}"].away)  # noqa: B023
        assert [source.cancelled for source in sources] == [True, False, False]


async def test_one_owner_pushes_out_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_AWAY", 4)
    monkeypatch.setattr(kept, "MAX_AWAY_OF_ONE", 2)
    sources: list[ManualPublisher[int]] = []
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        for container in ("quiet", "loud", "loud", "loud", "other", "other", "last"):
            name, source = f"numbers{len(sources)}", ManualPublisher[int]()
            sources.append(source)
            node.serve(name, source, keep_s=3600)
            async with rstreams.connect(listener.url, container_id=container) as connection:
                connection.stream(name).subscribe(ProbeSubscriber[int](10))
                await until(lambda: source.requested)  # noqa: B023
            await until(lambda: node.statistics().served[name].away)  # noqa: B023
        assert [source.cancelled for source in sources] == [False, True, True, False, True, False, False]


async def test_what_is_kept_stays_within_the_budget_for_unsettled_deliveries() -> None:
    large = b"x" * 300_000
    sources = [ManualPublisher[bytes]() for _ in range(3)]
    async with Node(total_unsettled_bytes=1_500_000) as node:
        listener = await node.listen("127.0.0.1:0")
        for number, source in enumerate(sources):
            node.serve(f"items{number}", source, keep_s=3600)
            async with rstreams.connect(listener.url) as connection:
                probe = ProbeSubscriber[bytes](2, hold=True)
                connection.stream(f"items{number}").subscribe(probe)
                await until(lambda: source.requested)  # noqa: B023
                source.next(*[large] * source.requested)
                await until(lambda: probe.items)  # noqa: B023
            await until(lambda: node.statistics().connections == 0)
            assert node._options.budget.taken <= 1_500_000
        kept_now = [source for source in sources if not source.cancelled]
        assert kept_now == sources[-len(kept_now) :]
        assert 0 < len(kept_now) < 3
    assert node._options.budget.taken == 0


@pytest.mark.parametrize(
    ("sizes", "stays"),
    [
        pytest.param([300_000, 2_000_000], [True, False], id="one that has no room at all ends alone"),
        pytest.param([300_000, 300_000, 1_000_000], [False, True, True], id="no more are ended than it needs"),
        pytest.param([1_400_000], [True], id="one that takes nearly all of the room is kept"),
    ],
)
async def test_a_large_subscription_ends_no_more_of_the_others_than_it_must(
    sizes: list[int], stays: list[bool]
) -> None:
    sources = [ManualPublisher[bytes]() for _ in sizes]
    async with Node(total_unsettled_bytes=1_500_000) as node:
        listener = await node.listen("127.0.0.1:0")
        for number, (source, size) in enumerate(zip(sources, sizes, strict=True)):
            node.serve(f"items{number}", source, keep_s=3600)
            async with rstreams.connect(listener.url) as connection:
                probe = ProbeSubscriber[bytes](1, hold=True)
                connection.stream(f"items{number}").subscribe(probe)
                await until(lambda: source.requested)  # noqa: B023
                source.next(b"x" * size)
                await until(lambda: probe.items)  # noqa: B023
            await until(lambda: node.statistics().connections == 0)
            assert node._options.budget.taken <= 1_500_000
        assert [not source.cancelled for source in sources] == stays
    assert node._options.budget.taken == 0


# the identity of a subscription


async def test_a_link_that_is_attached_elsewhere_is_taken_from_the_old_connection() -> None:
    async with (
        played() as (node, source, listener),
        rstreams.connect(listener.url, container_id="dashboard") as old,
        rstreams.connect(listener.url, container_id="dashboard") as new,
    ):
        before, after = ProbeSubscriber[int](4, hold=True), ProbeSubscriber[int](4)
        old.stream("numbers").subscribe(before)
        await until(lambda: source.requested == 4)
        source.next(0, 1)
        await until(lambda: before.items == [0, 1])
        new.stream("numbers").subscribe(after)
        await until(lambda: after.items == [0, 1])
        source.next(2, 3)
        await until(lambda: after.items == [0, 1, 2, 3])
        await until(lambda: before.signals[-1] == "on_error")
        assert isinstance(before.error, LinkDetached)
        assert before.error.condition == "amqp:link:stolen"
        assert node.statistics().served["numbers"].subscriptions == 1


async def test_another_settlement_or_another_container_is_another_subscription() -> None:
    async with played() as (node, _source, listener):
        cases: list[tuple[str, Any, int]] = [
            ("a", "at_least_once", 1),
            ("a", "at_most_once", 2),
            ("b", "at_most_once", 3),
        ]
        for container, settlement, subscriptions in cases:
            async with rstreams.connect(listener.url, container_id=container) as connection:
                stream = connection.stream("numbers", settlement=settlement)
                probe = ProbeSubscriber[int](4)
                stream.subscribe(probe)
                await until(lambda: node.statistics().served["numbers"].subscriptions == subscriptions)  # noqa: B023
            assert isinstance(probe.error, ConnectionLost)
        assert node.statistics().served["numbers"].away == 2


async def test_a_client_of_another_make_detaches_and_goes_on() -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(10), keep_s=30)
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("mine", "receiver", address="numbers")
            await client.grant(3)
            first = [await client.due("transfer") for _ in range(3)]
            await client.send(disposition_frame(0, 0, ACCEPT), detach_frame(closed=False))
            assert (await client.due("detach"))["closed"] in {None, False}
            assert node.statistics().served["numbers"].away == 1
            await client.attach("mine", "receiver", address="numbers", handle=1)
            await client.send(flow_frame(credit=3, handle=1, delivery_count=0, next_incoming=3))
            then = [await client.due("transfer") for _ in range(3)]
            assert bodies(then) == [*bodies(first)[1:], bodies(then)[2]]
            assert node.statistics().served["numbers"].subscriptions == 1
            await client.send(detach_frame(handle=1))
            await client.due("detach")
            assert node.statistics().served["numbers"].cancelled == 1


async def test_a_client_that_breaks_the_protocol_is_not_waited_for() -> None:
    async with Node() as node:
        source = ManualPublisher[int]()
        node.serve("numbers", source, keep_s=3600)
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            await client.attach("mine", "receiver", address="numbers")
            await client.grant(3)
            await until(lambda: source.requested == 3)
            await client.send(flow_frame(credit=3, handle=7))  # there is no such link
            assert condition_of((await client.due("end"))["error"])[0] == "amqp:session:unattached-handle"
        await until(lambda: source.cancelled or node.statistics().served["numbers"].away)


@pytest.mark.parametrize("keep_s", [-1, float("nan"), float("inf"), "long", True])
def test_a_time_that_cannot_be(keep_s: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match=r"served stream 'numbers'.*keep_s="):
        Node().serve("numbers", Stream.range(3), keep_s=keep_s)


def bodies(frames: list[Frame]) -> list[bytes]:
    """Return the encoded messages of transfers."""
    return [bytes(frame.payload) for frame in frames]


# users, and management


async def test_no_user_goes_on_with_the_subscription_of_another_one() -> None:
    async with Node(users={"alice": "a", "bob": "b"}) as node:
        node.serve("numbers", Stream.range(ITEMS), keep_s=30)
        listener = await node.listen("127.0.0.1:0")
        async with FaultyNetwork(listener.url) as network:
            place = network.url.removeprefix("amqp://")
            for user in ("alice:a", "bob:b"):
                opened = rstreams.connect(f"amqp://{user}@{place}", container_id="same")
                async with opened as connection, connection.stream("numbers", window=1).open() as numbers:
                    assert await anext(numbers) == 0
                    network.reset()
                    with pytest.raises(ConnectionLost):
                        await anext(numbers)
            await until(lambda: node.statistics().served["numbers"].away == 2)
            assert node.statistics().served["numbers"].subscriptions == 2


async def test_a_user_that_is_removed_loses_its_subscriptions() -> None:
    users = {"alice": "a", "bob": "b", "carol": "c"}
    async with Node(users=users) as node:
        node.serve("numbers", Stream.range(ITEMS), keep_s=3600)
        place = (await node.listen("127.0.0.1:0")).url.removeprefix("amqp://")

        async def begin(connection: rstreams.Connection) -> None:
            probe = ProbeSubscriber[int](1)
            connection.stream("numbers").subscribe(probe)
            await until(lambda: probe.items)

        for user in ("alice:a", "carol:c"):  # these are away
            async with rstreams.connect(f"amqp://{user}@{place}") as connection:
                await begin(connection)
        async with rstreams.connect(f"amqp://bob:b@{place}") as connection:  # this one is attached
            await begin(connection)
            await until(lambda: node.statistics().served["numbers"].away == 2)
            await node.renew_access(users={"carol": "c"})
            await until(lambda: node.statistics().served["numbers"].subscribers == 1)
        assert [name.user for name in node._links.kept._ends] == ["carol"]
        assert node.statistics().served["numbers"].away == 1


async def test_management_lists_and_ends_a_subscription_that_is_away() -> None:
    async with played() as (node, source, listener):
        async with FaultyNetwork(listener.url) as network:
            async with rstreams.connect(network.url) as connection:
                probe = ProbeSubscriber[int](10)
                connection.stream("numbers").subscribe(probe)
                await until(lambda: source.requested == 10)
                network.reset()
                await until(lambda: node.statistics().served["numbers"].away == 1)
            async with rstreams.connect(listener.url) as connection, connection.management() as management:
                (away,) = await management.subscriptions("numbers")
                await management.end_subscription(away.number)
                assert source.cancelled
                assert await management.subscriptions("numbers") == []
        assert node.statistics().served["numbers"].away == 0


async def test_management_ends_a_kept_subscription_that_has_a_link() -> None:
    async with played() as (node, source, listener):
        async with rstreams.connect(listener.url) as connection, connection.management() as management:
            probe = ProbeSubscriber[int](10, hold=True)
            connection.stream("numbers").subscribe(probe)
            await until(lambda: source.requested == 10)
            source.next(1)
            await until(lambda: probe.items)
            (subscription,) = await management.subscriptions("numbers")
            await management.end_subscription(subscription.number)
            assert source.cancelled
            assert source.outcomes == ["failed"]
            await until(lambda: probe.error)
            assert isinstance(probe.error, LinkDetached)
            probe.holds[0].done()
        assert node.statistics().served["numbers"].away == 0


async def test_an_address_that_is_removed_ends_subscriptions_that_are_away() -> None:
    async with serving(keep_s=30) as (node, network):
        async with rstreams.connect(network.url) as connection, connection.stream("numbers").open() as numbers:
            assert await anext(numbers) == 0
            network.reset()
            await until(lambda: node.statistics().served["numbers"].away == 1)
        node.remove("numbers")
        assert "numbers" not in node.statistics().served
        node.serve("numbers", Stream.range(3))
        async with rstreams.connect(network.url) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]
