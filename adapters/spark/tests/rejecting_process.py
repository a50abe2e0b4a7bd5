"""A peer that rejects each message whose body is `bad`, made of proton's Container; its first line is its port."""

from __future__ import annotations

import socket
import sys

from proton import Condition, Delivery, Event
from proton.handlers import MessagingHandler
from proton.reactor import Container


class Rejecting(MessagingHandler):
    def __init__(self, port: int) -> None:
        super().__init__(auto_accept=False)
        self.port = port

    def on_start(self, event: Event) -> None:
        event.container.listen(f"127.0.0.1:{self.port}")
        sys.stdout.write(f"{self.port}\n")
        sys.stdout.flush()

    def on_message(self, event: Event) -> None:
        if bytes(event.message.body) == b"bad":
            event.delivery.local.condition = Condition("x:bad-row", "no such thing")
            event.delivery.update(Delivery.REJECTED)
        else:
            event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Container(Rejecting(port)).run()
