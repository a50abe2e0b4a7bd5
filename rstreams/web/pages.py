"""The paths that a node answers over HTTP, and what is there.

    /metrics     the counters, as Prometheus reads them
    /metrics/detailed  numbers of each link
    /state.json  the same as `$statistics`, as JSON
    /livez       200 as long as the process answers at all
    /readyz      200 if clients may come; 503 before the node listens, and while it finishes its work

Probes tell nothing but one word, and need no user. The others need the permission to subscribe to `$statistics`, if the
node has users or permissions.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import trio

from rstreams.net.transport.accounts import Client
from rstreams.web.conversation import Request, Response, refusal
from rstreams.web.link_metrics import LinkMetrics, LinkNumbers
from rstreams.web.listener import ask_who
from rstreams.web.metrics import CONTENT_TYPE, families

KEPT_S: Final = 0.5
"""A page is made at most so often, in seconds: a thousand who ask get the same one."""


class HasNumbers(Protocol):
    """The counters of a node."""

    def as_dict(self) -> Mapping[str, Any]:
        """Return them as plain values."""
        ...


class Pages:
    """What a node shows over HTTP.

    Args:
        statistics: Returns the counters as they are now.
        links: Yields the numbers of each link.
        why_not_ready: Returns why no clients may come, in one word; "" if they may.
        may_look: Tells whether a client may see the counters.
    """

    def __init__(
        self,
        statistics: Callable[[], HasNumbers],
        links: Callable[[], Iterator[LinkNumbers]],
        why_not_ready: Callable[[], str],
        may_look: Callable[[Client], bool],
    ) -> None:
        self._statistics = statistics
        self._links = links
        self._link_metrics = LinkMetrics()
        self._why_not_ready = why_not_ready
        self._may_look = may_look
        self._kept: dict[str, tuple[float, bytes]] = {}
        self._making = trio.Lock()
        self._pages: dict[str, tuple[Callable[[], Awaitable[bytes]], str]] = {
            "/metrics": (self._metrics, CONTENT_TYPE),
            "/metrics/detailed": (self._detailed, CONTENT_TYPE),
            "/state.json": (self._state, "application/json"),
        }

    async def answer(self, request: Request, client: Client | None) -> Response:
        """Return the answer to a request of a client; None: it has not said who it is."""
        path = request.path
        if path == "/livez":
            return Response(200, b"ok\n")
        if path == "/readyz":
            why = self._why_not_ready()
            return refusal(503, why) if why else Response(200, b"ok\n")
        if client is None:
            return ask_who("say who you are: with the user and the password that AMQP clients use")
        if path not in self._pages:
            return refusal(404, f"there is nothing here, only {', '.join(('/livez', '/readyz', *self._pages))}")
        if not self._may_look(client):
            return refusal(403, f"{client.shown} may not look: a permission to subscribe to '$statistics' is needed")
        make, content_type = self._pages[path]
        return Response(200, await self._fresh(path, make), content_type)

    async def _fresh(self, path: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return a page that is at most `KEPT_S` old; of several who ask, one makes it."""
        async with self._making:
            made_at, page = self._kept.get(path, (-KEPT_S, b""))
            if trio.current_time() - made_at >= KEPT_S:
                now = trio.current_time()
                page = await make()
                self._kept[path] = now, page
            return page

    async def _metrics(self) -> bytes:
        parts: list[str] = []
        for text in families(await self._plain()):
            parts.append(text)
            await trio.lowlevel.checkpoint()  # a family of a thousand addresses takes a millisecond
        return "".join(parts).encode()

    async def _detailed(self) -> bytes:
        parts: list[str] = []
        for text in self._link_metrics.write(self._links()):
            parts.append(text)
            await trio.lowlevel.checkpoint()
        return b"".join([part.encode() for part in parts])

    async def _state(self) -> bytes:
        return json.dumps(await self._plain(), separators=(",", ":")).encode()

    async def _plain(self) -> Mapping[str, Any]:
        """Return the counters as plain values; each step of a thousand addresses takes about ten milliseconds."""
        statistics = self._statistics()
        await trio.lowlevel.checkpoint()
        plain = statistics.as_dict()
        await trio.lowlevel.checkpoint()
        return plain
