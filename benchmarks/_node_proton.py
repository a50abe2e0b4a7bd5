"""python-qpid-proton, a client of AMQP 1.0, with queues of RabbitMQ 4 that keep their messages."""

from __future__ import annotations

from typing import Any

import trio
from proton import Described, Event, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, Filter

import rstreams
from benchmarks._processes import WINDOW, Counter, Figures, Load, Timer, idle
from rstreams.net.rabbitmq_management import rabbitmq_management

__all__ = ["consume", "idle", "publish"]

_START_AT = "rabbitmq:stream-offset-spec"


def publish(load: Load) -> Figures:
    """Publish the items to an empty queue of the kind that the address names, and wait until all are accepted."""
    trio.run(_declare, load)
    publisher = _Publisher(load)
    Container(publisher).run()
    assert publisher.figures is not None, "the broker did not accept them all"
    return publisher.figures


async def _declare(load: Load) -> None:
    async with rstreams.connect(_url(load)) as connection, rabbitmq_management(connection) as management:
        await management.delete_queue(load.address)
        await management.declare_queue(load.address, type=load.address)  # type: ignore[arg-type]


def consume(load: Load) -> Figures:
    """Count and accept what comes; a stream is read from its first message on."""
    counter = Counter(load)
    Container(_Consumer(load, counter)).run()
    return counter.figures()


class _Client(MessagingHandler):  # type: ignore[misc, unused-ignore]
    def __init__(self, load: Load) -> None:
        super().__init__(prefetch=WINDOW)
        self.load = load

    def on_start(self, event: Event) -> None:
        self.connection = event.container.connect(
            _url(self.load),
            allow_insecure_mechs=True,
            reconnect=False,  # pyright: ignore[reportArgumentType] # the stub leaves out a documented value
        )
        self.attach(event.container, f"/queues/{self.load.address}")

    def attach(self, container: Container, address: str) -> None:
        raise NotImplementedError

    def on_transport_error(self, event: Event) -> None:
        msg = f"{event.transport}: the broker has refused or closed the connection"
        raise RuntimeError(msg)


class _Publisher(_Client):
    def attach(self, container: Container, address: str) -> None:
        self.figures: Figures | None = None
        self.timer: Timer | None = None
        self.message = Message(self.load.item, durable=True)
        self.sent = self.accepted = 0
        self.sender = container.create_sender(self.connection, address)

    def on_sendable(self, event: Event) -> None:  # noqa: ARG002 - as the handler has it
        if self.timer is None:
            self.timer = Timer(self.load)
        for _ in range(min(self.sender.credit, self.load.items - self.sent)):
            self.sender.send(self.message)
            self.sent += 1

    def on_accepted(self, event: Event) -> None:  # noqa: ARG002
        self.accepted += 1
        if self.accepted == self.load.items and self.timer is not None:
            self.figures = self.timer.figures()
            self.connection.close()


class _Consumer(_Client):
    def __init__(self, load: Load, counter: Counter) -> None:
        super().__init__(load)
        self.counter = counter

    def attach(self, container: Container, address: str) -> None:
        self.counter.finished = self.connection.close
        chosen: Any = None
        if self.load.address.endswith("stream"):
            chosen = Filter({symbol(_START_AT): Described(symbol(_START_AT), "first")})
        container.create_receiver(self.connection, address, options=chosen)

    def on_message(self, event: Event) -> None:
        self.counter(event.message.body)


def _url(load: Load) -> str:
    return f"amqp://guest:guest@127.0.0.1:{load.port}"
