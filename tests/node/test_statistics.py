"""A node's numbers as plain data."""

import json

from rstreams.message import decode_body, encode_item
from rstreams.node.multicast import MulticastAddress
from rstreams.node.queue import Queue
from rstreams.node.served import Served
from rstreams.node.statistics import NodeStatistics
from rstreams.testing import ManualPublisher, ProbeSubscriber


def test_a_snapshot_is_plain_data_for_json_and_for_an_amqp_map() -> None:
    queue, multicast = Queue("work"), MulticastAddress("news", "drop_oldest", capacity=2)
    served = Served("prices", ManualPublisher[str]())
    multicast.subscribe(ProbeSubscriber(1))
    statistics = NodeStatistics(
        container_id="node-1",
        connections=2,
        queues={"work": queue.statistics()},
        multicasts={"news": multicast.statistics()},
        served={"prices": served.statistics()},
    )
    plain = statistics.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert decode_body(encode_item(plain)) == plain
    assert plain["queues"]["work"]["capacity"] == 1024
    assert plain["multicasts"]["news"]["subscribers"][0]["demand"] == 1
    assert plain["served"]["prices"]["subscribers"] == 0
