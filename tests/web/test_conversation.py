"""One HTTP client: it gets an answer to each request, or one line that refuses it, within bounds."""

from __future__ import annotations

import re

import pytest
import trio
import trio.testing

from rstreams.web.conversation import IDLE_S, MAX_HEADER_BYTES, Request, Response, converse

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def answers(*said: bytes, then_s: float = 0.0, hangs_up: bool = True) -> tuple[str, list[Request], float]:
    """Send these pieces one after another; return all that came back, the requests, and when the connection ended."""
    requests: list[Request] = []
    ours, theirs = trio.testing.memory_stream_pair()

    async def answer(request: Request) -> Response:
        requests.append(request)
        return Response(200, request.path.encode())

    async def speak() -> None:
        for piece in said:
            await theirs.send_all(piece)
            await trio.sleep(then_s)
        if hangs_up:
            await theirs.send_eof()

    heard, began = bytearray(), trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak)
        await converse(ours, answer, request_timeout_s=10)
        nursery.cancel_scope.cancel()
    ended = trio.current_time() - began
    await ours.send_eof()
    while data := await theirs.receive_some():
        heard += data
    return heard.decode(), requests, ended


def statuses(heard: str) -> list[int]:
    return [int(code) for code in re.findall(r"HTTP/1\.1 (\d+) ", heard)]


async def test_requests_are_answered_one_after_another_on_one_connection() -> None:
    heard, requests, _ = await answers(GET, GET.replace(b"/a", b"/b?x=1"))
    assert statuses(heard) == [200, 200]
    assert [each.path for each in requests] == ["/a", "/b"]
    assert heard.endswith("/b")


async def test_requests_that_come_together_are_answered_each() -> None:
    heard, requests, _ = await answers(GET + GET.replace(b"/a", b"/%2Fb"))
    assert statuses(heard) == [200, 200]
    assert [each.path for each in requests] == ["/a", "//b"]


async def test_a_request_that_comes_byte_by_byte_is_answered() -> None:
    heard, requests, _ = await answers(*(bytes([each]) for each in GET), then_s=0.01)
    assert (statuses(heard), len(requests)) == ([200], 1)


async def test_head_gets_the_size_and_no_content() -> None:
    heard, _, _ = await answers(GET.replace(b"GET", b"HEAD"))
    assert "Content-Length: 2\r\n" in heard
    assert heard.endswith("\r\n\r\n")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde", 413),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /a HTTP/1.1\r\n\r\n", 400),  # without a host (RFC 9112, 3.2)
        (b"GET /a\r\n\r\n", 400),
        (b"GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /" + b"a" * 3 * MAX_HEADER_BYTES + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        (b"GET /a HTTP/1.1\r\n" + b"X: y\r\n" * MAX_HEADER_BYTES, 431),
        (b"AMQP\x00\x01\x00\x00\r\n\r\n", 400),
        (b"AMQP\x03\x01\x00\x00", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (bytes(range(256)), 400),
    ],
)
async def test_what_cannot_be_answered_is_refused_in_one_line(said: bytes, status: int) -> None:
    heard, requests, _ = await answers(said)
    assert statuses(heard) == [status]
    assert not requests
    assert len(heard.partition("\r\n\r\n")[2].splitlines()) == 1


async def test_a_client_that_leaves_in_the_middle_of_a_request_is_refused() -> None:
    heard, requests, _ = await answers(GET[:-5])
    assert (statuses(heard), requests) == ([400], [])


async def test_a_silent_client_has_its_time_for_the_first_request() -> None:
    heard, _, ended = await answers(hangs_up=False)
    assert (heard, ended) == ("", 10)


@pytest.mark.parametrize("piece", [b"G", b"X: y\r\n"])
async def test_a_client_that_drips_has_no_more_time_than_a_silent_one(piece: bytes) -> None:
    heard, requests, ended = await answers(GET[:-2], *[piece] * 100, then_s=1, hangs_up=False)
    assert (statuses(heard), requests, ended) == ([408], [], 10)


async def test_a_client_may_be_idle_between_requests() -> None:
    heard, requests, ended = await answers(GET, GET, then_s=60, hangs_up=False)
    assert (statuses(heard), len(requests)) == ([200, 200], 2)
    assert ended == 60 + IDLE_S


async def test_a_client_that_takes_no_answer_is_left() -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()

    async def answer(_: Request) -> Response:
        return Response(200, bytes(1_000_000))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(theirs.send_all, GET)
        await converse(ours, answer, request_timeout_s=10)
    assert trio.current_time() - began == 10


async def test_a_client_that_asks_for_the_end_gets_it() -> None:
    heard, requests, _ = await answers(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET, hangs_up=False)
    assert (statuses(heard), len(requests)) == ([200], 1)


async def test_old_http_gets_an_answer_and_the_end() -> None:
    heard, requests, _ = await answers(b"GET /a HTTP/1.0\r\n\r\n", hangs_up=False)
    assert (statuses(heard), len(requests)) == ([200], 1)
