"""Answering at `$explain`: the publisher of a link on which a peer asks what this side waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from rstreams._core.beyond import Question
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import add_demand, take_demand
from rstreams._events.table import EXPLAIN_FAILED
from rstreams.abc import Hold, Subscriber
from rstreams.culprits import WaitTree
from rstreams.protocol.frames import EXPLAINS, Attach

Answers = Callable[[Question], Awaitable[WaitTree]]
"""Returns what this side waits for."""

Starts = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a task in the trio run of the connection, which is not that of an asyncio program."""


class Trees:
    """The publisher of the answers to one question: a new one for each item that is requested.

    Args:
        frame: The attach of the peer, with the question.
        answer: Answers it.
        start: Starts the task that does so.
    """

    def __init__(self, frame: Attach, answer: Answers, start: Starts) -> None:
        self._question = Question.from_dict(frame.properties.get(EXPLAINS))
        self._answer = answer
        self._start = start

    def subscribe(self, subscriber: Subscriber[dict[str, Any]]) -> None:
        """Answer a subscriber."""
        subscriber.on_subscribe(_Answering(subscriber, self._question, self._answer, self._start))


class _Answering:
    """One subscription: a task while there is demand."""

    def __init__(
        self, subscriber: Subscriber[dict[str, Any]], question: Question, answer: Answers, start: Starts
    ) -> None:
        self._subscriber = subscriber
        self._question = question
        self._answer = answer
        self._start = start
        self._demand = 0
        self._ended = False
        self._scope: trio.CancelScope | None = None  # of the task, while there is one

    def request(self, n: int) -> None:
        self._demand = add_demand(self._demand, n)
        if self._scope is None and not self._ended:
            self._scope = trio.CancelScope()
            self._start(self._work)

    def cancel(self) -> None:
        self._ended = True
        if self._scope is not None:
            self._scope.cancel()

    def hold(self) -> Hold:
        return NO_HOLD

    async def _work(self) -> None:
        assert self._scope is not None, "it has just been made"
        try:
            with self._scope:
                while self._demand and not self._ended:
                    self._demand = take_demand(self._demand, 1)
                    tree = await self._answer(self._question)
                    self._subscriber.on_next(tree.within_bounds().as_dict())
        except Exception as error:  # a defect here must not end the connection of the one who asks
            EXPLAIN_FAILED.tell("$explain", raised=error)
            self._ended = True
            self._subscriber.on_error(error)
        finally:
            self._scope = None
