"""The embedded node for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

from rstreams.aio._bound import bound_handler
from rstreams.aio._guest import Guest, guest_run
from rstreams.aio._scheduler import AsyncioScheduler
from rstreams.aio._scope import Scope
from rstreams.culprits import WaitTree
from rstreams.net.links.draining import Drained
from rstreams.net.transport.listener import Listener
from rstreams.net.transport.listening_place import ListeningPlace
from rstreams.node import Node as TrioNode
from rstreams.runtime.signatures import like_method


class Node(TrioNode):
    """An AMQP 1.0 peer inside this process, for the length of an `async with` block of an asyncio task.

    Its addresses, options and errors are those of `rstreams.Node`. Async functions of served streams and of handlers
    are asyncio coroutines.

    Context: One asyncio task enters and leaves the block; the node lives in its loop.
    """

    _guest: Guest | None = None
    _asyncio: Scope | None = None

    async def __aenter__(self) -> Self:
        """Open the scope in which served streams run.

        Errors: `RuntimeError` the second time: a node has one life.
        """
        async with AsyncExitStack() as exits:
            guest = await exits.enter_async_context(guest_run())
            scope = await exits.enter_async_context(Scope())
            if self._asyncio is None:
                self._guest, self._asyncio = guest, scope
            await exits.enter_async_context(guest.enter(scope, _InTrio(super().__aenter__, super().__aexit__)))
            self._blocks = exits.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close every connection and every address, then end the scope."""
        return await self._blocks.__aexit__(kind, error, traceback)

    @like_method(TrioNode.respond)
    def respond(self, address: str, handler: Callable[[Any], object], **options: Any) -> None:  # noqa: ANN401
        """Answer the requests sent to `address` here; see `rstreams.Node.respond`.

        Args:
            address: The name that requesters attach to.
            handler: As for `Connection.respond`: a plain function, or an asyncio coroutine function.
            **options: As for `rstreams.Node.respond`.
        """
        super().respond(address, bound_handler(handler, self._scheduler, self._at_work), **options)

    @like_method(TrioNode.listen)
    async def listen(self, place: str, **options: Any) -> Listener:  # noqa: ANN401 - as the model
        """Listen at `host:port` until the node's block ends; see `rstreams.Node.listen`."""
        return await self._run("listens", "listen(...)").run(partial(super().listen, place, **options))

    @like_method(TrioNode.listen_http)
    async def listen_http(self, place: str, **options: Any) -> ListeningPlace:  # noqa: ANN401 - as the model
        """Answer HTTP at `host:port` until the node's block ends; see `rstreams.Node.listen_http`."""
        return await self._run("listens", "listen_http(...)").run(partial(super().listen_http, place, **options))

    @like_method(TrioNode.drain_and_close)
    async def drain_and_close(self, **options: Any) -> Drained:  # noqa: ANN401 - as the model
        """Finish the work under way, then close every connection; see `rstreams.Node.drain_and_close`."""
        self._at_work.refuse("drain_and_close()", "this node")
        return await self._run("is drained", "drain_and_close()").run(partial(super().drain_and_close, **options))

    @like_method(TrioNode.renew_access)
    async def renew_access(self, **options: Any) -> None:  # noqa: ANN401 - as the model
        """Have other users, permissions and limits from now on; see `rstreams.Node.renew_access`."""
        await self._run("is changed", "renew_access(...)").run(partial(super().renew_access, **options))

    @like_method(TrioNode.explain_across)
    async def explain_across(self, address: str | None = None, **options: Any) -> WaitTree:  # noqa: ANN401 - as the model
        """Return what an address waits for, or all; see `rstreams.Node.explain_across`.

        Args:
            address: The name of the address; None: all at which somebody waits.
            **options: As for `rstreams.Node.explain_across`.
        """
        run = self._run("is asked", "explain_across(...)")
        return await run.run(partial(super().explain_across, address, **options))

    def _scheduler(self) -> AsyncioScheduler:
        assert self._asyncio is not None, "requests come inside the block"
        return self._asyncio.scheduler

    def _run(self, does: str, call: str) -> Guest:
        if self._guest is None:
            msg = f"a Node {does} inside its block: async with Node() as node: await node.{call}"
            raise RuntimeError(msg)
        return self._guest


class _InTrio:
    """The block of a node of trio."""

    def __init__(self, enter: Callable[[], Any], leave: Callable[..., Any]) -> None:
        self._enter = enter
        self._leave = leave

    async def __aenter__(self) -> None:
        await self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        left: bool | None = await self._leave(kind, error, traceback)
        return left
