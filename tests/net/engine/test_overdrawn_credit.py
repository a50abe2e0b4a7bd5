"""A sender has the credit it was given, whatever it says of it, and what it overdraws is not kept."""

from __future__ import annotations

import math
from functools import partial

import pytest
from cproton_ffi import lib

from rstreams import Node
from rstreams._codec.encode import NULL, encode_uint
from rstreams.errors import RemoteProtocolError
from rstreams.net._proton import LinkDriver
from rstreams.net._proton.receiving_driver import MAX_LATE_BYTES
from rstreams.net.transport.pump import RUN
from rstreams.node import Client
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Alone
from tests.net.wire import (
    AMQP_HEADER,
    attach_frame,
    begin_frame,
    described,
    detach_frame,
    frame,
    open_frame,
    transfer_frame,
)

NUMBERS = [None, 0, 1, 2, 3, 2**31, 2**31 + 1, 2**31 + 2, 2**31 + 3, 2**32 - 1]


def counting_flow(count: int | None, *, drain: bool = False, echo: bool = False) -> bytes:
    numbers = [0, 2**31 - 1, 0, 2**31 - 1, 0, count, 2**32 - 1, None]
    fields = [NULL if number is None else encode_uint(number) for number in numbers]
    return frame(described(0x13, *fields, b"\x41" if drain else b"\x42", b"\x41" if echo else b"\x42"))


def producing(node: Node, count: int = 0) -> Alone:
    """Return a node's end of a connection, to which a producer has been attached."""
    alone = Alone()
    alone.side.answer = partial(node._on_attach, Client())
    attach = attach_frame("l", "sender", target="queue", initial_delivery_count=count)
    alone.feed(AMQP_HEADER + open_frame() + begin_frame(None) + attach)
    return alone


@pytest.mark.parametrize("asks", [{}, {"echo": True}, {"drain": True}])
@pytest.mark.parametrize("count", NUMBERS)
def test_a_delivery_count_that_goes_back_gives_no_credit(count: int | None, asks: dict[str, bool]) -> None:
    node = Node()
    queue = node.queue("queue", capacity=2)
    alone = producing(node)
    (driver,) = alone.side.engine.links.drivers
    for number in range(2):
        alone.feed(transfer_frame(number, b"x"))
    assert lib.pn_link_credit(driver.pointer) == 0
    alone.feed(counting_flow(count, **asks))
    assert lib.pn_link_credit(driver.pointer) <= 0
    alone.feed(transfer_frame(2, b"x"))
    assert driver.link is not None
    assert driver.link.state is State.DETACH_SENT, "it has sent more than its credit"
    assert (queue.statistics().enqueued, queue.statistics().producers) == (2, 0)
    alone.free()


def test_a_sender_that_gives_up_credit_gets_new_credit_for_it() -> None:
    node = Node()
    queue = node.queue("queue", capacity=2)
    alone = producing(node)
    alone.feed(counting_flow(1))
    for number in range(2):
        alone.feed(transfer_frame(number, b"x"))
        alone.feed(counting_flow(number + 2))
    assert queue.statistics().enqueued == 2
    assert alone.side.failures == []
    alone.free()


@pytest.mark.parametrize("settled", [False, True])
def test_what_comes_on_a_link_that_has_been_ended_is_not_kept(settled: bool) -> None:  # noqa: FBT001
    node = Node()
    queue = node.queue("queue", capacity=1)
    alone = producing(node)
    (driver,) = alone.side.engine.links.drivers
    for number in range(100):
        alone.feed(transfer_frame(number, b"x" * 10_000, settled=settled))
    assert driver.link is not None
    assert driver.link.state is State.DETACH_SENT
    assert lib.pn_link_unsettled(driver.pointer) <= MAX_LATE_BYTES // 10_000
    assert alone.side.engine._host.late_bytes <= MAX_LATE_BYTES
    assert queue.statistics().enqueued == 1
    alone.feed(detach_frame())
    assert alone.side.engine.links.drivers == []
    assert alone.side.engine._host.late_bytes == 0
    assert not alone.side.engine.dispatch(RUN, math.inf)
    assert alone.side.failures == []
    alone.free()


@pytest.mark.parametrize("settled", [False, True])
def test_items_beyond_credit_that_came_in_one_turn_are_not_made_good_by_the_next_grant(settled: bool) -> None:  # noqa: FBT001
    """Runs of one delivery are read one by one, and between two of them the receiver grants what it has room for."""
    alone, probe = Alone(), ProbeSubscriber[bytes](1000)

    def take(driver: LinkDriver, attach: Attach) -> None:
        end = LinkSubscription(probe, ReceivingOptions(decode=bytes, window=2), print)
        link = end.bind(attach.name, driver)
        driver.bind(link, end.intake)
        link.receive(attach)
        link.send(Attach(attach.name, Role.RECEIVER, attach.source, attach.target, attach.settlement, mixed=True))
        end.start()

    alone.side.answer = take
    alone.feed(
        AMQP_HEADER
        + open_frame()
        + begin_frame(None)
        + attach_frame("l", "sender", target="a", initial_delivery_count=0)
    )
    (driver,) = alone.side.engine.links.drivers
    assert lib.pn_link_credit(driver.pointer) == 2
    runs = [transfer_frame(number, b"x", settled=(number % 2 == 0) is settled) for number in range(97)]
    alone.feed(b"".join(runs))
    assert len(probe.items) <= 2, "what it had credit for"
    assert isinstance(probe.error, RemoteProtocolError)
    assert probe.error.condition == "amqp:link:transfer-limit-exceeded"
    assert driver.link is not None
    assert driver.link.state is State.DETACH_SENT
    alone.free()
