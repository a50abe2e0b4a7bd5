"""Streams of one connection that are opened, drained and cancelled at random: the next one gets all its items."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import rstreams
from rstreams import Node, Stream
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.interop.tap import tapped
from tests.net.over_tcp import pump_of, until
from tests.net.wire import Handles

KB = 1024
SIZES = (*[9000] * 20, 1, 70 * KB)

OPTIONS = st.fixed_dictionaries(
    {
        "settlement": st.sampled_from(["at_least_once", "at_most_once"]),
        "window": st.sampled_from([4, 30, 300]),
        "window_bytes": st.sampled_from([None, 1, 64 * KB, 128 * KB]),
    }
)
OPEN = st.tuples(st.sampled_from(["open", "storm"]), OPTIONS)
ACT = st.tuples(
    st.sampled_from(["request", "drain", "suspend", "resume", "cancel", "cancel", "subscribed", "turn"]),
    st.integers(0, 3),
)
STEPS = st.lists(st.one_of(OPEN, ACT, ACT), max_size=30)


async def act(probes: list[ProbeSubscriber[bytes]], what: str, number: int) -> None:
    """Do something with one of the streams that are open."""
    if what == "turn":
        await trio.lowlevel.checkpoint()
    if not probes or what == "turn":
        return
    probe = probes[number % len(probes)]
    if what == "subscribed":
        await until(lambda: "on_subscribe" in probe.signals)
    link = probe.subscription
    if not isinstance(link, LinkSubscription):
        return
    if what == "request":
        link.request(10 * (number + 1))
    elif what == "drain":
        link.drain(lambda: None)
    elif what == "suspend":
        link.suspend()
    elif what == "resume":
        link.resume()
    elif what == "cancel":
        link.cancel()
        probes.remove(probe)


async def storm(stream: Stream[bytes]) -> None:
    """Open a stream and cancel it again and again, each time while the last link is being detached."""
    for _ in range(20):
        async with stream.open() as items:  # asks for a whole window
            assert await anext(items)


async def play(steps: list[tuple[str, Any]]) -> None:
    items = [bytes(SIZES[number % len(SIZES)]) for number in range(40)]
    async with Node() as node:
        node.serve("endless", Stream.range(10**6).map(lambda number: bytes(SIZES[number % len(SIZES)])))
        node.serve("all", Stream.from_iterable(items))
        listener = await node.listen("127.0.0.1:0")
        async with tapped(listener.url) as tap:
            async with rstreams.connect(tap.url) as connection:
                probes: list[ProbeSubscriber[bytes]] = []
                for what, how in steps:
                    if what == "open":
                        probes.append(ProbeSubscriber(3))
                        connection.stream("endless", **how).subscribe(probes[-1])
                    elif what == "storm":
                        await storm(connection.stream("endless", **how))
                    else:
                        await act(probes, what, how)
                while probes:
                    await act(probes, "subscribed", 0)
                    await act(probes, "cancel", 0)
                for settlement in ("at_least_once", "at_most_once"):
                    for window_bytes in (None, 1, 64 * KB):
                        stream = connection.stream("all", settlement=settlement, window_bytes=window_bytes)
                        assert await stream.to_list() == items
                await until(lambda: not pump_of(connection).engine.links.drivers)
            await until(lambda: not node.statistics().connections)
            budget = node._options.budget
            assert (budget.used, budget.taken, node._options.unfinished.size) == (0, 0, 0)
        handles = {"ours": Handles(), "theirs": Handles()}
        for who, frame in tap.frames:
            handles[who].check(frame)


@pytest.mark.slow
@settings(max_examples=20)
@given(STEPS)
def test_after_any_cancels_the_next_stream_gets_all_its_items(steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        with trio.fail_after(120):
            await play(steps)

    trio.run(run)
