"""Reconnecting: a connection that is opened again whenever it is lost; for its links it stays the same one.

Theory of operation. Links are attached here and handed to the current pump. When its connection is lost, the ends hear
`Lost(returns=True)`. They keep their state and wait. One task, `_stay_open`, opens the next connection. It tries the
urls in turn, with the delays of the policy. Then it attaches the ends again: unmet demand becomes credit, and unsettled
items are sent again. Only when the policy gives up do the ends hear of the loss for good.

A peer that is about to close the connection may announce that for each link, by a detach or a refusal with
amqp:connection:forced. Such links wait in the same way: for the next connection, or for the next attempt on this one,
because the peer may close it late, or never. These attempts have the delays of the policy and no limit.

A peer that has come back may let clients in before its queues are ready. Therefore a link that was attached before is
tried again for `RETURN_S` when it is refused, or has no answer in time. With `links_s` every link that has been
attached also waits in this way when the peer detaches it: its queue may be declared again. There are conditions after
which another link would have the same end (`protocol/end.py`); these are final.

A peer may accept each connection and drop it. Therefore a connection counts as a failed attempt in two cases:

- It lasted less long than the next delay. Thus the delays grow, and another url has its turn.
- It lasted less than 0.1 seconds. Otherwise very short delays would never grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import trio

from rstreams._checks.argument_names import name_arguments
from rstreams._checks.choices import require_flag
from rstreams._checks.functions import is_async
from rstreams._events.table import CALLBACK_RAISED, CONNECTION_CLOSED, CONNECTION_LOST, CONNECTION_OPENED, LINK_LOST
from rstreams.errors import (
    AnswerTimeout,
    AuthenticationFailed,
    Condition,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    PeerClosed,
    RemoteProtocolError,
    RStreamsError,
    TransportError,
)
from rstreams.net._proton import LinkDriver, LinkEnd
from rstreams.net.transport.address import PeerAddress
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.net.transport.opening import OpeningOptions, open_connection
from rstreams.net.transport.pump import Pump
from rstreams.protocol.frames import Attach, Lost

V = TypeVar("V")


_FINAL: Final = frozenset({Condition.UNAUTHORIZED_ACCESS.value, Condition.NOT_ALLOWED.value})
"""The conditions with which every further attempt would end in the same way."""

RETURN_S: Final = 60.0
"""How long a link that was attached before is tried again at a peer that has come back, in seconds."""

_LEAST_S: Final = 0.1
"""The delay after an attempt that had no delay, and the least time that a connection has to last, in seconds."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """When to try again to open a lost connection.

    The delay before attempt n is

        min(first_delay_s * factor ** (n - 1), max_delay_s) * (1 - jitter * random), with random from 0 to 1

    Because of the random part, clients that were cut off together do not come back together. An attempt tries each url
    once. An attempt counts as failed, too, if its connection is lost before the next delay would be over, or within
    0.1 seconds.

    Attributes:
        first_delay_s: Seconds before the first attempt; 0 or more. With 0 the second attempt is made after 0.1
            seconds.
        factor: The factor by which each delay is longer than the last one; at least 1.
        max_delay_s: The longest delay, in seconds. 0 is for tests: it tries without a pause.
        jitter: The part of a delay that is random, 0 to 1.
        max_attempts: Failed attempts in a row after which it gives up; None: never.
        start_jitter_s: The longest random time to wait before the very first connection, in seconds.
        at_start: Whether the first connection is also tried again; otherwise `connect` raises its failure at once.
        links_s: How many seconds a link that was attached before is tried again on an open connection. None: 60
            seconds, if a peer that has come back refuses the link, or does not answer in `answer_timeout_s`: a broker
            may let clients in before its queues are ready. If the peer detaches the link because it is about to close
            the connection, there is no limit. A number: this time in these cases, and also if the peer detaches the
            link for another reason: its queue may be deleted and declared again. 0: the first such detach, refusal or
            missing answer ends the link.
        on_detached: Called with the error of the peer, or with `AnswerTimeout`, before a link is attached again; as
            `on_status`.
        on_status: Called with each `ConnectionStatus`, in the connection's trio run; it must not block. An exception
            that it raises is logged.

    Errors: `ConfigError` naming the option.
    """

    first_delay_s: float = 0.1
    factor: float = 2.0
    max_delay_s: float = 30.0
    jitter: float = 0.5
    max_attempts: int | None = None
    start_jitter_s: float = 0.0
    at_start: bool = False
    on_status: Callable[[ConnectionStatus], object] | None = None
    links_s: float | None = None
    on_detached: Callable[[PeerClosed | AnswerTimeout], object] | None = None

    def __post_init__(self) -> None:
        """Check each option."""
        _check("first_delay_s", self.first_delay_s, 0.0, math.inf, "0 or more seconds")
        _check("factor", self.factor, 1.0, math.inf, "1 or more")
        least = f"seconds, not less than first_delay_s={self.first_delay_s!r}"
        _check("max_delay_s", self.max_delay_s, self.first_delay_s, math.inf, least)
        _check("jitter", self.jitter, 0.0, 1.0, "0 to 1")
        _check("start_jitter_s", self.start_jitter_s, 0.0, math.inf, "0 or more seconds")
        require_flag("Reconnect", "at_start", self.at_start)
        attempts = self.max_attempts
        if attempts is not None and (not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1):
            msg = f"Reconnect(max_attempts={attempts!r}): it must be None or a whole number of 1 or more"
            raise ConfigError(msg)
        if self.links_s is not None:
            _check("links_s", self.links_s, 0.0, math.inf, "None, or 0 or more seconds")
        for option, function in (("on_status", self.on_status), ("on_detached", self.on_detached)):
            if function is not None and not callable(function):
                msg = f"Reconnect({option}={function!r:.80}): it must be None or a function"
                raise ConfigError(msg)
            if is_async(function):
                msg = f"Reconnect({option}={function!r:.80}): it must be a plain function, not an async one"
                raise ConfigError(msg)

    def delay_s(self, attempt: int, random: float) -> float:
        """Return the seconds before an attempt.

        Args:
            attempt: 1 for the first one after the loss.
            random: A number from 0 up to 1.
        """
        first_s = self.first_delay_s
        if first_s <= 0:
            first_s, attempt = min(_LEAST_S, self.max_delay_s), attempt - 1
        if first_s <= 0 or attempt < 1:
            return 0.0
        growth = math.log(self.max_delay_s) - math.log(first_s)
        if (attempt - 1) * math.log(self.factor) >= growth:  # the power itself may be too large for a float
            longest = self.max_delay_s
        else:
            longest = first_s * self.factor ** (attempt - 1)
        return longest * (1.0 - self.jitter * random)

    def lasting_s(self, failed: int) -> float:
        """Return the seconds that a connection must last, after `failed` failures, not to count as failed."""
        return max(self.delay_s(failed + 1, 0.0), min(_LEAST_S, self.max_delay_s))


name_arguments("Reconnect", Reconnect)


class Gate(Protocol):
    """Links pass it before they are attached; it keeps the links that wait in it."""

    def attach(self, pump: Pump, end: LinkEnd, frame: Attach) -> None:
        """Attach a link to `pump` as soon as it is allowed."""
        ...

    def lost(self, pump: Pump) -> None:
        """Attach all links that wait for `pump` at once: its connection has ended, and they hear of that."""
        ...


class KeptConnection:
    """A connection by one of several urls, opened again when it is lost if there is a policy for that: a `Carrier`.

    Context: Tasks of the trio run that it is opened in.
    """

    def __init__(
        self,
        addresses: Sequence[PeerAddress],
        options: OpeningOptions,
        policy: Reconnect | None,
        *,
        random: Callable[[], float],
        on_attach: Callable[[LinkDriver, Attach], None],
        gate: Gate | None = None,
    ) -> None:
        """Prepare; `open` opens the first connection.

        Args:
            addresses: The addresses of the peers, tried in this order. The next attempt begins with the address of the
                last connection; if that connection did not last, it begins with the next address.
            options: How each attempt is made.
            policy: When to try again; None: not at all.
            random: Returns a random number from 0 up to 1.
            on_attach: Called for each link that the peer attaches.
            gate: The gate that this side's links pass on their way to each connection.
        """
        self._status = ConnectionStatus("lost", str(addresses[0]))
        self._addresses = list(addresses)
        self._options = options
        self.returns = policy is not None
        self._policy = policy or Reconnect(max_attempts=1)
        self._random = random
        self._on_attach = on_attach
        self._gate = gate
        self._nursery: trio.Nursery | None = None  # of its tasks, from `open` on
        self._pump: Pump | None = None
        self.peer_capabilities: Sequence[str] = ()
        self.peer_properties: Mapping[str, Any] = {}
        self.user = ""
        self._waiting: list[tuple[LinkEnd, Attach]] = []  # for the next connection
        self._refused = 0  # attempts in a row to attach again links that have ended
        self._attached_at = -math.inf  # when the last of these attempts was made
        self._apart_since = -math.inf  # when the first of these attempts became necessary
        self._closing = False
        self._over: RStreamsError | None = None

    @property
    def peer(self) -> str:
        """The host and port of the peer, or of the last one."""
        return self._status.peer

    @property
    def keeps_links(self) -> bool:
        """Whether a link that the peer detaches is attached again, although the connection lives."""
        return self._policy.links_s is not None

    @property
    def status(self) -> ConnectionStatus:
        """The last event of the connection."""
        return self._pump.status if self._pump is not None and not self.returns else self._status

    async def open(self, nursery: trio.Nursery) -> None:
        """Open the first connection, and keep it open from then on; its tasks live in `nursery`.

        Errors: As `open_connection`, of every address, when the policy gives up.
        """
        policy = self._policy
        self._nursery = nursery
        if policy.start_jitter_s:
            await trio.sleep(policy.start_jitter_s * self._random())
        attempt = 0
        while True:
            try:
                pump = await self._try_each(nursery)
            except RStreamsError as error:
                attempt += 1
                if not policy.at_start or not self._may_try_again(error, attempt):
                    raise
                await self._pause(error, attempt)
            else:
                break
        self._use(pump, attempt)
        if self.returns:
            nursery.start_soon(self._stay_open, nursery)

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a link now, or as soon as there is a connection again."""
        if self._pump is not None:
            self._attach_to(self._pump, end, frame)
        elif self._over is not None:
            end.on_lost(Lost(self._over))
        else:
            self._waiting.append((end, frame))

    def attach_later(self, end: LinkEnd, frame: Attach, error: PeerClosed | AnswerTimeout) -> None:
        """Attach a link after the policy's delay, or as soon as there is the next connection."""
        pump = self._pump
        assert pump is not None, "it lives: only a link has ended"
        assert self._nursery is not None, "it has been opened"
        if not pump.waiting:
            self._nursery.start_soon(self._attach_waiting, pump, error)
        pump.waiting.append((end, frame))
        self._call("on_detached", self._policy.on_detached, error)

    async def _attach_waiting(self, pump: Pump, error: PeerClosed | AnswerTimeout) -> None:
        """Attach again, after a delay, links that have ended, unless the connection has ended by then."""
        lasted_s = trio.current_time() - self._attached_at
        if isinstance(error, AnswerTimeout):
            lasted_s -= self._options.limits.answer_timeout_s  # the wait for the answer
        # Links that end again soon count as one more failure: the delay grows, and the time of `links_s` goes on.
        self._refused = self._refused + 1 if lasted_s < self._policy.lasting_s(self._refused) else 0
        if self._refused == 0:
            self._apart_since = trio.current_time()
        delay_s = self._policy.delay_s(self._refused + 1, self._random())
        left_s = self._links_s(error) - (trio.current_time() - self._apart_since)
        if left_s <= 0:
            self._give_up(pump, error)
            return
        delay_s = min(delay_s, left_s)
        LINK_LOST.tell(self.peer, seconds=delay_s, why=error)
        await trio.sleep(delay_s)
        if pump.ended.is_set():
            return
        self._attached_at = trio.current_time()
        waiting, pump.waiting = pump.waiting, []
        self._attach_each(pump, waiting)

    def _links_s(self, error: PeerClosed | AnswerTimeout) -> float:
        """Return for how long links are attached again after `error`."""
        if self._policy.links_s is not None:
            return self._policy.links_s
        announced = isinstance(error, PeerClosed) and error.condition == Condition.CONNECTION_FORCED
        return math.inf if announced else RETURN_S

    def _give_up(self, pump: Pump, error: PeerClosed | AnswerTimeout) -> None:
        """Tell the links that wait for `pump` that they are not attached again."""
        waiting, pump.waiting = pump.waiting, []
        for end, _ in waiting:
            if end.wants_link:
                end.on_lost(Lost(error, final=True))

    async def close(self) -> None:
        """Close the connection in order; links that wait for the next connection hear of it."""
        self._closing = True
        pump = self._pump
        if pump is not None:
            await pump.close()
            self._waiting += self._left_by(pump)
        self._end(pump.error if pump is not None else None)

    async def _stay_open(self, nursery: trio.Nursery) -> None:
        failed = 0  # attempts in a row
        while True:
            pump = self._pump
            assert pump is not None, "there was one"
            opened_at = trio.current_time()
            await pump.ended.wait()
            if self._closing:
                return
            self._pump = None
            self._waiting += self._left_by(pump)
            error = pump.error or ConnectionLost(f"the connection to {pump.peer} ended")
            if trio.current_time() - opened_at < self._policy.lasting_s(failed):
                failed += 1
                self._addresses.append(self._addresses.pop(0))  # it did not last: another address comes first
            else:
                failed = 0
            opened = await self._open_again(error, failed, nursery)
            if opened is None:
                return
            failed = opened[1] - 1
            self._use(*opened)

    async def _open_again(self, error: RStreamsError, failed: int, nursery: trio.Nursery) -> tuple[Pump, int] | None:
        """Return the next connection, and which attempt it took; None if there is to be none."""
        attempt = failed + 1
        while self._may_try_again(error, attempt - 1):
            await self._pause(error, attempt)
            if self._closing:
                return None
            try:
                pump = await self._try_each(nursery)
            except RStreamsError as again:
                error = again
                attempt += 1
            else:
                if not self._closing:
                    return pump, attempt
                await pump.close()  # it came too late: `close` was called before
                return None
        self._end(error)
        return None

    def _may_try_again(self, error: RStreamsError, failed: int) -> bool:
        limit = self._policy.max_attempts
        if self._closing or (limit is not None and failed >= limit):
            return False
        if isinstance(error, PeerClosed | RemoteProtocolError):
            return error.condition not in _FINAL
        return isinstance(error, TransportError) and not isinstance(error, AuthenticationFailed)

    async def _pause(self, error: RStreamsError, attempt: int) -> None:
        delay_s = self._policy.delay_s(attempt, self._random())
        CONNECTION_LOST.tell(self.peer, seconds=delay_s, why=error, peer=self.peer)
        self._tell(ConnectionStatus("lost", self.peer, error, attempt - 1, delay_s))
        await trio.sleep(delay_s)

    async def _try_each(self, nursery: trio.Nursery) -> Pump:
        """Try every address once.

        Errors: One error with the reason for each address. It has the type of the last one, unless the type of
            another one says more.
        """
        errors: list[RStreamsError] = []
        for _ in range(len(self._addresses)):
            try:
                return await open_connection(self._addresses[0], self._options, nursery, on_attach=self._on_attach)
            except RStreamsError as error:
                errors.append(error)
                self._addresses.append(self._addresses.pop(0))
        telling = next((error for error in errors if not isinstance(error, ConnectFailed)), errors[-1])
        if len(errors) > 1 and isinstance(telling, ConnectFailed | AuthenticationFailed):
            raise type(telling)("; ".join(map(str, errors))) from telling
        raise telling

    def _use(self, pump: Pump, attempt: int) -> None:
        self._pump = pump
        self.peer_capabilities = pump.peer_capabilities
        self.peer_properties = pump.peer_properties
        self.user = pump.user
        pump.returns = self.returns
        self._tell(ConnectionStatus("connected", pump.peer, attempt=attempt))
        waiting, self._waiting = self._waiting, []
        self._attach_each(pump, waiting)

    def _attach_each(self, pump: Pump, waiting: Sequence[tuple[LinkEnd, Attach]]) -> None:
        for end, frame in waiting:
            if end.wants_link:
                self._attach_to(pump, end, frame)

    def _attach_to(self, pump: Pump, end: LinkEnd, frame: Attach) -> None:
        if self._gate is None:
            pump.attach(end, frame)
        else:
            self._gate.attach(pump, end, frame)

    def _left_by(self, pump: Pump) -> list[tuple[LinkEnd, Attach]]:
        """Return the links that wait for the next connection, because this one has ended."""
        if self._gate is not None:
            self._gate.lost(pump)
        return pump.waiting

    def _end(self, error: RStreamsError | None) -> None:
        """Tell all waiting links that there will be no further connection."""
        if self._over is not None:
            return
        self._over = error or ConnectionLost(f"the connection to {self.peer} was closed from this side")
        self._tell(ConnectionStatus("closed", self.peer, error))
        waiting, self._waiting = self._waiting, []
        for end, _ in waiting:
            if end.wants_link:
                end.on_lost(Lost(self._over))

    def _tell(self, status: ConnectionStatus) -> None:
        self._status = status
        event = _TOLD.get(status.state)
        if event is not None:
            event.tell(status.peer, peer=status.peer)
        self._call("on_status", self._policy.on_status, status)

    def _call(self, option: str, function: Callable[[V], object] | None, value: V) -> None:
        if function is not None:
            try:
                function(value)
            except Exception as error:  # user code, which must not end the connection
                CALLBACK_RAISED.tell(option, raised=error, callback=option)


_TOLD: Final = {"connected": CONNECTION_OPENED, "closed": CONNECTION_CLOSED}
"""The events of states; a loss has one of its own."""


def _check(option: str, value: object, least: float, most: float, allowed: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf or value > most:
        msg = f"Reconnect({option}={value!r}): it must be {allowed}"
        raise ConfigError(msg)
