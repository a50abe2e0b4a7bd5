"""A link's name that comes again while a link of this name is not over on both sides: each attach is a link by itself.

Spec: AMQP 1.0 sections 2.6.1 (naming a link), 2.6.2 (handles).
"""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
import trio

from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_string, encode_symbol, encode_uint
from rstreams.errors import ConnectionLost
from rstreams.net._proton.frame_fields import encoded_fields_of
from rstreams.net.transport.pump import RUN
from rstreams.protocol.frames import Attach, Detach, Role
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Side
from tests.net.foreign import SETTLED, Foreign, attach_of, foreign
from tests.net.wire import (
    AMQP_HEADER,
    SOURCE,
    TARGET,
    TRUE,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    condition_of,
    described,
    detach_frame,
    frame,
    open_frame,
    scripted,
    transfer_frame,
)

ATTACH, DETACH = b"\x00\x53\x12", b"\x00\x53\x16"
NOT_FOUND, NOT_IMPLEMENTED = "amqp:not-found", "amqp:not-implemented"

REFUSED: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "no such source": ("receiver", {"address": "nowhere"}, NOT_FOUND),
    "no such target": ("sender", {"address": "nowhere"}, NOT_FOUND),
    "a coordinator": ("sender", {"coordinator": True}, NOT_IMPLEMENTED),
    "an address of its own for a sender": ("sender", {"dynamic": True}, NOT_IMPLEMENTED),
    "no such subscription": ("receiver", {"null_terminus": True}, NOT_FOUND),
}

TAKEN: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "to a queue": ("sender", {"address": "queue"}),
    "to a multicast": ("sender", {"address": "multicast"}),
    "to a log": ("sender", {"address": "log"}),
    "to none": ("sender", {}),
    "from a queue": ("receiver", {"address": "queue"}),
    "from a multicast": ("receiver", {"address": "multicast"}),
    "from a log": ("receiver", {"address": "log"}),
    "from a stream": ("receiver", {"address": "served"}),
    "from an address of its own": ("receiver", {"dynamic": True}),
}


def add_addresses(node: Node) -> None:
    node.queue("queue")
    node.multicast("multicast")
    node.log("log", retention_items=10)
    node.serve("served", Stream.range(3))


async def detached(client: Foreign, answer: Frame) -> Frame:
    came = await client.due("detach")
    assert came["handle"] == answer["handle"]
    return came


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_link_is_asked_for_again_before_its_detach_is_answered(name: str) -> None:
    """As the BlockingConnection of Proton's Python client does."""
    role, fields, condition = REFUSED[name]
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            for handle in range(3):
                answer = await client.attach("l", role, handle=handle, **fields)
                assert answer["name"] == "l"
                assert condition_of((await detached(client, answer))["error"])[0] == condition
            await client.send(*(detach_frame(handle=handle) for handle in range(3)))
            assert (await client.attach("l", "receiver", address="served"))["source"] is not None


@pytest.mark.parametrize("name", TAKEN)
async def test_a_link_is_attached_again_while_it_lives(name: str) -> None:
    """In one session, as it is in another one."""
    role, fields = TAKEN[name]
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            for handle in range(3):
                answer = await client.attach("l", role, handle=handle, **fields)
                assert (answer["name"], answer["handle"]) == ("l", handle)
                assert answer["target" if role == "sender" else "source"] is not None
            for handle in range(3):
                await client.send(detach_frame(handle=handle))
                assert (await client.due("detach"))["handle"] == handle


async def sends(client: Foreign, number: int, handle: int) -> None:
    await client.credit(handle=handle)
    await client.send(transfer_frame(number, b"%d" % number, handle=handle))
    await client.due("disposition")


async def test_each_link_of_a_name_has_its_own_messages() -> None:
    async with Node() as node:
        queue = node.queue("queue")
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            for handle in range(3):
                await client.attach("l", "sender", address="queue", handle=handle)
                await sends(client, handle, handle)
            for number, handle in enumerate((1, 0, 2), 3):
                await client.send(transfer_frame(number, b"%d" % number, handle=handle))
                await client.due("disposition")
                await client.send(detach_frame(handle=handle))
                await client.due("detach")
            assert queue.statistics().ready == 6
            for handle in range(2):
                await client.attach("r", "receiver", address="queue", handle=handle)
                await client.grant(1, handle=handle)
                assert (await client.due("transfer"))["handle"] == handle


@pytest.mark.parametrize("ends", ["completes", "is deleted"])
async def test_a_link_that_the_node_has_ended_is_attached_again(ends: str) -> None:
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            for handle in range(3):
                answer = await client.attach("l", "receiver", address="served", handle=handle, snd=SETTLED)
                if ends == "completes":
                    await client.grant(3, handle=handle)
                    for _ in range(3):
                        assert (await client.due("transfer"))["handle"] == answer["handle"]
                else:
                    node.remove("served")
                    node.serve("served", Stream.range(3))
                await detached(client, answer)
            await client.send(*(detach_frame(handle=handle) for handle in range(3)))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("other", [0, 1], ids=["with its handle", "with another handle"])
@pytest.mark.parametrize("name", TAKEN)
async def test_a_link_is_attached_again_behind_its_own_detach(name: str, other: int, *, closed: bool) -> None:
    """Without waiting for the node's detach, and before anything of it was read."""
    role, fields = TAKEN[name]
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            again = attach_of("l", role, handle=other, **fields)
            await client.send(attach_of("l", role, **fields), detach_frame(closed=closed), again)
            heard = [await client.frame() for _ in range(3)]
            while any(each.name == "flow" for each in heard):
                heard = [each for each in heard if each.name != "flow"] + [await client.frame()]
            assert sorted(each.name for each in heard) == ["attach", "attach", "detach"]
            if name == "from a stream":
                await client.grant(3, handle=other)
                for _ in range(3):
                    await client.due("transfer")


async def test_links_of_either_role_have_one_name() -> None:
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await client.attach("l", "sender", address="queue", handle=0)
            await client.attach("l", "receiver", address="queue", handle=1)
            await client.grant(1, handle=1)
            await client.send(transfer_frame(0, b"a"))
            assert (await client.due("transfer"))["handle"] == 1


NAMES: Final = {
    "empty": encode_string(""),
    "in the longer way": b"\xb1\x00\x00\x00\x01l",
    "no ASCII": encode_string("ü" * 200),
    "no UTF-8": b"\xa1\x02a\xff",
    "with a NUL": b"\xa1\x03a\x00b",
    "long": encode_string("l" * 5000),
    "none": NULL,
}


@pytest.mark.parametrize("name", NAMES)
async def test_the_answer_has_the_name_as_it_came(name: str) -> None:
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            source = described(SOURCE, encode_string("served"))
            attach = [NAMES[name], encode_uint(0), TRUE, NULL, NULL, source, described(TARGET)]
            await client.send(frame(described(0x12, *attach)))
            head = await client.take(8)
            body = await client.take(int.from_bytes(head[:4]) - 8)
            assert encoded_fields_of(head + body)[0] == NAMES[name]
            await client.send(frame(described(0x12, NAMES[name], encode_uint(1), *attach[2:])))
            head = await client.take(8)
            body = await client.take(int.from_bytes(head[:4]) - 8)
            assert encoded_fields_of(head + body)[:2] == [NAMES[name], encode_uint(1)]


async def test_subscriptions_whose_names_differ_behind_a_nul_are_two() -> None:
    async with Node() as node:
        add_addresses(node)
        listener = await node.listen("127.0.0.1:0")
        never = (encode_uint(2), encode_symbol("never"), encode_uint(0))
        async with foreign(listener) as client:
            for handle, name in enumerate(("l", "l\0", "l\0a", "l\0b")):
                await client.attach(name, "receiver", address="multicast", handle=handle, kept=never)
        named = node.statistics().multicasts["multicast"].named
        assert [each.name for each in named] == ["l", "l\0", "l\0a", "l\0b"]


# a client's own links


@pytest.mark.parametrize("first", ["detach", "attach"])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("channel_max", [0, 65535], ids=["in one session", "in another one"])
def test_each_of_a_clients_links_gets_its_own_answer(first: str, channel_max: int, *, closed: bool) -> None:
    """Whichever of two links of a name the peer answers first, and if both answers come together."""
    side = Side("client", server=False, max_frame_bytes=65536)
    side.engine.feed(AMQP_HEADER + open_frame(channel_max=channel_max))
    side.output()
    probes = [ProbeSubscriber[bytes](1), ProbeSubscriber[bytes](1)]
    ends = [LinkSubscription(probe, ReceivingOptions(decode=bytes, window=1), print) for probe in probes]
    attach = Attach("l", Role.RECEIVER, "a", "")
    side.attach(ends[0], attach)
    side.output()
    answer = attach_frame("l", "sender", source="a", initial_delivery_count=0)
    side.engine.feed(begin_frame(0) + answer)
    side.output()
    ends[0]._goodbye = Detach(closed=closed)
    probes[0].cancel()
    side.engine.dispatch(RUN, math.inf)
    side.attach(ends[1], attach)
    said = side.output()
    assert said.index(DETACH) < said.index(ATTACH), "in the order in which they were sent"
    channel = 1 if channel_max else 0
    begun = begin_frame(1, channel=1) if channel_max else b""
    detach = detach_frame(closed=closed)
    answer = attach_frame("l", "sender", source="a", initial_delivery_count=0, handle=1, channel=channel)
    side.engine.feed(begun + (detach + answer if first == "detach" else answer + detach))
    side.output()
    side.engine.feed(transfer_frame(0, b"hello", handle=1, channel=channel, settled=True))
    side.output()
    assert [len(probe.items) for probe in probes] == [0, 1]
    assert side.failures == []
    side.engine.links.lose(ConnectionLost("the end"))
    side.engine.free()


async def test_a_peer_that_attaches_links_of_one_name_to_a_client_is_refused_each_time() -> None:
    over = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        await peer.expect("attach")
        for handle in range(7, 10):
            await peer.send(attach_frame("mine", "receiver", source="x", target="y", handle=handle))
            answer = await peer.expect("attach")
            assert answer["name"] == "mine"
            assert (await peer.expect("detach"))["handle"] == answer["handle"]
        over.set()
        await peer.closes()

    async with scripted(script) as connection:
        connection.stream("a").subscribe(ProbeSubscriber[Any](1))
        await over.wait()
