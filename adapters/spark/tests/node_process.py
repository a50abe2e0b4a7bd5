"""A node in a process of its own, for the tests: `python node_process.py QUEUE...`.

Its first line of output is its port. Beside the queues it has `small`, a queue for 10, and serves `counted`, 500
numbered messages, and `counted/most`, the most of them that were ever granted or unsettled. It also serves `bounded`,
queue of 500 messages, and `detached`, one of 20, whose link it detaches once, behind the first 10, both with `/most`.
`asked` answers requests. With `--users` it wants a
password or a certificate, and with `--tls=FOLDER` it speaks TLS by the certificates there. It ends when its standard
input closes, or by a signal.
"""

from __future__ import annotations

import ssl
import sys
import tempfile
from pathlib import Path

import trio

from adapters.spark.tests.crash.broker import Journaled, Subscription
from rstreams import Message, Node, Stream
from rstreams.abc import Hold, Subscriber
from rstreams.errors import LinkDetached
from rstreams.tls import server_context

USERS = {"ada": "se/cr@et"}


class Counted:
    """A publisher that knows how much of it is requested, or sent and not settled."""

    def __init__(self, messages: int) -> None:
        self.most = 0
        self._messages = messages
        self._outstanding = 0
        self._sent = 0
        self._demand = 0
        self._emitting = False
        self._subscriber: Subscriber[Message] | None = None

    def subscribe(self, subscriber: Subscriber[Message]) -> None:
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self._outstanding += n
        self.most = max(self.most, self._outstanding)
        self._demand += n
        if self._emitting:
            return
        assert self._subscriber is not None
        self._emitting = True
        while self._demand and self._sent < self._messages:
            self._demand -= 1
            self._sent += 1
            self._subscriber.on_next(Message(body=b"%d" % self._sent, id=f"c-{self._sent}"))
        self._emitting = False

    def cancel(self) -> None:
        self._messages = self._sent

    def hold(self) -> Hold:
        return self

    def done(self) -> None:
        self._outstanding -= 1

    def fail(self, _error: BaseException) -> None:
        self._outstanding -= 1

    def release(self) -> None:
        self._outstanding -= 1


class Detached(Journaled):
    """A queue that is deleted when 10 messages are sent, and declared again at once."""

    deleted = False

    def sent(self, subscription: Subscription) -> bool:
        if self.deleted or len(self.ready) > 10:
            return False
        self.deleted = True
        subscription.end(LinkDetached("amqp:resource-deleted", "the queue was deleted"))
        return True


def tls_of(folder: Path) -> ssl.SSLContext:
    return server_context(
        folder / "node.pem", folder / "node.key", client_ca=folder / "ca.pem", require_client_certificate=False
    )


async def main(journals: Path) -> None:
    guarded = "--users" in sys.argv
    async with Node(
        users=USERS if guarded else None,
        certificate_users=(lambda certificate: certificate.common_name) if guarded else None,
        max_message_bytes=None,
    ) as node:
        for name in sys.argv[1:]:
            if not name.startswith("--"):
                node.queue(name, capacity=100_000)
        node.queue("small", capacity=10)
        counted = Counted(500)
        node.serve("counted", counted)
        node.serve("counted/most", Stream.defer(lambda: Stream.of(counted.most)))
        queues = {"bounded": Journaled(journals / "bounded", 500), "detached": Detached(journals / "detached", 20)}
        for name, queue in queues.items():
            node.serve(name, queue)
            node.serve(f"{name}/most", Stream.defer(lambda queue=queue: Stream.of(queue.most)))
        node.respond("asked", lambda question: question)
        node.serve("three", Stream.of(b"1", b"2", b"3"))
        folder = next((Path(name.partition("=")[2]) for name in sys.argv if name.startswith("--tls=")), None)
        listener = await node.listen("127.0.0.1:0", tls=None if folder is None else tls_of(folder))
        sys.stdout.write(f"{listener.port}\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as journals:
        trio.run(main, Path(journals))
