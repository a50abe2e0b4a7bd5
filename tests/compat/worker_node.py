"""The calls of a worker that is a node."""

from __future__ import annotations

from typing import Any

from rstreams import Node, Stream
from rstreams.errors import LinkDetached, RequestFailed
from rstreams.store import check
from rstreams.tls import server_context
from tests.compat.messages import message_of
from tests.compat.worker_kept import KeptThings


def _numbers(begin: int, end: int) -> Stream[Any]:
    return Stream.range(begin, end).map(lambda number: message_of("mixed", number))


def _ask(number: int) -> int:
    if number < 0:
        condition = "shop:unknown"
        raise RequestFailed(condition, f"no {number} here")
    return 2 * number


class NodeCalls(KeptThings):
    """Runs a node; `name` is what later calls use."""

    async def node(self, name: str, **options: Any) -> None:
        """Open a node."""
        await self._keep(name, Node(**options))

    async def listen(self, name: str, place: str = "127.0.0.1:0", *, certificate: str = "", key: str = "") -> str:
        """Have it listen; return the url."""
        tls = server_context(certificate, key) if certificate else None
        listener = await self._get(name).listen(place, tls=tls)
        url: str = listener.url
        return url

    async def add(self, name: str, kind: str, address: str, **options: Any) -> None:
        """Add an address: "queue", "multicast", "log" or "latest"."""
        getattr(self._get(name), kind)(address, **options)

    async def serve(self, name: str, address: str, count: int, *, keep_s: float = 0.0, ends: str = "") -> None:
        """Serve messages from 0 on, which end with a condition if `ends` has one."""
        stream: Stream[Any] = _numbers(0, count)
        if ends:
            stream = stream.concat(Stream.fail(LinkDetached(ends, "the shop has closed", {"hours": "9 to 5"})))
        self._get(name).serve(address, stream, keep_s=keep_s)

    async def serve_from(self, name: str, address: str, count: int) -> None:
        """Serve messages from any position on."""
        self._get(name).serve(address, from_offset=lambda position: _numbers(position, count), incarnation="first")

    async def answer(self, name: str, address: str) -> None:
        """Answer requests: `address` with twice the number, `address/count` with as many numbers."""
        self._get(name).respond(address, _ask)
        self._get(name).respond(f"{address}/count", Stream.range)

    async def counters(self, name: str) -> dict[str, Any]:
        """Return the statistics."""
        counters: dict[str, Any] = self._get(name).statistics().as_dict()
        return counters

    async def check_store(self, name: str) -> list[str]:
        """Read a whole store; return what is damaged."""
        return [str(damage) for damage in check(name)]

    async def drain_node(self, name: str, timeout_s: float = 10.0) -> dict[str, int]:
        """Finish the work of the node in order."""
        drained = await self._get(name).drain_and_close(timeout_s=timeout_s)
        return {"given_back": drained.given_back, "outcome_unknown": drained.outcome_unknown, "left": drained.left}
