"""Lost connections and links: they are opened again, for as long as the options allow.

The first connection of a process is tried for as long: Spark starts workers at any time, also while a peer restarts.
Two reasons do not pass by themselves, and end the first dial at once: wrong credentials, and a certificate that is not
trusted.

A connection that is accepted and dropped again and again is lost all the time. Therefore a loss ends only when the next
connection has lasted for a while. A link that the peer detaches while the connection stays is attached again by the
connection itself (`Reconnect.links_s`).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

import trio

from rstreams import Reconnect
from rstreams.errors import AnswerTimeout, ConnectFailed, ConnectionLost, PeerClosed, RStreamsError, TransportError
from rstreams_spark._log import CONNECTED, CONNECTION_LOST, LINK_LOST, NOT_CONNECTED_YET, say

logging.getLogger("rstreams.net.reconnect").addHandler(logging.NullHandler())
# Without a handler Python writes the line of each attempt to the log; `Losses` writes one for each state.

_LONGEST_PAUSE_S: Final = 10.0

LASTING_S: Final = 1.0
"""How long a connection must last to end a loss."""


class Losses:
    """The losses of one connection; it gives up when one lasts for too long.

        with losses.scope:
            async with rstreams.connect(url, reconnect=losses.policy) as connection:
                ...

    Args:
        limit_s: How many seconds a loss may last; 0: the connection is not opened again.
        where: Names the connection, and who uses it, in the log.
        on_away: Called at a loss of the connection.
        on_back: Called when the connection has come back.
        on_detached: Called when the peer has detached a link of a connection that lives, or has not answered it.
        on_given_up: Called with the last reason when it gives up; also if there has been no connection at all.

    Context: The trio run of the connection.

    Attributes:
        policy: The option `reconnect` of `connect`.
        scope: Is cancelled when it gives up.
        why: The last reason why there was no connection.
    """

    def __init__(
        self,
        limit_s: float,
        where: Callable[[], str],
        *,
        on_away: Callable[[], None] = lambda: None,
        on_back: Callable[[], None] = lambda: None,
        on_detached: Callable[[], None] = lambda: None,
        on_given_up: Callable[[TransportError], None],
    ) -> None:
        self.policy: Reconnect | None = None
        if limit_s > 0:
            self.policy = Reconnect(
                max_delay_s=_LONGEST_PAUSE_S,
                at_start=True,
                links_s=limit_s,
                on_status=self._on_status,
                on_detached=self._tell_of_detached,
            )
        self.scope = trio.CancelScope()
        self._limit_s = limit_s
        self._where = where
        self._on_away = on_away
        self._on_back = on_back
        self._on_detached = on_detached
        self._on_given_up = on_given_up
        self._open = False
        self._was_open = False
        self._opened_at = self._lost_at = 0.0
        self._lost = trio.Event()
        self._found: trio.Event | None = None  # while the connection is lost
        self.why = ""

    async def watch(self) -> None:
        """Give up when a loss has lasted for too long; it returns then."""
        while True:
            await self._lost.wait()
            self._lost = trio.Event()
            found = self._found
            if found is None:
                continue
            again = "again, " if self._was_open else "after "
            after = " after the loss" if self._was_open else ""
            with trio.move_on_at(self._lost_at + self._limit_s):
                await found.wait()
                lost_s = trio.current_time() - self._lost_at
                say(CONNECTED, self._where(), f"connected {again}{lost_s:.1f} s{after}")
                continue
            text = f"no connection for {self._limit_s:g} s (option maxReconnectTime): {self.why}"
            self._give_up(ConnectionLost(text))
            return

    def _give_up(self, error: TransportError) -> None:
        self._on_given_up(error)
        self.scope.cancel()

    def _on_status(self, status: Any) -> None:  # noqa: ANN401 - a `ConnectionStatus`
        if status.error is not None:
            self.why = f"{type(status.error).__name__}: {status.error}"
        now = trio.current_time()
        if status.state == "lost" and self._open:
            self._open = False
            if not self._lost_at or now - self._opened_at >= LASTING_S:
                self._lost_at = now
                say(CONNECTION_LOST, self._where(), f"the connection was lost, and is opened again: {self.why}")
            self._found = trio.Event()
            self._lost.set()
            self._on_away()
        elif status.state == "lost" and not self._was_open:
            self._note_failed_dial(status.error, now)
        elif status.state == "connected":
            self._open = self._was_open = True
            self._opened_at = now
            if self._found is not None:
                self._found.set()
                self._found = None
                self._on_back()

    def _note_failed_dial(self, error: RStreamsError | None, now: float) -> None:
        """Note that there is no first connection yet."""
        if isinstance(error, ConnectFailed) and _is_certificate(error):
            self._give_up(error)
        elif self._found is None:
            self._lost_at = now
            self._found = trio.Event()
            self._lost.set()
            say(
                NOT_CONNECTED_YET,
                self._where(),
                f"there is no connection yet, and it is tried for up to {self._limit_s:g} s (option "
                f"maxReconnectTime): {self.why}",
            )

    def _tell_of_detached(self, error: PeerClosed | AnswerTimeout) -> None:
        say(
            LINK_LOST,
            self._where(),
            f"the link has ended, and it is attached again for up to {self._limit_s:g} s "
            f"(option maxReconnectTime): {type(error).__name__}: {error}",
        )
        self._on_detached()


def _is_certificate(error: BaseException | None) -> bool:
    """Return whether the reason of a failed dial is a certificate that is not trusted."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None
