"""A sender for threads: messages one by one, each with the peer's outcome."""

from __future__ import annotations

from typing import Any

from rstreams.net.links.sender import Receipt, Sender
from rstreams.runtime.portal import Portal


class BlockingReceipt:
    """The outcome of one message, which is known when the peer has settled it."""

    def __init__(self, portal: Portal, receipt: Receipt) -> None:
        self._portal = portal
        self._receipt = receipt

    def __repr__(self) -> str:
        return f"<blocking {self._receipt!r}>"

    @property
    def settled(self) -> bool:
        """Whether the outcome is known."""
        return self._receipt.settled

    def wait(self) -> None:
        """Wait until the peer has accepted the message; errors as `rstreams.net.links.sender.Receipt.wait`."""
        self._portal.run(self._receipt.wait)


class BlockingSender:
    """Sends messages to one address; made by `BlockingConnection.sender`.

    Context: Any thread but the connection's own; several may send at the same time.
    """

    def __init__(self, portal: Portal, sender: Sender) -> None:
        self._portal = portal
        self._sender = sender

    def __repr__(self) -> str:
        return f"<blocking {self._sender!r}>"

    def send(self, item: Any) -> None:  # noqa: ANN401 - a `Message`, or any value AMQP carries
        """Send one message and wait until the peer has accepted it; errors as `rstreams.Sender.send`."""
        self._portal.run(self._sender.send, item)

    def submit(self, item: Any) -> BlockingReceipt:  # noqa: ANN401 - likewise
        """Send one message as soon as there is credit for it; the receipt waits for its outcome."""
        return BlockingReceipt(self._portal, self._portal.run(self._sender.submit, item))
