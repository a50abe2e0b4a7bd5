"""What a peer can cause 1,000 times in a second is a line at once and a count each second, and nothing is lost."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams._events.event import LogEvent
from rstreams.errors import DeliveryFailed, RStreamsError
from rstreams.logs import EVENTS
from rstreams.node import Permission
from tests.net.transport.test_sasl import plain
from tests.net.wire import SASL_HEADER

MANY = 1000


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
async def test_no_event_is_more_than_a_line_a_second(
    event: LogEvent, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock
    caplog.set_level(logging.DEBUG, event.logger.name)
    for second in range(3):
        for _ in range(MANY):
            event.tell("it", raised=None, **dict.fromkeys(event.fields, second))
        await trio.sleep(1)
    await trio.sleep(1)
    assert len(caplog.records) <= 4
    assert [each.event for each in caplog.records] == [event.name] * len(caplog.records)  # type: ignore[attr-defined] # ours
    assert sum(each.fields.get("more", 1) for each in caplog.records) == 3 * MANY  # type: ignore[attr-defined] # ours


async def dial(port: int, said: bytes) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(said)
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass  # hung up hard


async def wrong_passwords(node: Node, _: Connection) -> None:
    for number in range(MANY):
        await dial(node._listeners[0].port, SASL_HEADER + plain("alice" if number % 2 else f"eve{number}", "wrong"))


async def broken_frames(node: Node, _: Connection) -> None:
    for number in range(MANY):
        await dial(node._listeners[0].port, number.to_bytes(2) * 20)


async def nonsense_over_http(node: Node, _: Connection) -> None:
    listener = await node.listen_http("127.0.0.1:0")
    for number in range(MANY):
        await dial(listener.port, b"\x00\r\n\r\n" if number % 2 else b"GET /\x1b[31m HTTP/9.9\r\n\r\n")


async def wrong_passwords_over_http(node: Node, _: Connection) -> None:
    listener = await node.listen_http("127.0.0.1:0")
    said = (
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic YWxpY2U6d3Jvbmc=\r\n\r\n"
    )
    for _number in range(MANY):
        await dial(listener.port, said)


async def refused_links(_: Node, connection: Connection) -> None:
    for number in range(MANY):
        with pytest.raises(RStreamsError):
            await connection.stream(f"secret{number}\x1b\n").to_list()


async def dead_letters(node: Node, connection: Connection) -> None:
    node.queue("dead", capacity=2 * MANY)
    node.queue("q", dead_letters="dead", capacity=2 * MANY)
    await connection.publish("q", Stream.range(MANY))
    with trio.move_on_after(60):
        await connection.consume("q", divide_by_zero, on_failure="reject")
    assert node.statistics().queues["dead"].ready == MANY


def divide_by_zero(_: object) -> None:
    1 // 0  # noqa: B018 - it fails


def filled(when_full: str) -> Callable[[Node, Connection], Awaitable[None]]:
    async def fill(node: Node, connection: Connection) -> None:
        node.queue("q", capacity=1, when_full=when_full)  # type: ignore[arg-type] # one of the words
        with suppress(DeliveryFailed):
            await connection.publish("q", Stream.range(MANY + 1))

    return fill


FLOODS: dict[str, tuple[Callable[[Node, Connection], Awaitable[None]], dict[str, int]]] = {
    "wrong passwords": (wrong_passwords, {"login.refused": MANY}),
    "broken frames": (broken_frames, {"client.refused": MANY}),
    "nonsense over HTTP": (nonsense_over_http, {}),
    "wrong passwords over HTTP": (wrong_passwords_over_http, {"http.login_refused": MANY}),
    "refused links": (refused_links, {"attach.refused": MANY}),
    "dead letters": (dead_letters, {"message.dead_lettered": MANY, "handler.failed": MANY}),
    "drops of the oldest": (filled("drop_oldest"), {"message.dropped": MANY}),
    "drops of the newest": (filled("drop_newest"), {"message.dropped": MANY}),
    "refusals": (filled("reject"), {"queue.refuses": 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_is_a_line_and_its_counts(
    flood: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock
    cause, expected = FLOODS[flood]
    permissions = [Permission("alice", ["q", "dead"], ["publish", "subscribe"])]
    async with Node(users={"alice": "sesame"}, permissions=permissions) as node:
        url = (await node.listen("127.0.0.1:0")).url.replace("//", "//alice:sesame@")
        async with rstreams.connect(url) as connection:
            began = trio.current_time()
            await cause(node, connection)
            await trio.sleep(1)
            seconds = trio.current_time() - began
            await trio.sleep(2)
    told = [each for each in caplog.records if hasattr(each, "event")]
    lines: Counter[str] = Counter(each.event for each in told)
    facts: Counter[str] = Counter()
    for each in told:
        facts[each.event] += each.fields.get("more", 1)  # type: ignore[attr-defined] # ours
        assert each.getMessage().isprintable()
        assert "sesame" not in each.getMessage()
        assert "wrong\n" not in each.getMessage()
    assert max(lines.values(), default=0) <= 2 + math.ceil(seconds)
    for event, least in expected.items():
        assert facts[event] >= max(1, least), facts
