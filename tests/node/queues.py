"""Producers and consumers of a queue, played by hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from rstreams._core.claims import DONE, NOTHING, RELEASED, Ending, Settles
from rstreams._core.run import Run
from rstreams.abc import Hold, Subscription
from rstreams.message import decode_message, encode_item
from rstreams.node.queue import Queue
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Taker(ABC):
    """A consumer that does not end; `take` gets each message, with a hold."""

    subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, item: bytes) -> None:
        assert self.subscription is not None
        self.take(item, self.subscription.hold())

    @abstractmethod
    def take(self, item: bytes, hold: Hold) -> None:
        """Take a message."""

    def on_error(self, error: BaseException) -> None:
        raise AssertionError(error)

    def on_complete(self) -> None:
        raise AssertionError


class RunsLink(Settles):
    """A link of a producer whose messages come many at a time, played by hand; they are numbered, unless told not."""

    def __init__(self, address: Any, *, once: bool = True) -> None:  # noqa: ANN401 - any address
        self.outcomes: list[str] = []
        self._run = Run[bytes](NOTHING, 0, (), iter(()))
        self.producer: Any = address.producer(once=once)
        self.producer.on_subscribe(self)

    def request(self, n: int) -> None:
        """Send no more than the test says."""

    def cancel(self) -> None:
        """Send no more."""

    def hold(self) -> Hold:
        return self._run.hold()

    def next(self, *messages: bytes) -> None:
        places = range(len(self.outcomes), len(self.outcomes) + len(messages))
        self.outcomes += [""] * len(messages)
        self._run = Run(self, 0, places, iter(messages))
        self.producer.on_run(self._run)
        self._run.close()

    def settle(self, epoch: int, places: Sequence[int], how: Ending) -> None:  # noqa: ARG002 - there are none
        for place in places:
            self.outcomes[place] = "done" if how is DONE else "released" if how is RELEASED else "failed"


def encoded(*bodies: str) -> list[bytes]:
    return [encode_item(body.encode()) for body in bodies]


def bodies(probe: ProbeSubscriber[bytes]) -> list[str]:
    return [decode_message(item).body.decode() for item in probe.items]


def counts(probe: ProbeSubscriber[bytes]) -> list[int]:
    return [decode_message(item).delivery_count for item in probe.items]


def produced(queue: Queue) -> ManualPublisher[bytes]:
    """Return a producer link of `queue`, played by hand."""
    link = ManualPublisher[bytes]()
    link.subscribe(queue.producer())
    return link


def consumed(queue: Queue, request: int = 0, *, hold: bool = True) -> ProbeSubscriber[bytes]:
    probe = ProbeSubscriber[bytes](request, hold=hold)
    queue.subscribe(probe)
    return probe


def filled(queue: Queue, *texts: str) -> ManualPublisher[bytes]:
    link = produced(queue)
    link.next(*encoded(*texts))
    return link
