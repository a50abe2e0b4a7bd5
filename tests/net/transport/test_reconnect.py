"""Connections that are lost and opened again: what goes on, what is sent again, and when it is given up."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import rstreams
from rstreams import Connection, DeadLetters, Node, Reconnect, Stream
from rstreams.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    LinkDetached,
    RStreamsError,
    SessionEnded,
    TransportError,
)
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.net.rabbitmq_management import rabbitmq_management
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.testing import ProbeSubscriber
from tests.log_lines import tell_counts
from tests.net.over_tcp import pump_of, until
from tests.net.wire import Peer, attach_frame, end_frame, error, scripted, transfer_frame

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0)


@asynccontextmanager
async def returning(
    policy: Reconnect = AT_ONCE,
    **options: Any,  # noqa: ANN401 - those of `Node`
) -> AsyncIterator[tuple[Node, Connection]]:
    async with Node(**options) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, reconnect=policy) as connection:
            yield node, connection


async def cut(connection: Connection) -> None:
    """Break the connection as the network does."""
    lost = pump_of(connection)
    await trio.aclose_forcefully(lost._stream)
    await until(lambda: connection.status.state == "connected" and pump_of(connection) is not lost)


@pytest.mark.slow
async def test_a_stream_goes_on_and_nothing_is_missing() -> None:
    async with returning() as (node, connection):
        queue = node.queue("work", capacity=1000)
        await connection.publish("work", Stream.range(100))
        got: list[int] = []
        async with connection.stream("work", window=8).open() as items:
            async for item in items:
                got.append(item)
                if len(got) % 10 == 0:
                    await cut(connection)
                if len(set(got)) == 100:
                    break
        assert set(got) == set(range(100))
        assert got != sorted(set(got)), "the item in hand when it was cut comes twice"
        await until(lambda: queue.statistics().unsettled == 0)


async def test_a_publisher_waits_and_sends_again_what_is_unsettled() -> None:
    async with returning() as (node, connection):
        queue = node.queue("work", capacity=20)
        results: list[int] = []

        async def publish() -> None:
            results.append((await connection.publish("work", Stream.range(100))).accepted)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            got: list[int] = []
            for _ in range(5):
                await until(lambda: queue.statistics().ready > 0)
                await cut(connection)
                got += await connection.stream("work").take(20).to_list()
            while len(set(got)) < 100:
                got += await connection.stream("work").take(1).to_list()
        assert results == [100]
        assert set(got) == set(range(100))


async def test_a_management_request_whose_reply_is_lost_fails_and_the_next_one_goes_on() -> None:
    async with returning() as (node, connection), rabbitmq_management(connection) as management:
        node.queue("work")

        async def ask() -> None:
            with pytest.raises(ConnectionLost):
                await management.queue("work")

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await until(lambda: management._requests._replies._waiting)
                await cut(connection)
            assert (await management.queue("work"))["type"] == "classic"


async def test_a_sender_and_its_receipts_outlive_a_loss() -> None:
    async with returning() as (node, connection):
        queue = node.queue("work")
        async with connection.sender("work") as sender:
            await sender.send(1)
            receipt = await sender.submit(2)
            await cut(connection)
            await receipt.wait()
            await sender.send(3)
        assert queue.statistics().enqueued >= 3
        sent = queue.statistics().enqueued  # what was on its way may have been sent twice
        assert set(await connection.stream("work").take(sent).to_list()) == {1, 2, 3}


async def test_dead_letters_that_are_refused_after_a_return_end_the_stream() -> None:
    async with returning() as (node, connection):
        queue = node.queue("work")
        outcomes: list[RStreamsError] = []

        async def consume() -> None:
            try:
                await connection.consume("work", lambda item: 1 // item, on_failure=DeadLetters("ded"))
            except LinkDetached as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await connection.publish("work", Stream.of(1))
            await until(lambda: queue.statistics().accepted == 1)
            await cut(connection)
            await connection.publish("work", Stream.of(0))
            await until(lambda: outcomes != [])
        assert "on_failure=DeadLetters('ded')" in str(outcomes[0])
        await until(lambda: (queue.statistics().ready, queue.statistics().modified) == (1, 1))


async def test_each_change_is_told() -> None:
    told: list[ConnectionStatus] = []
    async with returning(Reconnect(first_delay_s=0.0, max_delay_s=0.0, on_status=told.append)) as (_, connection):
        assert connection.status.state == "connected"
        await cut(connection)
    assert [(status.state, status.attempt) for status in told] == [
        ("connected", 0),
        ("lost", 0),
        ("connected", 1),
        ("closed", 0),
    ]
    assert isinstance(told[1].error, ConnectionLost)
    assert told[1].delay_s == 0.0
    assert told[3].error is None


async def test_a_status_function_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_status: ConnectionStatus) -> None:
        raise KeyError

    async with returning(Reconnect(first_delay_s=0.0, max_delay_s=0.0, on_status=fail)) as (_, connection):
        await cut(connection)
    assert "on_status raised" in caplog.text


async def test_when_it_is_given_up_the_loss_is_the_error() -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        node.queue("work")
        policy = Reconnect(first_delay_s=0.0, max_delay_s=0.0, max_attempts=3)
        async with rstreams.connect(listener.url, reconnect=policy) as connection:
            probe = ProbeSubscriber[Any](5)
            connection.stream("work").subscribe(probe)
            await until(lambda: probe.subscription)
            await listener.close("amqp:connection:forced", "going down")
            await until(lambda: probe.ended)
            assert isinstance(probe.error, ConnectFailed)
            assert connection.status.state == "closed"
            with pytest.raises(TransportError):
                await connection.publish("work", Stream.of(1))


async def test_without_a_policy_a_loss_is_the_error_at_once() -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        node.queue("work")
        async with rstreams.connect(listener.url) as connection:
            assert connection.status == ConnectionStatus("connected", listener.url.removeprefix("amqp://"))
            async with trio.open_nursery() as nursery:

                async def take() -> None:
                    with pytest.raises(ConnectionLost):
                        await connection.stream("work").to_list()

                nursery.start_soon(take)
                await until(lambda: node.statistics().queues["work"].consumers == 1)
                await trio.aclose_forcefully(pump_of(connection)._stream)
            assert connection.status.state == "closed"


async def test_another_url_is_tried() -> None:
    async with Node() as first, Node() as second:
        one = await first.listen("127.0.0.1:0")
        two = await second.listen("127.0.0.1:0")
        first.serve("who", Stream.of("first"))
        second.serve("who", Stream.of("second"))
        async with rstreams.connect([one.url, two.url], reconnect=AT_ONCE) as connection:
            assert await connection.stream("who").to_list() == ["first"]
            await one.close("amqp:connection:forced", "going down")
            await until(lambda: connection.status.peer == two.url.removeprefix("amqp://"))
            assert await connection.stream("who").to_list() == ["second"]
        async with rstreams.connect([one.url, two.url]) as connection:
            assert await connection.stream("who").to_list() == ["second"]


async def test_the_first_connection_is_tried_again_only_if_that_is_wanted() -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        await listener.close("amqp:connection:forced", "not yet")
        with pytest.raises(ConnectFailed):
            async with rstreams.connect(listener.url, reconnect=AT_ONCE):
                pass
        told: list[ConnectionStatus] = []
        policy = Reconnect(
            first_delay_s=0.0, max_delay_s=0.0, at_start=True, start_jitter_s=0.001, on_status=told.append
        )
        async with trio.open_nursery() as nursery:

            async def connect() -> None:
                async with rstreams.connect(listener.url, reconnect=policy) as connection:
                    assert connection.status.state == "connected"

            nursery.start_soon(connect)
            await until(lambda: len(told) > 2)
            await node.listen(listener.url.removeprefix("amqp://"))
        assert [status.state for status in told[-2:]] == ["connected", "closed"]


async def test_what_is_wrong_with_each_url_is_told_in_the_right_words(caplog: pytest.LogCaptureFixture) -> None:
    async with Node(users={"alice": "sesame"}) as node:
        listener = await node.listen("127.0.0.1:0")
        refused = "cannot connect to 127.0.0.1:{0}: Connection refused".format
        policy = Reconnect(first_delay_s=0.0, max_delay_s=0.0, at_start=True, max_attempts=2)
        with pytest.raises(ConnectFailed) as failed:
            async with rstreams.connect(["amqp://bob:hush@127.0.0.1:1", "amqp://127.0.0.1:2"], reconnect=policy):
                pass
        each = f"{refused(1)}; {refused(2)}"
        assert str(failed.value) == each
        assert caplog.messages == [f"connecting again in 0 s: {each}"]

        with pytest.raises(AuthenticationFailed) as denied:  # which says more than that nobody listens
            async with rstreams.connect([listener.url.replace("//", "//bob:hush@"), "amqp://127.0.0.1:2"]):
                pass
        assert re.fullmatch(rf"127\.0\.0\.1:\d+ refused the credentials.*; {refused(2)}", str(denied.value))
        assert "hush" not in str(denied.value) + caplog.text


async def test_the_log_says_what_was_lost_and_what_has_failed_since(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        policy = Reconnect(first_delay_s=0.001, max_delay_s=0.001, max_attempts=3)
        async with rstreams.connect(listener.url, reconnect=policy) as connection:
            peer = connection.status.peer
            await listener.close("amqp:connection:forced", "going down")
            await until(lambda: connection.status.state == "closed")
        tell_counts()
        again = [message.rpartition("connecting again in ") for message in caplog.messages]
        said = [text.partition(" s: ")[2] for _, found, text in again if found]
        assert said[0] == f"{peer}: going down (amqp:connection:forced)"
        assert set(said[1:]) == {f"cannot connect to {peer}: Connection refused"}


async def test_what_will_not_change_is_not_tried_again() -> None:
    async with Node(users={"alice": "sesame"}) as node:
        listener = await node.listen("127.0.0.1:0")
        url = listener.url.replace("//", "//alice:wrong@")
        policy = Reconnect(first_delay_s=0.0, max_delay_s=0.0, at_start=True)
        with pytest.raises(AuthenticationFailed):
            async with rstreams.connect(url, reconnect=policy):
                pass


async def test_an_address_that_has_gone_meanwhile_is_the_end_of_its_stream_alone() -> None:
    async with Node() as first, Node() as second:
        one = await first.listen("127.0.0.1:0")
        two = await second.listen("127.0.0.1:0")
        first.queue("a")
        queue = first.queue("b"), second.queue("b")
        gone, here = ProbeSubscriber[Any](5), ProbeSubscriber[Any](5)
        policy = replace(AT_ONCE, links_s=0.0)
        async with rstreams.connect([one.url, two.url], reconnect=policy) as connection:
            connection.stream("a").subscribe(gone)
            connection.stream("b").subscribe(here)
            await until(lambda: queue[0].statistics().consumers == 1)
            await one.close("amqp:connection:forced", "going down")
            await until(lambda: gone.ended)
            assert isinstance(gone.error, LinkDetached)
            await until(lambda: queue[1].statistics().demand == 5)
            await connection.publish("b", Stream.of(1))
            await until(lambda: here.items == [1])


@pytest.mark.parametrize("there", [True, False])
async def test_what_cannot_be_sent_again_has_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch,
    there: bool,  # noqa: FBT001
) -> None:
    async with Node() as first, Node() as second:
        one, two = await first.listen("127.0.0.1:0"), await second.listen("127.0.0.1:0")
        queue = first.queue("work")
        policy = Reconnect(first_delay_s=0.0, max_delay_s=0.0, max_attempts=2, links_s=0.0)
        unknown: list[int] = []

        async def publish() -> None:
            with pytest.raises((LinkDetached, ConnectFailed)) as raised:
                await connection.publish("work", Stream.range(5))
            unknown.append(raised.value.outcome_unknown)

        async def send() -> None:
            with pytest.raises((LinkDetached, ConnectFailed)):  # not that it was given back
                async with connection.sender("work") as sender:
                    await sender.send(5)

        async with rstreams.connect([one.url, two.url], reconnect=policy) as connection, trio.open_nursery() as nursery:
            # Nobody hears of it.
            monkeypatch.setattr(ReceivingDriver, "_send_disposition", lambda _driver, _frame: None)
            nursery.start_soon(publish)
            nursery.start_soon(send)
            await until(lambda: queue.statistics().enqueued == 6)
            if not there:
                await two.close("amqp:connection:forced", "going down")
            await one.close("amqp:connection:forced", "going down")
        assert unknown == [5]


async def test_a_sender_whose_messages_are_settled_ends_while_the_connection_is_away() -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        node.queue("work")
        policy = Reconnect(first_delay_s=1e6, max_delay_s=1e6)
        async with rstreams.connect(listener.url, reconnect=policy) as connection:
            with trio.fail_after(10):
                async with connection.sender("work") as sender:
                    await sender.send(1)
                    await listener.close("amqp:connection:forced", "going down")
                    await until(lambda: connection.status.state == "lost")


async def test_a_connection_that_is_closed_while_it_is_lost_ends_what_waits() -> None:
    probe = ProbeSubscriber[Any](5)
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        node.queue("work")
        policy = Reconnect(first_delay_s=1e6, max_delay_s=1e6)
        async with rstreams.connect(listener.url, reconnect=policy) as connection:
            connection.stream("work").subscribe(probe)
            await until(lambda: probe.subscription)
            await listener.close("amqp:connection:forced", "going down")
            await until(lambda: connection.status.state == "lost")
            late = ProbeSubscriber[Any](5)
            connection.stream("work").subscribe(late)
            assert not late.ended
    assert isinstance(probe.error, ConnectionLost)
    assert isinstance(late.error, ConnectionLost)


async def test_links_that_have_ended_are_not_remembered() -> None:
    async with returning() as (node, connection):
        node.serve("numbers", Stream.range(3))
        node.queue("work")
        staying, leaving = ProbeSubscriber[Any](5), ProbeSubscriber[Any](5)
        connection.stream("work").subscribe(staying)
        connection.stream("work").subscribe(leaving)
        assert await connection.stream("numbers").to_list() == [0, 1, 2]
        await until(lambda: leaving.subscription)
        lost = pump_of(connection)
        leaving.cancel()
        await cut(connection)
        assert len(lost.waiting) == 1
        await until(lambda: node.statistics().queues["work"].demand == 5)


async def test_a_session_ended_for_a_bad_address_is_replaced_for_the_other_links() -> None:
    probe = ProbeSubscriber[bytes](5)

    async def peer(peer: Peer) -> None:
        await peer.opens(channel_max=0)
        begin = await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source="good", initial_delivery_count=0))
        await peer.expect("flow")
        await peer.expect("attach")
        await peer.end(end_frame(error("amqp:not-found", "no queue 'bad'"), channel=begin.channel))
        again = (await peer.begins()).channel
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source="good", initial_delivery_count=0, channel=again))
        assert (await peer.expect("flow"))["link-credit"] == 5
        await peer.send(transfer_frame(0, b"x", channel=again))
        await peer.expect("disposition")
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("good").subscribe(probe)
        await until(lambda: probe.subscription)
        with pytest.raises(SessionEnded, match="no queue 'bad'"):
            await connection.stream("bad").to_list()
        await until(lambda: probe.items == [b"x"])


# the policy


@given(
    st.builds(
        Reconnect,
        first_delay_s=st.floats(0.0, 10.0),
        factor=st.floats(1.0, 10.0),
        max_delay_s=st.floats(10.0, 1e6),
        jitter=st.floats(0.0, 1.0),
    ),
    st.integers(1, 10**6),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_delays_grow_and_stay_within_their_bounds(policy: Reconnect, attempt: int, random: float) -> None:
    delay = policy.delay_s(attempt, random)
    assert 0.0 <= delay <= policy.max_delay_s
    assert delay >= policy.first_delay_s * (1 - policy.jitter) * 0.999
    assert policy.delay_s(attempt, 0.0) >= delay
    assert policy.delay_s(attempt + 1, 0.0) >= policy.delay_s(attempt, 0.0) * 0.999


def test_delays_double_by_default() -> None:
    policy = Reconnect(first_delay_s=1.0, jitter=0.5)
    assert [policy.delay_s(attempt, 0.0) for attempt in (1, 2, 3, 4, 5, 6, 99)] == [1, 2, 4, 8, 16, 30, 30]
    assert policy.delay_s(2, 0.5) == 1.5


def test_only_the_first_attempt_is_made_at_once() -> None:
    policy = Reconnect(first_delay_s=0.0, max_delay_s=0.5)
    assert [policy.delay_s(attempt, 0.0) for attempt in (1, 2, 3, 4, 5, 99)] == [0, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert Reconnect(first_delay_s=0.0, max_delay_s=0.0).delay_s(99, 0.0) == 0


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("first_delay_s", -1, "0 or more seconds"),
        ("first_delay_s", math.inf, "0 or more seconds"),
        ("factor", 0.5, "1 or more"),
        ("factor", math.nan, "1 or more"),
        ("max_delay_s", 0.01, "not less than first_delay_s"),
        ("jitter", 1.5, "0 to 1"),
        ("jitter", True, "0 to 1"),
        ("start_jitter_s", "1", "0 or more seconds"),
        ("max_attempts", 0, "None or a whole number"),
        ("max_attempts", 1.0, "None or a whole number"),
        ("on_status", 5, "None or a function"),
        ("on_status", trio.sleep, "a plain function, not an async one"),
    ],
)
def test_bad_options_are_named(option: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}=.*{allowed}"):
        Reconnect(**{option: value})  # type: ignore[arg-type]


async def test_a_policy_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="reconnect=True"):
        async with rstreams.connect("amqp://127.0.0.1", reconnect=True):  # type: ignore[arg-type]
            pass
