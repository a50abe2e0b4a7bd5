"""Producers and consumers of a queue, played by hand."""

from __future__ import annotations

from abc import ABC, abstractmethod

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
