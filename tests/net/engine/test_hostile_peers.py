"""What a peer sends is read whatever it is, and what one peer does no other connection notices."""

from __future__ import annotations

import logging
from typing import Literal

import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams.errors import DeliveryFailed, LinkDetached, PublisherFailed

OPEN = b"AMQP\x00\x01\x00\x00\x00\x00\x00\x11\x02\x00\x00\x00\x00S\x10\xc0\x04\x01\xa1\x01x"
BEGIN = b"\x00\x00\x00\x1f\x02\x00\x00\x00\x00S\x11\xc0\x12\x05@Cp\x7f\xff\xff\xffp\x7f\xff\xff\xffp\x7f\xff\xff\xff"
ATTACH = (  # name: four bytes that are no UTF-8; role: receiver; source: s
    b"\x00\x00\x00\x36\x02\x00\x00\x00"
    b"\x00S\x12\xc0\x29\x0b\xa1\x04\xff\xfe\x9c\xd7CAP\x00P\x00"
    b"\x00S(\xc0\x08\x05\xa1\x01sC@CB\x00S)\xc0\x06\x05@C@CB@@CD"
)


async def test_a_link_name_that_is_no_text_ends_no_node() -> None:
    async with rstreams.Node() as node:
        node.serve("s", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        async with stream:
            await stream.send_all(OPEN + BEGIN + ATTACH)
            await _answered(stream, b"\x00S\x12")
        async with rstreams.connect(listener.url) as connection:
            assert await connection.stream("s").to_list() == [0, 1, 2]


async def test_a_fault_that_one_connection_hits_is_logged_and_ends_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.CRITICAL, "rstreams.net")
    async with rstreams.Node() as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:

            async def fails(*_: object) -> None:
                raise ZeroDivisionError

            with monkeypatch.context() as patched:
                patched.setattr("rstreams.net.transport.listener.authenticate", fails)
                stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
                async with stream:
                    assert await stream.receive_some() == b""
            assert await connection.stream("numbers").to_list() == [0, 1, 2]


@pytest.mark.parametrize("text", ["x" * 200_000, "a\0b", "a lone \udc80 surrogate", "ü" * 70_000])
async def test_an_exception_with_any_text_is_told_and_the_connection_lives(text: str) -> None:
    async with rstreams.Node(expose_errors=True) as node:
        node.serve("fails", Stream.fail(ValueError(text)))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(PublisherFailed, match="ValueError"):
                await connection.stream("fails").to_list()
            with pytest.raises(PublisherFailed, match="ValueError"):  # on the same connection
                await connection.stream("fails").to_list()


async def test_a_condition_of_any_length_and_an_info_of_any_kind_is_told_as_far_as_it_can_be() -> None:
    async with rstreams.Node() as node:
        node.serve("odd", Stream.fail(LinkDetached("odd:ü" * 1000, "why", {"object": object(), "long": "x" * 99_999})))
        node.serve("plain", Stream.fail(LinkDetached("plain:condition", "why", {"seconds": 5})))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(PublisherFailed, match="why"):
                await connection.stream("odd").to_list()
            with pytest.raises(PublisherFailed) as told:
                await connection.stream("plain").to_list()
            assert (told.value.condition, told.value.info) == ("plain:condition", {"seconds": 5})


async def test_a_rejection_with_a_long_reason_is_told_and_the_connection_lives() -> None:
    async with rstreams.Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.of(1, 2))

            def reject(_: object) -> None:
                kind: Literal["rejected"] = "rejected"
                raise DeliveryFailed(kind, "amqp:decode-error", "x" * 200_000)

            with pytest.raises(DeliveryFailed):
                await connection.stream("work").for_each(reject)
            assert await connection.stream("work").take(1).to_list() == [2]


async def _answered(stream: trio.SocketStream, what: bytes) -> None:
    data = b""
    with trio.fail_after(5):
        while what not in data:
            more = await stream.receive_some()
            assert more
            data += more
