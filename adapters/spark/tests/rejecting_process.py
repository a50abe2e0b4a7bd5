"""A peer that rejects each message whose body is `bad`, made of proton's Container; its first line is its port.

At the address `dead` it takes every message, and prints the id and the annotations of each as a line of JSON.
"""

from __future__ import annotations

import json
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
        tell(self.port)

    def on_link_opening(self, event: Event) -> None:
        event.link.target.address = event.link.remote_target.address

    def on_message(self, event: Event) -> None:
        message = event.message
        if event.link.remote_target.address == "dead":
            tell({"id": message.id, "annotations": {str(key): value for key, value in message.annotations.items()}})
            event.delivery.update(Delivery.ACCEPTED)
        elif bytes(message.body) == b"bad":
            event.delivery.local.condition = Condition("x:bad-row", "no such thing")
            event.delivery.update(Delivery.REJECTED)
        else:
            event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()


def tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Container(Rejecting(port)).run()
