"""The example broker of the proton project, in C: no credentials, and credit kept exactly."""

from __future__ import annotations

import pytest

import rstreams
from rstreams import Stream
from rstreams.testing import ProbeSubscriber
from tests.interop.processes import Server, eventually

pytestmark = pytest.mark.broker


async def test_a_queue_goes_round_its_consumers_one_credit_at_a_time(proton_broker: Server) -> None:
    async with rstreams.connect(proton_broker.url) as connection:
        probes = [ProbeSubscriber[int](number) for number in (1, 2, 3)]
        for probe in probes:
            connection.stream("round").subscribe(probe)
        await eventually(lambda: all(probe.subscription for probe in probes))
        await connection.publish("round", Stream.range(10))
        await eventually(lambda: sum(len(probe.items) for probe in probes) == 6)
        assert [len(probe.items) for probe in probes] == [1, 2, 3]
        for probe in probes:
            probe.cancel()
        assert await connection.stream("round").take(4).to_list() == [6, 7, 8, 9]
