"""A node whose queue survives kill -9, in a process of its own: `python broker.py PORT FOLDER ADDRESSES MESSAGES`.

It serves the addresses `in-0`, `in-1`, and so on, with numbered messages that have ids. A message that was accepted is
a line in the file of its address; after a restart the node serves those that have none. `in-0/most` is the most
messages that were ever granted or unsettled at one time, over all links. Its first line of output is its port. At
SIGTERM it drains and ends.
"""

from __future__ import annotations

import heapq
import signal
import sys
from pathlib import Path

import trio

from rstreams import Message, Node, Stream
from rstreams.abc import Hold, Subscriber


class Journaled:
    """A queue of numbered messages, of which accepted ones are written down.

    Attributes:
        most: The most that was granted, or sent and not settled, over all subscriptions.
    """

    def __init__(self, journal: Path, messages: int) -> None:
        self.most = 0
        self.outstanding = 0
        self.subscriptions: list[Subscription] = []
        accepted = set(journal.read_text().split()) if journal.exists() else set()
        self.ready = [n for n in range(messages) if str(n) not in accepted]  # a heap
        self._journal = journal.open("a", buffering=1)

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        subscription = Subscription(self, subscriber)
        self.subscriptions.append(subscription)
        subscriber.on_subscribe(subscription)

    def count(self, change: int) -> None:
        self.outstanding += change
        self.most = max(self.most, self.outstanding)

    def accept(self, number: int) -> None:
        self._journal.write(f"{number}\n")

    def sent(self, _subscription: Subscription) -> bool:
        """Return whether the subscription has ended with the message that was sent just now."""
        return False

    def give_back(self, number: int) -> None:
        heapq.heappush(self.ready, number)
        for subscription in list(self.subscriptions):
            subscription.emit()


class Subscription:
    def __init__(self, queue: Journaled, subscriber: Subscriber[Message]) -> None:
        self._queue = queue
        self._subscriber = subscriber
        self._demand = 0
        self._emitting = False
        self._number = -1

    def request(self, n: int) -> None:
        self._queue.count(n)
        self._demand += n
        self.emit()

    def cancel(self) -> None:
        self._queue.count(-self._demand)
        self._demand = 0
        if self in self._queue.subscriptions:
            self._queue.subscriptions.remove(self)

    def hold(self) -> Hold:
        return _Held(self._queue, self._number)

    def emit(self) -> None:
        if self._emitting:
            return
        self._emitting = True
        while self._demand and self._queue.ready:
            self._demand -= 1
            self._number = heapq.heappop(self._queue.ready)
            self._subscriber.on_next(Message(body=b"%d" % self._number, id=f"m-{self._number}"))
            if self._queue.sent(self):
                return
        self._emitting = False

    def end(self, error: BaseException) -> None:
        self.cancel()
        self._subscriber.on_error(error)


class _Held:
    def __init__(self, queue: Journaled, number: int) -> None:
        self._queue = queue
        self._number = number

    def done(self) -> None:
        self._queue.count(-1)
        self._queue.accept(self._number)

    def fail(self, _error: BaseException) -> None:
        self.release()

    def release(self) -> None:
        self._queue.count(-1)
        self._queue.give_back(self._number)


async def main(port: str, folder: str, addresses: str, messages: str) -> None:
    async with Node() as node:
        for number in range(int(addresses)):
            queue = Journaled(Path(folder) / f"in-{number}.accepted", int(messages))
            node.serve(f"in-{number}", queue)
            node.serve(f"in-{number}/most", Stream.defer(lambda queue=queue: Stream.of(queue.most)))
        listener = await node.listen(f"127.0.0.1:{port}")
        sys.stdout.write(f"{listener.port}\n")
        sys.stdout.flush()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_with_parent, nursery.cancel_scope)
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                await anext(signals)
                await node.drain_and_close(timeout_s=1)
            nursery.cancel_scope.cancel()


async def end_with_parent(scope: trio.CancelScope) -> None:
    """End when standard input closes."""
    await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
    scope.cancel()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
