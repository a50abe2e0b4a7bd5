"""Transfers and dispositions that are allowed and seldom seen, or that lie: what comes of them, in C and in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
import trio

from rstreams import Stream
from rstreams._codec.encode import NULL, encode_sized, encode_uint
from rstreams.errors import DeliveryFailed, RemoteProtocolError
from tests.net.peers import SendingPeer, break_a_session, settle_ten
from tests.net.wire import (
    ACCEPT,
    FALSE,
    TRUE,
    Peer,
    attach_frame,
    condition_of,
    described,
    detach_frame,
    disposition_frame,
    flow_frame,
    frame,
    outcome_of,
    scripted,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")

OK: Final = b"\x00Su\xa0\x02ok"


def transfer(
    number: int | None,
    payload: bytes = b"",
    *,
    tag: bytes | None = b"t",
    settled: bool = False,
    more: bool = False,
    aborted: bool = False,
) -> bytes:
    """Return any transfer; without a number it goes on with the delivery begun last."""
    fields = [
        encode_uint(0),
        NULL if number is None else encode_uint(number),
        NULL if tag is None else encode_sized(0xA0, 0xB0, tag, "tag"),
        encode_uint(0),
        TRUE if settled else NULL,
        TRUE if more else FALSE,
        *[NULL] * 3,
        TRUE if aborted else NULL,
    ]
    return frame(described(0x14, *fields), payload)


def sender_disposition(first: int, last: int) -> bytes:
    return frame(described(0x15, FALSE, encode_uint(first), encode_uint(last), TRUE))


ALLOWED: Final[dict[str, tuple[Sequence[bytes], list[Any], set[int]]]] = {
    "aborted at once": ([transfer(0, aborted=True), transfer(1, OK)], [b"ok"], {1}),
    "aborted and settled": ([transfer(0, aborted=True, settled=True), transfer(1, OK)], [b"ok"], {1}),
    "aborted in between": ([transfer(0, OK), transfer(1, aborted=True), transfer(2, OK)], [b"ok", b"ok"], {0, 2}),
    "aborted with a payload": ([transfer(0, OK, more=True), transfer(None, OK, aborted=True)], [], set()),
    "aborted, and more": ([transfer(0, OK, more=True), transfer(None, more=True, aborted=True)], [], set()),
    "aborted among settled": (
        [transfer(0, OK, settled=True), transfer(1, aborted=True), transfer(2, OK, settled=True), transfer(3, OK)],
        [b"ok"] * 3,
        {3},
    ),
    "settled in turns": ([transfer(n, OK, settled=n % 2 == 1) for n in range(4)], [b"ok"] * 4, {0, 2}),
    "settled in the last part": (
        [transfer(0, OK[:3], more=True), transfer(None, OK[3:], settled=True)],
        [b"ok"],
        set(),
    ),
    "settled between parts": (
        [transfer(0, OK[:3], more=True), sender_disposition(0, 0), transfer(None, OK[3:])],
        [b"ok"],
        set(),
    ),
    "settled by what was never sent": ([sender_disposition(0, 9), transfer(0, OK)], [b"ok"], {0}),
    "of parts without bytes": (
        [transfer(0, more=True), *[transfer(None, more=True)] * 9, transfer(None, OK)],
        [b"ok"],
        {0},
    ),
    "without a number": ([transfer(0, OK), transfer(None, OK)], [b"ok", b"ok"], {0, 1}),
    "without a tag": ([transfer(0, OK, tag=None), transfer(1, OK, tag=b"")], [b"ok", b"ok"], {0, 1}),
    "with a long tag": ([transfer(0, OK, tag=b"t" * 300)], [b"ok"], {0}),
    "without bytes": ([transfer(0)], [None], {0}),
    "with an empty body": ([transfer(0, b"\x00Su\xa0\x00")], [b""], {0}),
    "cut off by the end": ([transfer(0, OK), transfer(1, OK, more=True)], [b"ok"], {0}),
}


@pytest.mark.parametrize("name", ALLOWED)
async def test_what_is_allowed_is_taken(name: str) -> None:
    frames, items, settled = ALLOWED[name]
    outcomes: dict[int, str] = {}

    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await peer.send(*frames, detach_frame())
        while (came := await peer.frame()).name != "detach":
            if came.name == "disposition":
                numbers = range(came["first"], (came["first"] if came["last"] is None else came["last"]) + 1)
                outcomes.update(dict.fromkeys(numbers, outcome_of(came["state"])))
        await peer.closes()

    async with scripted(script) as connection:
        assert await connection.stream("a", window=16).to_list() == items
        assert connection.status.state == "connected"
    assert outcomes == dict.fromkeys(settled, "accepted")


BAD_MESSAGES: Final = {
    "longer than the frame": b"\x00Su\xb0\x7f\xff\xff\xffok",
    "of a negative length": b"\x00Su\xb0\xff\xff\xff\xffok",
    "shorter than what there is": b"\x00Su\xa0\x01ok",
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
async def test_a_message_that_lies_about_its_size_ends_its_link(name: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        sender.sent = 2
        await peer.send(transfer(0, BAD_MESSAGES[name]), transfer(1, OK))
        while sender.detach is None:
            await sender.hear()
        assert sender.outcomes == {0: "modified", 1: "released"}
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(RemoteProtocolError, match="amqp:decode-error"):
            await connection.stream("a", window=16).to_list()
        assert connection.status.state == "connected"


@pytest.mark.parametrize(
    "frames",
    [
        [transfer(0, OK, settled=True, more=True), frame(described(0x14, encode_uint(0), *[NULL] * 3, FALSE, FALSE))],
        [transfer(0, OK), sender_disposition(0, 2**31)],
    ],
    ids=["unsettled again", "too wide a range"],
)
async def test_what_the_engine_takes_for_a_breach_ends_the_connection(frames: list[bytes]) -> None:
    told: list[tuple[str, str]] = []

    async def script(peer: Peer) -> None:
        told.append(condition_of((await break_a_session(peer, *frames, answer="close"))["error"]))

    async with scripted(script) as connection:
        with pytest.raises(RemoteProtocolError) as raised:
            await connection.stream("a", window=16).to_list()
    assert raised.value.condition == told[0][0]


@pytest.mark.parametrize(
    "frames",
    [
        [disposition_frame(0, 9, ACCEPT)] * 2,
        [disposition_frame(number, number, ACCEPT) for number in reversed(range(10))],
        [disposition_frame(0, 2**31 - 1, ACCEPT)],
        [disposition_frame(2**31 + 10, 9, ACCEPT)],
        [disposition_frame(100, 500, ACCEPT), disposition_frame(0, 9, ACCEPT)],
        [disposition_frame(0, 9, described(0x23, NULL, NULL), settled=False), disposition_frame(0, 9, ACCEPT)],
        [disposition_frame(0, 9, NULL, settled=False), disposition_frame(0, 9, ACCEPT)],
    ],
    ids=["twice", "backwards", "and all to come", "and all before", "what was not sent", "received", "no state"],
)
async def test_outcomes_are_heard_however_they_are_told(frames: list[bytes]) -> None:
    async def script(peer: Peer) -> None:
        await settle_ten(peer, *frames)

    async with scripted(script) as connection:
        assert (await connection.publish("a", Stream.range(10))).accepted == 10


@pytest.mark.parametrize("count", [0, 2**32 - 1, 2**31, 5])
async def test_credit_counts_from_wherever_the_receiver_stands(count: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        credit = (attach["delivery-count"] + 10 - count) % 2**32
        await peer.send(
            attach_frame(attach["name"], "receiver", target="a"), flow_frame(delivery_count=count, credit=credit)
        )
        for _ in range(10):
            await peer.expect("transfer")
        await peer.is_silent()
        await peer.closes()

    async with scripted(script) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.publish, "a", Stream.range(100))
        await trio.sleep(10)
        nursery.cancel_scope.cancel()


async def test_a_rejection_whose_error_is_a_number_is_a_rejection() -> None:
    async def script(peer: Peer) -> None:
        await settle_ten(peer, disposition_frame(0, 9, described(0x25, b"\x54\x05")))

    async with scripted(script) as connection:
        with pytest.raises(DeliveryFailed) as raised:
            await connection.publish("a", Stream.range(10))
        assert raised.value.outcome == "rejected"
