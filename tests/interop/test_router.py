"""A message router, qpid-dispatch or skupper-router: it keeps nothing, and lets in what somebody wants to have.

No registry here has one, so these tests need `RSTREAMS_INTEROP_ROUTER`, the url of one that runs and asks for no name.
"""

from __future__ import annotations

import os

import pytest
import trio

import rstreams
from rstreams import Delivery, Stream
from rstreams.errors import DeliveryFailed
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import eventually, took_part
from tests.interop.tap import tapped

VARIABLE = "RSTREAMS_INTEROP_ROUTER"

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"router: no registry here has one; {VARIABLE} names one"),
]


@pytest.fixture(scope="module")
def router() -> str:
    """Return the url of the router."""
    took_part("router")
    return os.environ[VARIABLE]


async def test_a_sender_has_credit_only_while_somebody_receives(router: str) -> None:
    async with tapped(router) as tap, rstreams.connect(tap.url) as connection:
        assert connection.dialect.name == "router", "by what it says of itself"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.publish, "rstreams-held", Stream.range(20))
            await eventually(lambda: len(tap.named("attach", "theirs")) == 1)
            other = ProbeSubscriber[int](1)
            connection.stream("rstreams-other").subscribe(other)
            await eventually(lambda: other.subscription)  # what it grants by itself would be here by now
            assert tap.credit("rstreams-held", receives=False).granted == 0
            assert await connection.stream("queue://rstreams-held").take(20).to_list() == list(range(20))
            other.cancel()
        assert not tap.credit("rstreams-held", receives=False).overdrawn


async def test_five_asked_for_are_five_on_the_wire(router: str) -> None:
    address = "rstreams-exact"
    async with tapped(router) as tap, rstreams.connect(tap.url) as connection:
        probe = ProbeSubscriber[int](5)
        connection.stream(address).subscribe(probe)
        await eventually(lambda: probe.subscription)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.publish, address, Stream.range(20))
            await eventually(lambda: len(probe.items) == 5)
            probe.request(3)
            await eventually(lambda: len(probe.items) == 8)
            trace = tap.credit(address)
            assert (trace.granted, trace.sent, trace.overdrawn, trace.early) == (8, 8, 0, False)
            probe.request(12)
        assert probe.items == list(range(20))
        probe.cancel()


async def test_a_drain_is_answered(router: str) -> None:
    drained = trio.Event()
    async with rstreams.connect(router) as connection:
        probe = ProbeSubscriber[int](5)
        connection.stream("rstreams-drained").subscribe(probe)
        await eventually(lambda: probe.subscription)
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.drain(drained.set)
        with trio.fail_after(10):
            await drained.wait()
        await connection.publish("rstreams-drained", Stream.range(3))
        await eventually(lambda: len(probe.items) == 3)
        probe.cancel()


@pytest.mark.parametrize("outcome", ["rejected", "released", "modified"])
async def test_the_outcome_is_the_receivers(router: str, outcome: str) -> None:
    address = f"rstreams-{outcome}"

    async def receive(connection: rstreams.Connection) -> None:
        async with connection.stream(address, settlement="manual").open() as deliveries:
            async for delivery in deliveries:
                settle(delivery)

    def settle(delivery: Delivery[str]) -> None:
        if outcome == "rejected":
            delivery.reject("rstreams:bad-item", "not for us")
        elif outcome == "released":
            delivery.release()
        else:
            delivery.modify(delivery_failed=True, undeliverable_here=True)

    async with rstreams.connect(router) as there, rstreams.connect(router) as here, trio.open_nursery() as nursery:
        nursery.start_soon(receive, there)
        with pytest.raises(DeliveryFailed) as caught, trio.fail_after(10):
            await here.publish(address, Stream.of("item"))
        nursery.cancel_scope.cancel()
    assert caught.value.outcome == outcome
    assert outcome != "rejected" or caught.value.condition == "rstreams:bad-item"


async def test_a_message_of_many_frames(router: str) -> None:
    body = bytes(range(250)) * 8000
    async with rstreams.connect(router) as there, rstreams.connect(router) as here, trio.open_nursery() as nursery:
        nursery.start_soon(here.publish, "rstreams-large", Stream.of(body))
        assert await there.stream("rstreams-large").first_or_none() == body


async def test_requests_and_replies(router: str) -> None:
    async with rstreams.connect(router) as there, rstreams.connect(router) as here, trio.open_nursery() as nursery:
        nursery.start_soon(there.respond, "rstreams-shout", lambda item: Stream.range(item) if item else "nothing")
        with trio.fail_after(10):
            async with here.requester("rstreams-shout") as requester:
                assert await requester.request(0) == "nothing"
                assert await requester.stream(50).to_list() == list(range(50))
        nursery.cancel_scope.cancel()
