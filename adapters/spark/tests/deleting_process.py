"""A peer whose queue is deleted under a sender, made of proton's Container: `python deleting_process.py FILE`.

It accepts three messages. At the fourth it detaches the link with amqp:resource-deleted and refuses the next link with
amqp:not-found. All later messages are accepted. The bodies of accepted messages are lines of the file. Its first line
of output is its port.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from proton import Condition, Delivery, Endpoint, Event, Link
from proton.handlers import MessagingHandler
from proton.reactor import Container

_FREE = 3


class Deleting(MessagingHandler):
    def __init__(self, port: int, accepted: Path) -> None:
        super().__init__(auto_accept=False)
        self.port = port
        self.accepted = accepted.open("a", buffering=1)
        self.messages = self.links = 0

    def on_start(self, event: Event) -> None:
        event.container.listen(f"127.0.0.1:{self.port}")
        sys.stdout.write(f"{self.port}\n")
        sys.stdout.flush()

    def on_link_opening(self, event: Event) -> None:
        self.links += 1
        link = event.link
        link.target.copy(link.remote_target)
        link.source.copy(link.remote_source)
        if self.links == 2:
            link.open()
            self.detach(link, "amqp:not-found", "no queue 'out'")

    def on_message(self, event: Event) -> None:
        if event.link.state & Endpoint.LOCAL_CLOSED:
            return  # it crossed the detach
        self.messages += 1
        if self.messages == _FREE + 1:
            self.detach(event.link, "amqp:resource-deleted", "the queue 'out' was deleted")
            return
        self.accepted.write(bytes(event.message.body).decode() + "\n")
        event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()

    @staticmethod
    def detach(link: Link, condition: str, text: str) -> None:
        link.condition = Condition(condition, text)
        link.close()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Container(Deleting(port, Path(sys.argv[1]))).run()
