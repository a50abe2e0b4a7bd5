"""The receiving end of a command: messages wait here until they are written, and are settled after that.

It asks for no more than it has room for, so a slow pipe behind the command slows the publisher. What came together is
written together: one call of the system, one settlement.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal, TypeAlias

import trio

from rstreams.abc import Claims, Hold, Run, Subscription
from rstreams.errors import DeliveryFailed

Settle: TypeAlias = Literal["accept", "release", "reject"]

ROOM: Final = 1024
"""The most messages requested and not written."""


class MessageIntake:
    """A subscriber that keeps what comes until it is taken.

    Attributes:
        error: The failure that ended the stream, if it has failed.
        ended: Whether the stream has ended.
    """

    def __init__(self, most: int | None, *, by_hand: bool = False) -> None:
        """Take messages.

        Args:
            most: How many are wanted in all; never more are requested. None: any number.
            by_hand: Whether each is requested by `grant`.
        """
        self.error: BaseException | None = None
        self.ended = False
        self._left = most
        self._by_hand = by_hand
        self._early = 0  # granted before the subscription came
        self._subscription: Subscription | None = None
        self._waiting: deque[tuple[list[bytes], Hold | Claims]] = deque()
        self._changed = trio.Event()

    # the stream calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for the first messages."""
        self._subscription = subscription
        if self.ended:
            subscription.cancel()
            return
        early, self._early = self._early, 0
        if early:
            subscription.request(early)
        if not self._by_hand:
            self._ask(ROOM)

    def on_next(self, item: bytes) -> None:
        """Keep a message."""
        assert self._subscription is not None, "it comes first (1.9)"
        self._waiting.append(([item], self._subscription.hold()))
        self._changed.set()

    def on_run(self, run: Run[bytes]) -> None:
        """Keep messages that came together."""
        items = list(run.items())
        self._waiting.append((items, run.keep(len(items))))
        self._changed.set()

    def on_error(self, error: BaseException) -> None:
        """Hear that the stream has failed."""
        self.error = error
        self.on_complete()

    def on_complete(self) -> None:
        """Hear that the stream has ended."""
        self.ended = True
        self._changed.set()

    # the command calls these

    def grant(self) -> bool:
        """Ask for one message more; return whether one is wanted."""
        return self._ask(1) > 0

    async def take(self, *, single: bool = False) -> tuple[list[bytes], list[Hold | Claims]]:
        """Return what has come, with its claims; wait until something has. Nothing: the stream has ended.

        Args:
            single: Whether to return no more than one message.
        """
        while not self._waiting and not self.ended:
            self._changed = trio.Event()
            await self._changed.wait()
        if single and self._waiting:
            return self._take_one()
        items: list[bytes] = []
        claims: list[Hold | Claims] = []
        while self._waiting:
            some, claim = self._waiting.popleft()
            items += some
            claims.append(claim)
        return items, claims

    def _take_one(self) -> tuple[list[bytes], list[Hold | Claims]]:
        some, claim = self._waiting[0]
        if len(some) == 1 or not isinstance(claim, Claims):
            return some, [self._waiting.popleft()[1]]
        return [some.pop(0)], [claim.cut(1)]

    def written(self, items: int, claims: list[Hold | Claims], settle: Settle) -> None:
        """Settle messages that have been written, and ask for as many others."""
        for claim in claims:
            if settle == "accept":
                claim.done()
            elif settle == "release":
                claim.release()
            else:
                claim.fail(DeliveryFailed("rejected", "amqp:precondition-failed", "rejected by rstreams recv"))
        if not self._by_hand:
            self._ask(items)

    def leave(self) -> None:
        """Give back what has not been written, and end the subscription."""
        while self._waiting:
            self._waiting.popleft()[1].release()
        self.stop()

    def stop(self) -> None:
        """End the subscription; what has come can still be taken."""
        if not self.ended:
            self.on_complete()
            if self._subscription is not None:
                self._subscription.cancel()

    def _ask(self, most: int) -> int:
        """Ask for at most so many more, and no more than are wanted; return how many."""
        if self._left is not None:
            most = min(most, self._left)
            self._left -= most
        if self._subscription is None:
            self._early += most
        elif most and not self.ended:
            self._subscription.request(most)
        return most


def subscribed(stream: Any, intake: MessageIntake) -> MessageIntake:  # noqa: ANN401 - a stream of whatever `decode` returns
    """Subscribe the intake to a stream of encoded messages; return the intake."""
    stream.subscribe(intake)
    return intake
