"""Frames that break the protocol in one session: that session ends with the condition for it, and the others stay.

Spec: AMQP 1.0 sections 2.5.4 (ending), 2.7.5 (transfer), 2.8.15 and 2.8.17 (conditions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_uint
from rstreams.errors import RemoteProtocolError
from rstreams.testing import ProbeSubscriber
from tests.net.foreign import attach_of, foreign
from tests.net.over_tcp import until
from tests.net.peers import break_a_session
from tests.net.wire import (
    FALSE,
    TRUE,
    Peer,
    attach_frame,
    begin_frame,
    condition_of,
    described,
    detach_frame,
    end_frame,
    flow_frame,
    frame,
    scripted,
    transfer_frame,
)

UNATTACHED, IN_USE = "amqp:session:unattached-handle", "amqp:session:handle-in-use"
NOT_ALLOWED, INVALID = "amqp:not-allowed", "amqp:invalid-field"


def transfer(number: int | None, *, more: bool = False, settled: bool = False) -> bytes:
    """Return a transfer on the first link; without a delivery-id it may go on with the message before."""
    said = NULL if number is None else encode_uint(number)
    fields = [encode_uint(0), said, b"\xa0\x01t", encode_uint(0), TRUE if settled else FALSE, TRUE if more else FALSE]
    return frame(described(0x14, *fields), b"\x00Su\xa0\x01a")


BREACHES: Final[dict[str, tuple[Sequence[bytes], str, str]]] = {
    "a transfer of no link": ([transfer_frame(0, b"a", handle=7)], UNATTACHED, "transfer with handle 7"),
    "a flow of no link": ([flow_frame(handle=7)], UNATTACHED, "flow with handle 7"),
    "a detach of no link": ([detach_frame(handle=7)], UNATTACHED, "detach with handle 7"),
    "a transfer behind a detach": ([detach_frame(), transfer(0)], UNATTACHED, "transfer with handle 0"),
    "a detach behind a detach": ([detach_frame()] * 2, UNATTACHED, "detach with handle 0"),
    "a handle twice": ([attach_of("m", "sender", address="queue")], IN_USE, "handle 0"),
    "a transfer of a receiver": (
        [attach_of("m", "receiver", address="queue", handle=1), transfer_frame(0, b"a", handle=1)],
        NOT_ALLOWED,
        "it is the receiver",
    ),
    "no number": ([transfer(None)], INVALID, "delivery-id"),
    "a number that jumps": ([transfer(0), transfer(5)], INVALID, "delivery-id"),
    "a number twice": ([transfer(0), transfer(0)], INVALID, "delivery-id"),
    "a number that goes back": ([transfer(9), transfer(8)], INVALID, "delivery-id"),
    "another number within a message": ([transfer(0, more=True), transfer(1)], INVALID, "delivery-id"),
    "a number that jumps behind parts": (
        [transfer(0, more=True), transfer(None), transfer(2)],
        INVALID,
        "delivery-id",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
async def test_a_node_ends_the_session_alone(name: str) -> None:
    frames, condition, text = BREACHES[name]
    async with Node() as node:
        node.queue("queue")
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await client.send(begin_frame(None, channel=1))
            await client.expect("begin")
            await client.attach("l", "sender", address="queue")
            await client.credit()
            await client.send(*frames, transfer_frame(99, b"late"), attach_of("late", "sender", address="queue"))
            while (came := await client.frame()).name != "end":
                assert came.name in ("flow", "disposition", "attach", "detach"), came
            told = condition_of(came["error"])
            assert told[0] == condition
            assert text in told[1]
            # the other session lives
            await client.send(attach_frame("n", "receiver", source="numbers", channel=1))
            assert (await client.due("attach")).channel == 1
            # and the channel is free when this side has ended the session, too
            await client.send(end_frame(), begin_frame(None))
            assert (await client.due("begin"))["remote-channel"] == 0
            await client.attach("l", "sender", address="queue")
            await client.credit()
            await client.send(transfer(3))
            await client.due("disposition")


OF_NODES: Final = {
    "a handle twice",
    "a transfer of a receiver",
    "a transfer behind a detach",
    "a detach behind a detach",
}
CLIENTS: Final = [name for name in BREACHES if name not in OF_NODES]


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_ends_the_session_and_its_user_reads_why(name: str) -> None:
    frames, condition, text = BREACHES[name]

    async def script(peer: Peer) -> None:
        came = await break_a_session(peer, *frames, answer="end")
        assert condition_of(came["error"])[0] == condition
        await peer.send(end_frame())
        # another stream of the connection begins another session
        begin = await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source="b", channel=begin.channel))
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(RemoteProtocolError, match=text) as raised:
            await connection.stream("a", window=16).to_list()
        assert raised.value.condition == condition
        assert connection.status.state == "connected"
        probe = ProbeSubscriber[bytes](0)
        connection.stream("b").subscribe(probe)
        await until(lambda: "on_subscribe" in probe.signals)


async def test_a_stream_of_another_session_goes_on() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        channels = []
        for _ in range(2):
            begin = await peer.begins()
            attach = await peer.expect("attach")
            channels.append(begin.channel)
            await peer.send(
                attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0, channel=begin.channel)
            )
            while not (await peer.frame())["link-credit"]:
                pass
        await peer.send(transfer_frame(0, b"a", handle=7, channel=channels[0]))
        await peer.expect("end")
        await peer.send(transfer_frame(0, b"a", channel=channels[1], settled=True))
        await peer.closes()

    async with scripted(script) as connection:
        probes = [ProbeSubscriber[bytes](4), ProbeSubscriber[bytes](4)]
        connection.stream("a").subscribe(probes[0])
        await until(lambda: "on_subscribe" in probes[0].signals)
        connection.stream("b").subscribe(probes[1])
        await until(lambda: probes[1].items == [b"a"])
        assert isinstance(probes[0].error, RemoteProtocolError)
