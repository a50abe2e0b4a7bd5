"""The receiving end of a link whose messages are handed over before they are complete: their bodies follow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

from rstreams._codec.decode import malformed
from rstreams._core.claims import DONE, RELEASED, Claims, Ending, Settles
from rstreams.abc import Subscriber
from rstreams.errors import LinkDetached, RStreamsError
from rstreams.protocol.frames import Detach, Lost, Transfer
from rstreams.protocol.incoming_body import BODY_BYTES, IncomingBody, Splitter
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State

T = TypeVar("T")

SESSION_BYTES: Final = 8 * 1024 * 1024
"""The bound that a session is given. The session lets in an eighth of it, 1 MiB, before this side reads.

A peer may have the whole message in memory. Its engine then moves all of it once for each window, and with a smaller
bound too often.
"""


class StreamedSubscription(LinkSubscription[T], Settles):
    """A subscription to messages whose bodies are read while they come, one message at a time.

    A message is handed over when its body begins. When the pipeline is done with it, unread bytes of its body are
    dropped as they come. Its outcome is sent when all of it has come; only then does the next message come.

    Credit: One delivery, when the one before has been settled. Bytes are taken from the network as the body is read.
    Errors: Those of `LinkSubscription`. An error that ends the link or the message early is raised to the reader of the
        body.
    Cancels: As in `LinkSubscription`; a message that has not come completely is released.
    Context: As `LinkSubscription`.
    Spec: AMQP 1.0 section 2.6.14.

    Attributes:
        body: The body of the message in `on_next`; None if it is not binary data, and came with the message.
    """

    streams = True

    def __init__(
        self, subscriber: Subscriber[T], options: ReceivingOptions[T], on_raised: Callable[[BaseException], None]
    ) -> None:
        """Prepare the subscription; `decode` makes an item from the sections before the body and from `self.body`."""
        super().__init__(subscriber, options, on_raised)
        self._items.source = self
        self.window_bytes = SESSION_BYTES
        self.body: IncomingBody | None = None
        self._coming: Hashable = None  # the delivery that is coming
        self._splitter = Splitter()
        self._handed = False  # whether it has been handed over
        self._broken = False  # the received bytes are not a message
        self._void: set[Hashable] = set()  # deliveries whose outcome is not waited for
        self._pending: tuple[int, Hashable, Ending] | None = None  # the outcome to send when all has come

    def room_bytes(self) -> int:
        """Return how many bytes of deliveries are taken now."""
        return BODY_BYTES if self.body is None else self.body.room()

    def settle(self, epoch: int, places: Sequence[Hashable], how: Ending) -> None:
        """Settle one delivery, when all of it has come."""
        (handle,) = places
        is_coming = self._coming is not None and epoch == self.losses
        if self.body is not None:
            self.body.skip()
        if handle in self._void:
            self._void.discard(handle)
            self.ledger.settle(1)
            self._wake()
        elif is_coming and not self.ended:
            self._pending = epoch, handle, how
        else:
            self._outcomes.settle(epoch, places, RELEASED if is_coming and how is DONE else how)

    def loosen(self, claims: Claims) -> None:
        """Note that a delivery may be accepted to make room."""
        self._outcomes.loosen(claims)

    def on_transfer(self, frame: Transfer) -> None:
        """Receive a part of a delivery, or complete deliveries."""
        for delivery, part in zip(frame.deliveries, frame.payloads, strict=True):
            if self.state is State.ATTACHED and not self._broken:
                self._on_part(delivery, part, frame)

    def on_detach(self, frame: Detach) -> None:
        """Receive the publisher's end; no more of an incomplete message comes."""
        self._cut(LinkDetached(frame.condition or "amqp:link:detach-forced", "the link ended in the middle of it"))
        super().on_detach(frame)

    def on_lost(self, frame: Lost) -> None:
        """Handle the loss of the link; no more of an incomplete message comes."""
        self._void.clear()
        pending, self._pending = self._pending, None
        self._cut(frame.error)
        super().on_lost(frame)
        if pending is not None:
            epoch, handle, how = pending
            self._outcomes.settle(epoch, (handle,), how)

    def work(self) -> None:
        """Hand over, settle, grant, end; a cancelled subscription does not wait for the rest of a message."""
        if self.ended and self._pending is not None:
            self._settle_pending()
        super().work()

    def _on_part(self, delivery: Hashable, part: bytes, frame: Transfer) -> None:
        if self._coming is None:
            self._coming, self._splitter, self._handed = delivery, Splitter(), False
        if frame.aborted:
            if self._handed:
                self._void.add(delivery)
            self._cut(RStreamsError("the sender aborted the message"))
            return
        splitter = self._splitter
        try:
            chunk = splitter.feed(part)
            if not frame.more:
                splitter.finish()
        except ValueError as error:
            self._broken = True  # the following bytes of it cannot be understood
            failure = malformed(error)
            self._cut(failure)
            self.give_up(failure)
            return
        if splitter.head is not None and not self._handed:
            self._hand_over(delivery, splitter.head, settled=frame.settled)
        if self.body is not None and self._handed:
            self.body.put(chunk)
        if not frame.more:
            self._coming = None
            if self.body is not None:
                self.body.end()
            self._settle_pending()

    def _hand_over(self, delivery: Hashable, head: bytes, *, settled: bool) -> None:
        """Signal the message; its body follows if it is binary data."""
        self._handed = True
        self.body = None if self._splitter.is_whole else IncomingBody(self._wake)
        if settled:
            self._void.add(delivery)  # its outcome is not waited for
        super().on_transfer(Transfer([delivery], [head]))

    def _cut(self, error: BaseException) -> None:
        """Note that no more of the incomplete message comes."""
        if self._coming is not None:
            self._coming = None
            if self._handed and self.body is not None:
                self.body.fail(error)
            self._settle_pending()

    def _settle_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            epoch, handle, how = pending
            self.settle(epoch, (handle,), how)
