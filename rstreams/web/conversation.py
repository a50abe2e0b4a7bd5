"""One HTTP client: its requests, one after another, and the answers.

Theory of operation. h11 is the state machine of HTTP/1.1: it reads and writes bytes and knows what may come next. This
module moves the bytes, and keeps bounds for clients that are slow, silent or hostile:

    headers    MAX_HEADER_BYTES, by h11; a longer request is refused with 431
    bodies     none is wanted: a request that has one is refused with 413, and the connection ends
    time       request_timeout_s for a whole request, and as long for the client to take the answer
    requests   one at a time; an idle client is kept for IDLE_S
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import h11
import trio

MAX_HEADER_BYTES: Final = 16 * 1024
"""The most bytes of a request's first line and headers."""

IDLE_S: Final = 75.0
"""How long a client may stay connected between two requests, in seconds."""

_READ_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A request without a body.

    Attributes:
        method: GET or HEAD.
        path: The path, decoded; without the query.
        headers: The headers, by their names in lower case; of several with one name, the last.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer.

    Attributes:
        status: The status code.
        body: The content.
        content_type: Its media type.
        headers: Further headers.
        size: The bytes of the content that GET would bring, for the answer to HEAD; None: those of `body`.
    """

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    size: int | None = None


def refusal(status: int, why: str, *headers: tuple[str, str]) -> Response:
    """Return an answer of one line."""
    return Response(status, f"{why}\n".encode(), headers=headers)


Answer = Callable[[Request], Awaitable[Response]]


async def converse(stream: trio.abc.Stream, answer: Answer, *, request_timeout_s: float) -> None:
    """Answer the requests of one client until it leaves, breaks the protocol, or is too slow.

    Args:
        stream: The connection; the caller closes it.
        answer: Makes the answer to a request.
        request_timeout_s: How long a request may take to come, and an answer to go, in seconds.

    Errors: `trio.BrokenResourceError` if the network breaks.
    Cancels: The client sees the connection break.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
    idle_s = request_timeout_s  # the first request must come soon
    while True:
        try:
            request = await _next_request(stream, http, idle_s, request_timeout_s)
        except h11.RemoteProtocolError as error:
            request = refusal(error.error_status_hint, f"this is no request that can be read: {error}")
        if request is None:
            return
        response = request if isinstance(request, Response) else await answer(request)
        if isinstance(request, Request) and request.method == "HEAD":
            response = replace(response, body=b"", size=len(response.body))
        if not await _send(stream, http, response, request_timeout_s):
            return
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return
        http.start_next_cycle()
        idle_s = IDLE_S


async def _next_request(
    stream: trio.abc.Stream, http: h11.Connection, idle_s: float, request_timeout_s: float
) -> Request | Response | None:
    """Return the next request, or its refusal; None if the client has left, or has been silent for too long."""
    deadline, request = trio.current_time() + idle_s, None
    has_begun = bool(http.trailing_data[0])
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            with trio.move_on_at(deadline) as patience:
                http.receive_data(bytes(await stream.receive_some(_READ_BYTES)))
            if patience.cancelled_caught:
                return refusal(408, "the request did not come in time") if has_begun else None
            if not has_begun:
                has_begun, deadline = True, trio.current_time() + request_timeout_s
        elif isinstance(event, h11.Request):
            request = _read(event)
            if isinstance(request, Response):
                return request
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


def _read(request: h11.Request) -> Request | Response:
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
    method = request.method.decode("ascii")
    if method not in {"GET", "HEAD"}:
        return refusal(405, f"{method[:20]} is not possible here, only GET and HEAD", ("Allow", "GET, HEAD"))
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return refusal(413, "a request has no body here")
    return Request(method, unquote(request.target.decode("ascii").partition("?")[0]), headers)


async def _send(stream: trio.abc.Stream, http: h11.Connection, response: Response, timeout_s: float) -> bool:
    """Send an answer; tell whether the client has taken it in time."""
    if http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
        return False
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body) if response.size is None else response.size)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers,
    ]
    reason = HTTPStatus(response.status).phrase
    data = http.send(h11.Response(status_code=response.status, headers=headers, reason=reason)) or b""
    data += http.send(h11.Data(data=response.body)) or b""
    data += http.send(h11.EndOfMessage()) or b""
    with trio.move_on_after(timeout_s) as patience:
        await stream.send_all(data)
    return not patience.cancelled_caught
