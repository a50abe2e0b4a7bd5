"""Sending ends of a node whose link can be taken away, because the peer has attached the same one elsewhere.

The attach of a link that begins something in the node's store is answered when the store has it. If the node answered
before, a kill would leave a peer that counts on a subscription which is not there any more.
"""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import ref

from rstreams.errors import Condition, LinkDetached, StoreError
from rstreams.net._proton import LinkDriver
from rstreams.node.written import ANSWER_WITHIN_S, Begun, not_written
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Lost
from rstreams.protocol.link import Link
from rstreams.protocol.refusal import end_link
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State

T = TypeVar("T")


def stolen() -> LinkDetached:
    """Return the error of a link that the peer has attached again elsewhere."""
    return LinkDetached(Condition.LINK_STOLEN.value, "the link was attached again, on another connection")


class StealableSubscriber(LinkSubscriber[T]):
    """A sending end that knows the driver of its link. It can lose the link although the connection does not answer."""

    _carrier: LinkDriver

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link of this end, and keep its driver."""
        assert isinstance(driver, LinkDriver), "a node's links are carried by the engine"
        self._carrier = driver
        return super().bind(name, driver)

    def take_away(self, error: LinkDetached) -> None:
        """Detach the link with an error, and have this end lose it at once (AMQP 1.0 section 2.6.1)."""
        link = self._link
        if link is not None and link.state is not State.DETACHED:
            end_link(link, self._carrier, Detach(condition=error.condition, description=error.description))
            link.lose(Lost(error))


class BeginningSubscriber(StealableSubscriber[Any]):
    """The sending end of a link whose attach may begin something in the node's store."""

    _answer: Attach

    def attach_when(self, begun: Begun, answer: Attach) -> None:
        """Answer the peer's attach when it is safe what that has begun; refuse it if the store does not write it."""
        self._answer = answer
        begun.tell(self)
        if not begun.is_known:
            me = ref(self)  # the call does not keep an end that has ended

            def look() -> None:
                end = me()
                if end is not None:
                    end.begun(not_written())

            self._carrier.call_after(ANSWER_WITHIN_S, look)

    def begun(self, error: StoreError | None) -> None:
        """Answer the attach; see `Hears`."""
        if self.state is not State.ATTACH_RECEIVED:
            return  # the link has been answered, or has ended
        if error is None:
            self._send(self._answer)
            self.start()
            self._carrier.wake()
        else:
            self.take_away(LinkDetached(Condition.INTERNAL_ERROR.value, str(error)))


class NamedSubscriber(BeginningSubscriber):
    """The sending end of a link that has a named subscription.

    Attributes:
        closed_by_peer: Whether the peer has closed the link, and not only detached it: it ends the subscription.
    """

    closed_by_peer = False

    def on_detach(self, frame: Detach) -> None:
        """End; note whether the peer ends the subscription as well (2.6.5)."""
        begun_by_peer = self.state is State.DETACH_RECEIVED
        self.closed_by_peer = begun_by_peer and frame.closed and frame.error is None
        super().on_detach(frame)
        if self.closed_by_peer and self.state is State.DETACH_RECEIVED:
            self._carrier.call_after(ANSWER_WITHIN_S, lambda: self.answer(not_written()))

    def on_lost(self, frame: Lost) -> None:
        """End, unless that has happened, and only the answer to the peer's detach is missing."""
        if self.wants_link:
            super().on_lost(frame)

    def _answer_detach(self) -> None:
        if not self.closed_by_peer:
            super()._answer_detach()

    def answer(self, error: StoreError | None) -> None:
        """Answer a peer that has ended the subscription: it is safe that it has ended, or the store failed."""
        if self.closed_by_peer and self.state is State.DETACH_RECEIVED:
            failed = Condition.INTERNAL_ERROR.value if error is not None else None
            self._send(Detach(condition=failed, description="" if error is None else str(error)))
            self._carrier.wake()
