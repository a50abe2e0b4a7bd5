"""What a link is: the options of its two ends, made by whoever attaches it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from rstreams._core.claims import Ending
from rstreams.abc import Hold, Publisher
from rstreams.message import ByteStream
from rstreams.protocol.delivery import END, FailureStrategy, Outcome
from rstreams.protocol.frames import Settlement
from rstreams.protocol.unsettled import ItemSize, Share, UnsettledLimits

T = TypeVar("T")

_USUAL_LIMITS: Final = UnsettledLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingOptions:
    """What a sending link is.

    Attributes:
        encode: Makes an encoded message from an item.
        settlement: At most once: sent settled. At least once: held until the receiver's disposition.
        settle_before_detach: Whether the end waits for all outcomes, as it must with a queue or broker.
        last_outcomes_s: How long it waits otherwise, behind the end of the stream, for those of the last items.
        fail_on_refusal: Whether an item that is not accepted ends the stream with `DeliveryFailed`.
        expose_errors: Whether the text of local exceptions is sent to the peer.
        resends: Whether to keep sent items until they are settled, because a lost connection returns.
        numbered: Whether the receiver knows repeated items by their numbers. After it has refused one, the end does not
            outlive a loss.
        pack_items: The most items a delivery may carry, if the receiver knows packs.
        linger_s: The longest time that a pack may wait for more items before it is sent, in seconds.
        open_body: Makes the publisher of a body that is sent while it comes; None: there are no such bodies.
        unsettled: The most that may be sent and not settled; a single message may have more bytes.
        share: The part of the node's memory that the connection's links use; None: there is no such limit.
        size: The expected size of items, which other links of the address share; None: none does.
        finish_later: Gives back the items that were unsettled when the link ended, one for each step of the iterator,
            when there is time; None: all of them are given back at once.
        made_on_demand: Whether items are made only when they are asked for: without credit none waits.
        refuse_too_large: Ends the hold of an item whose message is larger than the receiver takes. It gets the hold,
            the outcome and the message; that is empty if it has begun to be sent. It returns whether the stream goes
            on. None: the item gets that outcome, and if that reaches no one, the stream ends.
    """

    encode: Callable[[Any], bytes]
    settlement: Settlement = Settlement.AT_LEAST_ONCE
    settle_before_detach: bool = False
    last_outcomes_s: float = 0.0
    fail_on_refusal: bool = False
    expose_errors: bool = False
    resends: bool = False
    numbered: bool = False
    pack_items: int = 1
    linger_s: float = 0.0
    open_body: Callable[[ByteStream], Publisher[Any]] | None = None
    unsettled: UnsettledLimits = _USUAL_LIMITS
    share: Share | None = None
    size: ItemSize | None = None
    finish_later: Callable[[Iterator[None]], None] | None = None
    made_on_demand: bool = False
    refuse_too_large: Callable[[Hold, Outcome, bytes], bool] | None = None

    @property
    def settled(self) -> bool:
        """Whether items are sent settled."""
        return self.settlement is Settlement.AT_MOST_ONCE


class WatchesItems(Protocol):
    """Hears which items a receiving end hands over, and their outcomes; for those who look on from outside."""

    def hands_over(self, epoch: int, places: Sequence[Hashable]) -> None:
        """Hear that the items of these places are handed over now, as far as the subscriber takes them.

        `decode` is called with each that it takes, in this order, unless `decode_alike` decodes them. The place of an
        item that came settled is None.
        """
        ...

    def decode_alike(
        self, decode: Callable[[bytes], Any], payloads: Sequence[bytes]
    ) -> Callable[[Iterator[bytes]], Iterator[Any]] | None:
        """Return what decodes messages together as `decode` does, without a call for each; None: `decode` is called."""
        ...

    def handed_over(self) -> None:
        """Hear that the subscriber has returned."""
        ...

    def settled(self, epoch: int, places: Sequence[Hashable], how: Ending) -> None:
        """Hear the outcome of items, before the peer does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivingOptions(Generic[T]):
    """What a receiving link is.

    Attributes:
        decode: Makes an item from an encoded message.
        window: The most items granted, buffered and unsettled together.
        window_grows: Whether the window becomes larger while the messages are small.
        window_bytes: The most bytes expected, buffered and unsettled together; 0 for any number.
        on_failure: Decides the outcome of an item that cannot be decoded, or whose processing failed.
        pack_items: The most items a delivery may carry, if the sender knows packs; at most half the window.
        renews_at_zero: Whether credit is granted only when none is left, as some peers need.
        answers_drain: Whether the sender can give credit back. If it cannot, items that were granted before `suspend`
            still come, and are handed over.
        label: Its name in `explain`.
        oldest: Returns text about the item that has been in hand longest, for `explain`; empty by default.
        on_handed_over: Called with the last message of each run that was handed over; None: not used.
        watch: Hears of the items; None: nobody looks on, and nothing is done for that.
        asks_for_room: Whether the subscriber asks for as many items as it has room for. One that asks for none is full
            then; another one may want none.
    """

    decode: Callable[[bytes], T]
    window: int
    window_grows: bool = False
    window_bytes: int = 0
    on_failure: FailureStrategy = END
    pack_items: int = 1
    renews_at_zero: bool = False
    answers_drain: bool = True
    label: str = "link"
    oldest: Callable[[], str] = str
    on_handed_over: Callable[[bytes], None] | None = None
    watch: WatchesItems | None = None
    asks_for_room: bool = False
