"""python-qpid-proton's own requests and replies over a node: both of its ends send on links without an address."""

from __future__ import annotations

import threading

import pytest
import trio
from proton import Message as ProtonMessage
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection, SendException, SyncRequestResponse

from rstreams import Node

TIMEOUT_S = 30


class Responder(MessagingHandler):
    """Answers what comes to an address, on the one link that it has for all replies."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__()
        self.url = url
        self.address = address
        self.ready = threading.Event()

    def on_start(self, event: object) -> None:
        connection = event.container.connect(self.url, reconnect=False)  # type: ignore[attr-defined]
        self.receiver = event.container.create_receiver(connection, self.address)  # type: ignore[attr-defined]
        self.replies = event.container.create_sender(connection, None)  # type: ignore[attr-defined]
        self.connection = connection

    def on_link_opened(self, event: object) -> None:
        if event.link == self.replies:  # type: ignore[attr-defined]
            self.ready.set()

    def on_message(self, event: object) -> None:
        request = event.message  # type: ignore[attr-defined]
        if request.body == "stop":
            self.connection.close()
            return
        self.replies.send(
            ProtonMessage(address=request.reply_to, body=request.body.upper(), correlation_id=request.correlation_id)
        )


@pytest.mark.slow
async def test_requests_and_replies_of_proton() -> None:
    async with Node() as node:
        node.queue("requests")
        url = (await node.listen("127.0.0.1:0")).url
        responder = Responder(url, "requests")

        def ask() -> list[object]:
            assert responder.ready.wait(TIMEOUT_S)
            connection = BlockingConnection(url, timeout=TIMEOUT_S, allowed_mechs="ANONYMOUS")
            try:
                client = SyncRequestResponse(connection, None)  # a sender without an address
                got: list[object] = [
                    client.call(ProtonMessage(address="requests", body=word)).body for word in ("one", "two")
                ]
                connection.create_sender("requests").send(ProtonMessage(body="stop"))
                return got
            finally:
                connection.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, Container(responder).run)
            assert await trio.to_thread.run_sync(ask) == ["ONE", "TWO"]
        assert node.statistics().queues["requests"].accepted == 3


async def test_proton_is_told_that_there_is_no_such_address() -> None:
    async with Node() as node:
        url = (await node.listen("127.0.0.1:0")).url

        def send() -> str:
            connection = BlockingConnection(url, timeout=TIMEOUT_S, allowed_mechs="ANONYMOUS")
            try:
                with pytest.raises(SendException):
                    connection.create_sender(None).send(ProtonMessage(address="nowhere", body="x"))
                return "refused"
            finally:
                connection.close()

        assert await trio.to_thread.run_sync(send) == "refused"
