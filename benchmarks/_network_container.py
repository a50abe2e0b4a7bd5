"""python-qpid-proton's own Container: one process listens and sends, the other receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proton import Event, Link, Message
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container

from benchmarks._processes import WINDOW, Counter, Figures, Load, paced

PREFETCH = 10
"""The credit a Container grants by default."""


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Send the items to whoever attaches a receiver."""
    Container((_PacedSender if load.rate else _Sender)(load, ready)).run()


def consume(load: Load) -> Figures:
    """Count what a Container receives as it comes."""
    return _consume(load, PREFETCH)


def consume_with_window(load: Load) -> Figures:
    """Count what one receives that grants as much credit as rstreams."""
    return _consume(load, WINDOW)


def _consume(load: Load, prefetch: int) -> Figures:
    counter = Counter(load)
    Container(_Receiver(load, counter, prefetch)).run()
    return counter.figures()


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


class _PacedSender(_Sender):
    """Sends what is due at each tick as far as there is credit, and the rest as it comes."""

    def __init__(self, load: Load, ready: Callable[[], None]) -> None:
        super().__init__(load, ready)
        self._ticks: Iterator[tuple[int, float]] | None = None
        self._due = 0

    def on_sendable(self, event: Event) -> None:
        self._sender = event.sender
        if self._ticks is None:
            self._ticks = paced(self._load)
            self.on_timer_task(event)
        else:
            self._send_due()

    def on_timer_task(self, event: Event) -> None:
        assert self._ticks is not None
        for count, wait_s in self._ticks:
            self._due += count
            event.container.schedule(wait_s, self)
            break
        self._send_due()

    def _send_due(self) -> None:
        assert self._sender is not None
        while self._due and self._sender.credit:
            self._sender.send(Message(body=self._load.stamped(), inferred=True))
            self._due -= 1


class _Receiver(MessagingHandler):
    def __init__(self, load: Load, counter: Counter, prefetch: int) -> None:
        super().__init__(prefetch=prefetch)
        self._load, self._counter = load, counter

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(f"127.0.0.1:{self._load.port}", sasl_enabled=False)
        settled = self._load.settlement == "at_most_once"
        option = AtMostOnce() if settled else AtLeastOnce()
        receiver = event.container.create_receiver(connection, "items", options=option)
        assert receiver.snd_settle_mode == (Link.SND_SETTLED if settled else Link.SND_UNSETTLED)
        self._counter.finished = connection.close

    def on_message(self, event: Event) -> None:
        self._counter(event.message.body)
