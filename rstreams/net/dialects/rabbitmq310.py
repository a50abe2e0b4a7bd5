"""RabbitMQ up to 3.13, with its AMQP 1.0 plugin."""

from __future__ import annotations

from typing import Final

from rstreams.net.dialects.base import Dialect, PeerDescription, Place, kind_of

_OWN: Final = ("/queue/", "/amq/queue/", "/exchange/", "/topic/")


class RabbitMQ310(Dialect):
    """RabbitMQ before 4: an attach makes the queue that it names, and topics are those of the exchange amq.topic.

    - Its credit is not exact when it is renewed while messages are on their way. Therefore it gets new credit only when
      none is left.
    - It has no browsing. Therefore a link that asks for copies is refused.
    - A drain ends the session of a classic queue and silences a quorum queue. Therefore it is never drained.
    """

    name = "rabbitmq310"
    tested = ("3.10.8",)
    answers_drain = False
    renews_at_zero = True
    ignores_browse = True

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether it is a RabbitMQ of a version before 4."""
        return peer.product == "rabbitmq" and peer.major is not None and peer.major < 4

    def source(self, address: str) -> Place:
        """Return the queue, or a subscription to a topic."""
        kind, rest = kind_of(address)
        if address.startswith(_OWN):
            return Place(address)
        return Place(f"/topic/{rest}" if kind == "topic" else f"/queue/{rest}")

    def target(self, address: str) -> Place:
        """Return the queue or topic."""
        return self.source(address)
