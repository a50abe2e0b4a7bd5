"""Types that a peer writes by their names: `amqp:accepted:list` is what 0x24 is, wherever it stands.

Spec: AMQP 1.0 section 1.3 (type notation): a descriptor is a symbol or a number.
"""

from __future__ import annotations

from typing import Final

import pytest

from rstreams import Node, Stream
from rstreams._codec.encode import NULL, encode_fields, encode_sized, encode_string, encode_symbol, encode_uint
from rstreams.errors import ConnectionClosed, DeliveryFailed, LinkDetached, RStreamsError, SessionEnded
from tests.net.foreign import Foreign, foreign
from tests.net.over_tcp import until
from tests.net.peers import ReceivingPeer, break_a_session, settle_ten
from tests.net.wire import (
    FALSE,
    TRUE,
    Peer,
    close_frame,
    condition_of,
    described,
    detach_frame,
    disposition_frame,
    end_frame,
    frame,
    scripted,
    transfer_frame,
)


def named(name: str, *fields: bytes, wide: bool = False) -> bytes:
    """Return a described list whose descriptor is a symbol."""
    symbol = f"amqp:{name}:list".encode()
    descriptor = encode_sized(0xA3, 0xB3, symbol, "symbol") if not wide else b"\xb3" + len(symbol).to_bytes(4) + symbol
    return b"\x00" + descriptor + encode_fields(fields)


WHY: Final = named("error", encode_symbol("app:why"), encode_string("because"), NULL)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("settled", [True, False], ids=["settled", "settled second"])
async def test_outcomes_for_a_client(*, wide: bool, settled: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=10)
        await receiver.takes(10)
        accepted = named("accepted", wide=wide)
        modified = named("modified", TRUE, TRUE, wide=wide)
        await peer.send(
            disposition_frame(0, 6, accepted, settled=settled),
            disposition_frame(7, 7, named("rejected", WHY, wide=wide), settled=settled),
            disposition_frame(8, 8, named("released", wide=wide), settled=settled),
            disposition_frame(9, 9, modified, settled=settled),
        )
        while (await peer.frame()).name != "detach":
            pass
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(DeliveryFailed) as raised:
            await connection.publish("a", Stream.range(10))
    told = raised.value.published
    assert told is not None
    assert (told.accepted, told.refused[7].outcome, told.refused[7].condition) == (7, "rejected", "app:why")
    assert [told.refused[number].outcome for number in (8, 9)] == ["released", "modified"]


OUTCOMES: Final = {
    "accepted": (named("accepted"), "accepted"),
    "rejected": (named("rejected", WHY), "rejected"),
    "released": (named("released"), "released"),
    "modified": (named("modified", TRUE), "modified"),
}


async def send_and_ask(client: Foreign, *, credit: int) -> None:
    """Send one message to the queue, and ask for it."""
    await client.attach("s", "sender", address="queue")
    await client.credit()
    await client.send(transfer_frame(0, b"a"))
    await client.due("disposition")
    await client.attach("r", "receiver", address="queue", handle=1)
    await client.grant(credit, handle=1)


@pytest.mark.parametrize("name", OUTCOMES)
async def test_outcomes_for_a_node(name: str) -> None:
    state, counted = OUTCOMES[name]
    async with Node() as node:
        queue = node.queue("queue")
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await send_and_ask(client, credit=1)
            await client.due("transfer")
            await client.send(disposition_frame(0, 0, state))
            await until(lambda: getattr(queue.statistics(), counted) == 1)


TERMINI: Final[dict[str, tuple[bytes, bytes, bytes]]] = {
    "a source": (TRUE, named("source", encode_string("queue")), named("target")),
    "a target": (FALSE, named("source"), named("target", encode_string("queue"))),
    "a coordinator": (FALSE, named("source"), named("coordinator")),
}


@pytest.mark.parametrize("name", TERMINI)
async def test_termini_at_a_node(name: str) -> None:
    role, source, target = TERMINI[name]
    async with Node() as node:
        node.queue("queue")
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            fields = [encode_string("l"), encode_uint(0), role, NULL, NULL, source, target, NULL, NULL, encode_uint(0)]
            await client.send(frame(described(0x12, *fields)))
            answer = await client.due("attach")
            if name == "a coordinator":
                told = condition_of((await client.due("detach"))["error"])
                assert told == ("amqp:not-implemented", "this node has no transactions")
            else:
                assert answer[name[2:]].value[0] == "queue"


ENDS: Final[dict[str, tuple[bytes, type[RStreamsError]]]] = {
    "detach": (detach_frame(why=WHY), LinkDetached),
    "end": (end_frame(WHY), SessionEnded),
    "close": (close_frame(WHY), ConnectionClosed),
}


@pytest.mark.parametrize("name", ENDS)
async def test_errors_for_a_client(name: str) -> None:
    sent, kind = ENDS[name]

    async def script(peer: Peer) -> None:
        await break_a_session(peer, sent, answer=name)
        if name != "close":
            await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(kind, match="because") as raised:
            await connection.stream("a").to_list()
        assert getattr(raised.value, "condition", None) == "app:why"


# neither of the four outcomes


UNDECIDED: Final[dict[str, tuple[bytes, str]]] = {
    "none": (NULL, "without an outcome"),
    "received": (described(0x23, encode_uint(0), NULL), "0x23"),
    "received, by its name": (named("received", encode_uint(0), NULL), "0x23"),
    "declared": (described(0x33, b"\xa0\x01x"), "0x33"),
    "transactional": (described(0x34, b"\xa0\x01x", described(0x24)), "0x34"),
    "transactional, by its name": (named("transactional-state", b"\xa0\x01x", described(0x24)), "0x34"),
    "of another product": (described(0x99), "0x99"),
    "a number": (b"\x54\x05", "without an outcome"),
}


@pytest.mark.parametrize("name", UNDECIDED)
async def test_what_is_settled_without_an_outcome_has_failed_for_a_client(name: str) -> None:
    state, text = UNDECIDED[name]

    async def script(peer: Peer) -> None:
        await settle_ten(peer, disposition_frame(0, 9, state))

    async with scripted(script) as connection:
        with pytest.raises(DeliveryFailed, match=text) as raised:
            await connection.publish("a", Stream.range(10))
        assert (raised.value.outcome, raised.value.delivery_failed) == ("modified", True)
        assert connection.status.state == "connected"


@pytest.mark.parametrize("name", UNDECIDED)
async def test_what_is_settled_without_an_outcome_counts_as_an_attempt_at_a_node(name: str) -> None:
    state, _ = UNDECIDED[name]
    async with Node() as node:
        queue = node.queue("queue", max_deliveries=2)
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await send_and_ask(client, credit=2)
            for number in range(2):
                assert (await client.due("transfer"))["delivery-id"] == number
                await client.send(disposition_frame(number, number, state))
            await until(lambda: queue.statistics().ready == queue.statistics().unsettled == 0)
            assert queue.statistics().modified == 2


# messages of transactions


IN_TRANSACTION: Final[dict[str, bytes]] = {
    "by its number": described(0x34, b"\xa0\x01x"),
    "by its long number": b"\x00\x80" + (0x34).to_bytes(8) + encode_fields([b"\xa0\x01x"]),
    "by its name": named("transactional-state", b"\xa0\x01x"),
    "by its name, in the longer way": named("transactional-state", b"\xa0\x01x", wide=True),
}


def transactional(number: int, state: bytes, *, settled: bool, more: bool) -> bytes:
    fields = [encode_uint(0), encode_uint(number), b"\xa0\x01t", encode_uint(0)]
    flags = [TRUE if settled else FALSE, TRUE if more else FALSE]
    return frame(described(0x14, *fields, *flags, NULL, state), b"\x00\x53\x75\xa0\x01a")


@pytest.mark.parametrize("more", [False, True], ids=["whole", "in parts"])
@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "settled"])
@pytest.mark.parametrize("name", IN_TRANSACTION)
async def test_a_message_of_a_transaction_is_refused(name: str, *, settled: bool, more: bool) -> None:
    async with Node() as node:
        queue = node.queue("queue")
        listener = await node.listen("127.0.0.1:0")
        async with foreign(listener) as client:
            await client.attach("s", "sender", address="queue")
            await client.credit()
            sent = [transactional(0, IN_TRANSACTION[name], settled=settled, more=more)]
            if more:
                rest = [encode_uint(0), *[NULL] * 4, FALSE]
                sent.append(frame(described(0x14, *rest), b"b"))
            await client.send(*sent)
            came = await client.due("detach" if settled else "disposition")
            told = condition_of(came["error"] if settled else came["state"].value[0])
            assert told[0] == "amqp:not-implemented"
            assert "transaction" in told[1]
            assert queue.statistics().ready == 0
