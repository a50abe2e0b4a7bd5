"""A sender for asyncio: messages one by one, each with the peer's outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from rstreams.aio._guest import Guest
from rstreams.aio._scheduler import AsyncioEvent
from rstreams.net.links.sender import Receipt as TrioReceipt
from rstreams.net.links.sender import SenderPublisher


class Receipt:
    """The outcome of one message, which is known when the peer has settled it; made by `Sender.submit`.

    Context: Any asyncio task of the connection's loop.
    """

    __slots__ = ("_event", "_receipt", "_tell")

    def __init__(self, receipt: TrioReceipt) -> None:
        self._receipt = receipt
        self._event: AsyncioEvent | None = None
        self._tell: Callable[[Receipt], object] | None = None

    def __repr__(self) -> str:
        return repr(self._receipt)

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            msg = "a receipt is waited for by `await receipt.wait()`"
            raise TypeError(msg)

    @property
    def settled(self) -> bool:
        """Whether the outcome is known."""
        return self._receipt.settled

    @property
    def error(self) -> BaseException | None:
        """The reason why the message was not accepted; None if it was accepted, or if the outcome is not known yet."""
        return self._receipt.error

    async def wait(self) -> None:
        """Wait until the peer has accepted the message.

        Errors: `DeliveryFailed` if it was settled with another outcome. The error of the link if its outcome never
            came, or if it was never sent.
        Cancels: The message is not taken back.
        """
        if not self.settled:
            if self._event is None:
                self._event = AsyncioEvent()
                self._receipt.when_settled(self._settled)
            await self._event.wait()
        self._receipt._raise_error()  # noqa: SLF001 - a receipt of the other loop

    def when_settled(self, tell: Callable[[Receipt], object]) -> None:
        """Have `tell` called once with this receipt when the outcome is known, at once if it is; it must not block."""
        self._tell = tell
        self._receipt.when_settled(self._settled)

    def _settled(self, _receipt: TrioReceipt) -> None:
        if self._event is not None:
            self._event.set()
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(self)


class Sender:
    """Sends messages to one address as asyncio tasks come with them; made by `Connection.sender`.

    It buffers nothing: `submit` and `send` wait for the peer's credit. Tasks are served in the order of their calls.

    Attributes:
        address: The peer's name for the target; None: each message goes to its own address.

    Context: Any asyncio task of the connection's loop; several may send at the same time.
    """

    def __init__(self, guest: Guest, sender: SenderPublisher) -> None:
        self._guest = guest
        self._sender = sender
        self.address = sender.address

    def __repr__(self) -> str:
        return repr(self._sender)

    async def send(self, item: Any) -> None:  # noqa: ANN401 - a `Message`, or any value AMQP carries
        """Send one message and wait until the peer has accepted it; see `rstreams.Sender.send`.

        Cancels: As `rstreams.Sender.send`.
        """
        receipt = await self._submitted_now(item)
        if receipt is None:
            await self._guest.run(self._sender.send, item)
            return
        try:
            await Receipt(receipt).wait()
        except asyncio.CancelledError:
            self._sender.take_back(receipt)
            raise

    async def submit(self, item: Any) -> Receipt:  # noqa: ANN401 - likewise
        """Send one message as soon as there is credit for it; see `rstreams.Sender.submit`.

        Cancels: Before the message is sent, also while it waits for credit: nothing is sent.
        """
        receipt = await self._submitted_now(item)
        if receipt is None:
            receipt = await self._guest.run(self._sender.submit, item)
        return Receipt(receipt)

    async def _submitted_now(self, item: object) -> TrioReceipt | None:
        if self._sender.turn_is_over():
            await asyncio.sleep(0)
        return self._sender.submit_now(item)
