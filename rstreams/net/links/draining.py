"""The orderly end of a connection or a node: nothing new begins, and all that has begun is brought to its end.

Every few milliseconds this module looks whether all is through. That happens once in the life of a connection, and
costs the hot path nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import trio

from rstreams._checks.numbers import require_seconds
from rstreams.net.links.connection_links import Links

LOOK_EVERY_S: Final = 0.005

_MOST_FOR_OUTCOMES_S: Final = 1.0
_PART_FOR_OUTCOMES: Final = 10
"""The part of the time, and the most of it in seconds, that is left at the end for the outcomes of what was sent."""

_draining: trio.lowlevel.RunVar[dict[Links, None]] = trio.lowlevel.RunVar("rstreams.draining")
"""The connections of this trio run whose handlers may still be at work while they are drained."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Items that were not through when a connection or a node was closed; all 0 if everything was.

    Attributes:
        given_back: Items received and not settled. Those that were not begun are released; the others come again as
            failed attempts.
        outcome_unknown: Items sent whose outcome had not come.
        left: Messages that a node has in memory, which are lost with it.
    """

    given_back: int = 0
    outcome_unknown: int = 0
    left: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything was through."""
        return not (self.given_back or self.outcome_unknown or self.left)


async def wait_until(through: Callable[[], bool], deadline: float) -> None:
    """Wait until `through` returns True, at most until the deadline."""
    with trio.move_on_at(deadline):
        while not through():  # noqa: ASYNC110 - see the text of the module
            await trio.sleep(LOOK_EVERY_S)


@contextmanager
def _among_draining(links: Links) -> Iterator[dict[Links, None]]:
    """Be one of the connections that are drained during the block; yield all of them."""
    others = _draining.get({})
    _draining.set(others)
    others[links] = None
    try:
        yield others
    finally:
        del others[links]


async def drain(links: Links, timeout_s: float) -> Drained:
    """Bring all links of a connection to their end: first those that receive, then those that send.

    A handler may send over another connection. Therefore connections that are drained at the same time wait for each
    other before they send no more.

    Args:
        links: The links.
        timeout_s: How long all of it may take, in seconds. A part of it is left for the outcomes of what was sent.

    Returns: The items that were not through.

    Errors: `RuntimeError` in a handler, because it would wait for itself.
    """
    links.at_work.refuse("drain_and_close()", "this connection")
    deadline = trio.current_time() + timeout_s
    links.stop_receiving()
    with _among_draining(links) as together:
        await trio.lowlevel.checkpoint()  # the others begin
        enough = deadline - min(timeout_s / _PART_FOR_OUTCOMES, _MOST_FOR_OUTCOMES_S)
        await wait_until(lambda: all(each.received for each in together), enough)
    links.stop_sending()
    await wait_until(lambda: links.received and links.sent, deadline)
    drained = Drained(given_back=links.unsettled, outcome_unknown=links.outcome_unknown)
    links.give_up()
    return drained


class DrainingMethods:
    """The method of a `Connection` for its orderly end."""

    _links: Links

    async def drain_and_close(self, *, timeout_s: float = 10.0) -> Drained:
        """End all links of the connection in order, then close it: for deployments.

        1. Subscriptions: their credit is withdrawn, items on their way are handed over, and they complete. New
           subscriptions fail. Handlers may still send, publish and request.
        2. When these items are settled, or a tenth of the time is left (at most 1 s): `publish` takes no more from its
           source, waits for the outcomes and returns a result that is not `complete`. Senders take no more messages.
           New publishers fail.
        3. The connection is closed.

        Connections that are drained at the same time go on to the second step together.

        Args:
            timeout_s: How long the whole call may take, in seconds; more than 0.

        Returns: The numbers of items that were not settled in time; if it is `complete`, all were settled. Items that
            were not begun are given back unchanged, and items in hand as failed. Calls that still wait fail with
            `ConnectionLost`.

        Errors: `ConfigError` for a time that is not allowed, or in another thread. `RuntimeError` in a handler of
            `consume` or `respond`, because it would wait for itself.
        Cancels: The connection is closed at the end of its block.
        Context: Any task of the connection's trio run, but not a loop over one of its streams; waits.
        """
        require_seconds("drain_and_close", "timeout_s", timeout_s)
        if (error := self._links.elsewhere("drain_and_close()")) is not None:
            raise error
        drained = await drain(self._links, timeout_s)
        await self._links.carrier.close()
        return drained
