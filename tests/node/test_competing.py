"""The policies of queues, played without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from rstreams.message import encode_item
from rstreams.node.address import NodeServices, SubscriptionOwner
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions, DropWhenFull
from rstreams.node.written import Begun
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.node.durable import bench, bodies

CAPACITY = 5


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("when_full", ["drop_oldest", "drop_newest"])
def test_a_backlog_keeps_its_bound_while_a_link_that_has_gone_gives_nothing_back(
    tmp_path: Path, when_full: DropWhenFull, *, durable: bool
) -> None:
    with bench(tmp_path) as place:
        options = BacklogOptions(items=CAPACITY, when_full=when_full, store=place.store if durable else None)
        address = MulticastAddress("prices", "drop_oldest", 16, options)
        address.begin(NodeServices(lambda: 0.0, lambda _: None, lambda function, *_: None, lambda _: None))  # noqa: ARG005
        partition = place.store.partition("multicast") if durable else None
        named = address.named._begin(SubscriptionOwner("shop", "billing", None), partition, Begun())
        publisher = ManualPublisher[bytes]()
        publisher.subscribe(address.producer())
        gone, following = ProbeSubscriber[bytes](3, hold=True), ProbeSubscriber[bytes](100)
        publisher.next(*map(encode_item, range(3)))
        place.run()
        named.backlog.subscribe(gone)
        place.run()
        assert gone.subscription is not None
        gone.subscription.cancel()
        named.backlog.subscribe(following)
        for number in range(3, 6_003):
            publisher.next(encode_item(number))
            if not publisher.outstanding:
                place.run()
        place.run()
        now = named.statistics()
        assert now.waiting + now.unsettled == CAPACITY
        assert now.dropped == 6_003 - CAPACITY
        assert not following.items
        for hold in gone.holds:
            hold.release()
        place.run()
        kept = [6_001, 6_002] if when_full == "drop_oldest" else [3, 4]
        assert bodies(following) == [0, 1, 2, *kept]
