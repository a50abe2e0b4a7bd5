"""RabbitMQ 3.10 with its AMQP 1.0 plugin: what it does in its own way, so that the guide stays true."""

from __future__ import annotations

import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams.errors import AuthenticationFailed, RemoteProtocolError, SessionEnded
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import eventually
from tests.interop.rabbitmq import RabbitMQ
from tests.interop.tap import tapped

pytestmark = pytest.mark.broker


async def test_a_queue_is_made_by_its_address(rabbitmq_310: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_310.url) as connection:
        await connection.publish("/queue/made-by-a-sender", Stream.range(3))
        assert await connection.stream("/queue/made-by-a-sender").take(3).to_list() == [0, 1, 2]


async def test_an_exchange_feeds_who_listens_to_its_key(rabbitmq_310: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_310.url) as connection:
        probe = ProbeSubscriber[int](2)
        connection.stream("/topic/weather.#").subscribe(probe)
        await eventually(lambda: probe.subscription)
        await connection.publish("/topic/weather.rain", Stream.of(1))
        await connection.publish("/topic/sports", Stream.of(2))
        await connection.publish("/topic/weather.sun", Stream.of(3))
        await eventually(lambda: len(probe.items) == 2)
        assert probe.items == [1, 3]
        probe.cancel()


async def test_an_exchange_it_does_not_have_ends_the_session_and_not_the_connection(rabbitmq_310: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_310.url) as connection:
        with pytest.raises(SessionEnded) as caught:
            await connection.publish("/exchange/missing/key", Stream.of(1))
        assert caught.value.condition == "amqp:not-found"
        await connection.publish("/queue/still-there", Stream.of(1))
        assert await connection.stream("/queue/still-there").first_or_none() == 1


async def test_a_drain_of_a_classic_queue_ends_the_session_and_is_heard_of(rabbitmq_310: RabbitMQ) -> None:
    """Why its dialect refuses to drain."""
    async with rstreams.connect(rabbitmq_310.url, dialect="none") as connection:
        probe = ProbeSubscriber[int](10)
        connection.stream("/queue/to-drain").subscribe(probe)
        await eventually(lambda: probe.subscription)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.drain(lambda: None)
        await eventually(lambda: probe.error)
        assert isinstance(probe.error, SessionEnded)
        assert probe.error.condition == "amqp:internal-error"


async def test_a_plain_address_is_a_queue(rabbitmq_310: RabbitMQ) -> None:
    async with rstreams.connect(rabbitmq_310.url) as connection:
        await connection.publish("plain", Stream.range(3))
        assert await connection.stream("queue://plain").take(3).to_list() == [0, 1, 2]
        probe = ProbeSubscriber[int](1)
        connection.stream("topic://plain.#").subscribe(probe)
        await eventually(lambda: probe.subscription)
        await connection.publish("topic://plain.one", Stream.of(1))
        await eventually(lambda: probe.items == [1])
        probe.cancel()


async def test_it_sends_too_much_when_credit_is_renewed_as_to_others(rabbitmq_310: RabbitMQ) -> None:
    """Why its dialect renews credit only when none is left."""
    overdrawn = 0
    for turn in range(20):
        queue = f"/queue/renewed-{turn}"
        async with (
            tapped(rabbitmq_310.url) as tap,
            rstreams.connect(tap.url, dialect="none") as connection,
        ):
            await connection.publish(queue, Stream.range(1000))
            probe = ProbeSubscriber[int](1000)
            connection.stream(queue, window=16).subscribe(probe)
            await eventually(lambda probe=probe: probe.error or len(probe.items) == 1000)  # type: ignore[misc]
            overdrawn += tap.credit(queue).overdrawn
            if probe.error is None:
                probe.cancel()
            else:
                assert isinstance(probe.error, RemoteProtocolError)
                assert probe.error.condition == "amqp:link:transfer-limit-exceeded"
                break
    assert overdrawn


async def test_a_paused_stream_is_not_drained(rabbitmq_310: RabbitMQ) -> None:
    queue = "/queue/paused"
    async with tapped(rabbitmq_310.url) as tap, rstreams.connect(tap.url) as connection:
        probe = ProbeSubscriber[int](100)
        connection.stream(queue, window=10).subscribe(probe)
        await eventually(lambda: probe.subscription)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.suspend()
        await connection.publish(queue, Stream.range(30))
        assert not any(frame["drain"] for frame in tap.named("flow", "ours"))
        assert len(probe.items) <= 10, "what was granted before, and no more"
        probe.subscription.resume()
        await eventually(lambda: len(probe.items) == 30)
        assert not tap.credit(queue).overdrawn
        probe.cancel()


async def test_a_wrong_password_is_refused(rabbitmq_310: RabbitMQ) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        async with rstreams.connect(rabbitmq_310.url.replace("guest:guest", "guest:wrong")):
            pass
    assert "wrong" not in str(caught.value)


async def test_it_lets_clients_in_without_a_name(rabbitmq_310: RabbitMQ) -> None:
    with trio.fail_after(10):
        async with rstreams.connect(rabbitmq_310.anonymous_url) as connection:
            await connection.publish("/queue/anonymous", Stream.of(1))
