"""The gate before the links of a connection: each is attached when the peer has taken a token for its address.

Theory of operation. A token is for the audience of a link's address; links with the same audience share it. The first
of these links starts a task. The task puts the token and attaches the waiting links. It puts another token before the
first one expires, as long as the connection and one of these links live. If the connection is lost, the waiting links
are attached to it: they hear of the loss as any other link, and come again with the next connection, where the same
begins anew.

- If the first token for an audience fails, its links get the error at once.
- An audience that had a token on an earlier connection waits, as long as the policy of reconnecting says.
- A token that cannot be renewed is tried again until it expires. The peer then decides what happens to its links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakSet

import trio

from rstreams._events.table import TOKEN_EXPIRED, TOKEN_NOT_RENEWED, TOKEN_REFUSED
from rstreams.errors import ConnectFailed, RStreamsError
from rstreams.net._proton import LinkEnd
from rstreams.net.cbs import tokens
from rstreams.net.cbs.node import CbsNode
from rstreams.net.cbs.tokens import TokenSource, token_for
from rstreams.net.dialects import Dialect, dialect_of
from rstreams.net.transport.opening import OpeningOptions
from rstreams.net.transport.pump import Pump
from rstreams.net.transport.reconnect import Reconnect
from rstreams.protocol.frames import Attach, Lost, Role

RENEWED_AT: Final = 0.8
"""The part of a token's life after which the next one is put."""

LEAST_PAUSE_S: Final = 1.0
"""The shortest time between two attempts to put a token, in seconds."""


class TokenGate:
    """Lets links through to a connection when there is a token for their address.

    Context: Tasks of the trio run of the connection.
    """

    def __init__(
        self,
        source: TokenSource,
        nursery: trio.Nursery,
        options: OpeningOptions,
        *,
        dialect: Dialect | None,
        policy: Reconnect | None,
        random: Callable[[], float],
    ) -> None:
        """Prepare.

        Args:
            source: Makes tokens.
            nursery: Where the tasks that put them live.
            options: How the connection is opened: this side's name, and how long a token may take.
            dialect: The dialect of the peer; None: the one that matches its description of itself.
            policy: When to try again for an audience that had a token on an earlier connection; None: never.
            random: Returns a random number from 0 up to 1.
        """
        self._source = source
        self._nursery = nursery
        self._container_id = options.container_id
        self._dialect = dialect
        self._timeout_s = options.connect_timeout_s
        self._policy = policy
        self._random = random
        self._pump: Pump | None = None
        self._node: CbsNode | None = None
        self._audiences: dict[str, _Audience] = {}  # of this pump
        self._known: set[str] = set()  # audiences that had a token, on any pump

    def attach(self, pump: Pump, end: LinkEnd, frame: Attach) -> None:
        """Attach a link to `pump`, now or when there is a token; on a lost connection at once: it hears of the loss."""
        name = self._audience_of(pump, frame)
        if name is None or _is_over(pump):
            pump.attach(end, frame)
            return
        if self._pump is not pump:
            self._begin(pump)
        audience = self._audiences.get(name)
        if audience is None:
            assert self._node is not None, "it has begun"
            audience = self._audiences[name] = _Audience(name, pump, self._node)
            self._nursery.start_soon(self._keep, audience)
        audience.attach(end, frame)

    def lost(self, pump: Pump) -> None:
        """Attach the waiting links to a lost connection, so that they hear of the loss."""
        if self._pump is pump:
            audiences, self._audiences = self._audiences, {}
            for audience in audiences.values():
                audience.scope.cancel()
                audience.let_through()

    def _begin(self, pump: Pump) -> None:
        if self._pump is not None:
            self.lost(self._pump)
        self._pump = pump
        self._node = CbsNode(pump, self._container_id)
        self._nursery.start_soon(self._watch, pump)

    async def _watch(self, pump: Pump) -> None:
        await pump.ended.wait()
        self.lost(pump)

    def _audience_of(self, pump: Pump, frame: Attach) -> str | None:
        """Return the audience of the peer's end of the link; None for an end that has no address yet."""
        address = frame.source if frame.role is Role.RECEIVER else frame.target
        if not address:
            return None
        host = pump.peer.rpartition(":")[0]
        return (self._dialect or dialect_of(pump.peer_properties, host)).audience(host, address)

    async def _keep(self, audience: _Audience) -> None:
        """Keep a token with the peer."""
        with audience.scope:
            try:
                left_s = await self._put_first(audience)
                while audience.is_used:
                    await trio.sleep(left_s * RENEWED_AT)
                    left_s = await self._put_next(audience, left_s * (1.0 - RENEWED_AT))
            except RStreamsError as error:
                if _is_over(audience.pump):
                    self.lost(audience.pump)
                else:
                    audience.refuse(error)
            self._forget(audience)

    def _forget(self, audience: _Audience) -> None:
        if self._audiences.get(audience.name) is audience:
            del self._audiences[audience.name]
            self._known.discard(audience.name)

    async def _put_first(self, audience: _Audience) -> float:
        """Put the first token, and attach the waiting links; return how long it is valid, in seconds."""
        attempt = 0
        while True:
            try:
                left_s = await self._put(audience)
            except ConnectFailed as error:
                attempt += 1
                policy = self._policy
                if _is_over(audience.pump) or policy is None or audience.name not in self._known:
                    raise
                if policy.max_attempts is not None and attempt >= policy.max_attempts:
                    raise
                delay_s = policy.delay_s(attempt, self._random())
                TOKEN_REFUSED.tell(audience.name, seconds=delay_s, why=error)
                await trio.sleep(delay_s)
            else:
                self._known.add(audience.name)
                audience.let_through()
                return left_s

    async def _put_next(self, audience: _Audience, left_s: float) -> float:
        """Put a token in place of one that is valid for `left_s` more; return how long the new one is valid."""
        expires_at = trio.current_time() + left_s
        while True:
            if not audience.is_used:
                return 0.0
            try:
                return await self._put(audience)
            except RStreamsError as error:
                left_s = expires_at - trio.current_time()
                if left_s <= 0:
                    TOKEN_EXPIRED.tell(audience.name, why=error)
                if left_s <= 0 or _is_over(audience.pump):
                    raise
                delay_s = min(left_s, max(left_s / 2, LEAST_PAUSE_S))
                TOKEN_NOT_RENEWED.tell(audience.name, seconds=delay_s, why=error)
                await trio.sleep(delay_s)

    async def _put(self, audience: _Audience) -> float:
        """Put one token; return how long it is valid, in seconds."""
        waits_for = "the function that makes it"
        with trio.move_on_after(self._timeout_s):
            token = await token_for(audience.name, self._source)
            waits_for = audience.pump.peer
            await audience.node.put(audience.name, token)
            return max((token.expires_at - tokens.now()).total_seconds(), LEAST_PAUSE_S)
        text = f"there was no token for {audience.name!r} within {self._timeout_s:g} s, waiting for {waits_for}"
        raise ConnectFailed(text)


class _Audience:
    """The audience of one token, on one connection.

    Attributes:
        name: The peer's name for it.
        pump: The connection.
        node: The peer's node that takes the token.
        scope: The scope of the task that keeps the token.
    """

    def __init__(self, name: str, pump: Pump, node: CbsNode) -> None:
        self.name = name
        self.pump = pump
        self.node = node
        self.scope = trio.CancelScope()
        self._has_token = False
        self._waiting: list[tuple[LinkEnd, Attach]] = []
        self._ends: WeakSet[LinkEnd] = WeakSet()

    @property
    def is_used(self) -> bool:
        """Whether there is a link that needs the token."""
        return any(end.wants_link for end in self._ends)

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a link, now or when the peer has the token."""
        self._ends.add(end)
        if self._has_token:
            self.pump.attach(end, frame)
        else:
            self._waiting.append((end, frame))

    def let_through(self) -> None:
        """Attach the waiting links; if the connection is lost they hear of that."""
        self._has_token = True
        for end, frame in self._taken():
            self.pump.attach(end, frame)

    def refuse(self, error: RStreamsError) -> None:
        """Tell the waiting links that there is no token."""
        for end, _ in self._taken():
            end.on_lost(Lost(error))

    def _taken(self) -> list[tuple[LinkEnd, Attach]]:
        waiting, self._waiting = self._waiting, []
        return [(end, frame) for end, frame in waiting if end.wants_link]


def _is_over(pump: Pump) -> bool:
    return pump.error is not None or pump.status.state == "closed"
