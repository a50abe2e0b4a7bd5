"""RabbitMQ up to 3.13, with its AMQP 1.0 plugin."""

from __future__ import annotations

from typing import Final

from rstreams.net.dialects.base import Dialect, Place, kind_of

_OWN: Final = ("/queue/", "/amq/queue/", "/exchange/", "/topic/")


class RabbitMQ310(Dialect):
    """RabbitMQ before 4: queues are made by being named, and topics are those of the exchange amq.topic.

    Its credit is not exact when it is renewed while messages are on their way, and a drain ends the session of a
    classic queue and silences a quorum queue: so it gets new credit only when none is left, and no drain.
    """

    name = "rabbitmq310"
    tested = ("3.10.8",)
    answers_drain = False
    renews_at_zero = True

    def source(self, address: str) -> Place:
        """Return the queue, or a subscription to a topic."""
        kind, rest = kind_of(address)
        if address.startswith(_OWN):
            return Place(address)
        return Place(f"/topic/{rest}" if kind == "topic" else f"/queue/{rest}")

    def target(self, address: str) -> Place:
        """Return the queue or topic."""
        return self.source(address)
