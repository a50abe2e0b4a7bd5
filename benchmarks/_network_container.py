"""python-qpid-proton's own Container: one process listens and sends, the other receives."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from proton import Event, Link, Message
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container

from benchmarks._processes import Load

PREFETCH = 10
"""The credit a Container grants by default."""

WINDOW = 256
"""The credit rstreams grants by default."""


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Send the items to whoever attaches a receiver."""
    Container(_Sender(load, ready)).run()


def consume(load: Load) -> float:
    """Return the messages received per second by a Container as it comes."""
    return _consume(load, PREFETCH)


def consume_with_window(load: Load) -> float:
    """Return the messages received per second by one that grants as much credit as rstreams."""
    return _consume(load, WINDOW)


def _consume(load: Load, prefetch: int) -> float:
    receiver = _Receiver(load, prefetch)
    Container(receiver).run()
    return (load.items - 1) / (receiver.last - receiver.first)


class _Sender(MessagingHandler):
    def __init__(self, load: Load, ready: Callable[[], None]) -> None:
        super().__init__()
        self._load, self._ready, self._left = load, ready, load.items
        self._message = Message(body=load.item, inferred=True)

    def on_start(self, event: Event) -> None:
        self._acceptor = event.container.listen(f"127.0.0.1:{self._load.port}")
        self._ready()

    def on_link_opening(self, event: Event) -> None:
        link = event.link
        assert link is not None
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode

    def on_sendable(self, event: Event) -> None:
        sender = event.sender
        assert sender is not None
        while sender.credit and self._left:
            sender.send(self._message)
            self._left -= 1

    def on_disconnected(self, event: Event) -> None:  # noqa: ARG002 - the handler's name
        self._acceptor.close()


class _Receiver(MessagingHandler):
    def __init__(self, load: Load, prefetch: int) -> None:
        super().__init__(prefetch=prefetch)
        self._load, self._received = load, 0
        self.first = self.last = 0.0

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(f"127.0.0.1:{self._load.port}", sasl_enabled=False)
        settled = self._load.settlement == "at_most_once"
        option = AtMostOnce() if settled else AtLeastOnce()
        receiver = event.container.create_receiver(connection, "items", options=option)
        assert receiver.snd_settle_mode == (Link.SND_SETTLED if settled else Link.SND_UNSETTLED)

    def on_message(self, event: Event) -> None:
        self._received += 1
        if self._received == 1:
            self.first = perf_counter()
        elif self._received == self._load.items:
            self.last = perf_counter()
            assert event.connection is not None
            event.connection.close()
