"""A client for tests: one request, and what comes back."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass

import h11
import trio

from rstreams.net.transport.listening_place import ListeningPlace


@dataclass(frozen=True)
class Answered:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: str


async def get(
    listener: ListeningPlace,
    path: str = "/metrics",
    *,
    host: str | None = None,
    user: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answered:
    """Ask for a path; `user` is NAME:PASSWORD."""
    tcp = await trio.open_tcp_stream("127.0.0.1", listener.port)
    stream = tcp if tls is None else trio.SSLStream(tcp, tls, server_hostname="127.0.0.1")
    async with stream:
        return await _ask(stream, path, host or f"127.0.0.1:{listener.port}", user)


async def _ask(stream: trio.abc.Stream, path: str, host: str, user: str | None) -> Answered:
    http = h11.Connection(h11.CLIENT)
    headers = [("Host", host)]
    if user is not None:
        headers.append(("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}"))
    request = http.send(h11.Request(method="GET", target=path, headers=headers))
    end = http.send(h11.EndOfMessage())
    assert request is not None
    await stream.send_all(request + (end or b""))
    response, body = None, b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some()))
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            assert isinstance(event, h11.EndOfMessage), event
            break
    assert response is not None
    names = {name.decode(): value.decode() for name, value in response.headers}
    return Answered(response.status_code, names, body.decode())
