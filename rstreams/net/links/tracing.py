"""Traces of what the links of a connection send and receive: who makes them, and where that one is called.

A connection has no `Tracing` unless the program gives it one, as `rstreams.telemetry` does. Then no link does anything
for traces. With one, each link gets an object of its own: it writes the context of the sender into messages, reads that
of received messages, and hears outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from rstreams._core.claims import Ending
from rstreams.abc import Publisher
from rstreams.errors import DeliveryFailed
from rstreams.message import Message, MessageId
from rstreams.net.links.sender import Receipt, SenderPublisher
from rstreams.net.links.sending_end import PublishingEnd
from rstreams.protocol.frames import Disposition
from rstreams.protocol.options import SendingOptions, WatchesItems
from rstreams.protocol.outgoing_body import StreamedHead

T = TypeVar("T")


class Batch(Protocol):
    """Messages that are sent together, as a trace shows them."""

    def settled(self, how: Ending) -> None:
        """Hear the outcome of one of them."""
        ...


class TracesSending(Protocol):
    """Traces the messages of one link that sends."""

    def current(self) -> Any:  # noqa: ANN401 - a context of whoever traces
        """Return the context in which a message is sent by the caller."""
        ...

    def begin(self, context: Any, encoded: bytes, message_id: MessageId | None) -> tuple[bytes, Batch | None]:  # noqa: ANN401
        """Return an encoded message that is sent now with its context, and what is to hear its outcome."""
        ...

    def stamping(self, encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        """Return a function that encodes items with the context in which it is called; `told` hears the outcomes."""
        ...

    def stamping_all(self, encode: Callable[[Any], bytes]) -> Callable[[list[bytes]], list[bytes]]:
        """Return a function as that of `stamping` for many bodies of bytes, whose messages `encode` makes."""
        ...

    def told(self, accepted: int, refused: Mapping[int, DeliveryFailed]) -> None:
        """Hear how many items of `stamping` were accepted so far, and what became of the others, by their numbers."""
        ...

    def ended(self, error: BaseException | None) -> None:
        """Hear that the link has ended."""
        ...


class TracesReceiving(WatchesItems, Protocol):
    """Traces the messages of one subscription."""

    def decoding(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Return a function whose result is the pair of the context of a message and what `decode` makes of it."""
        ...


class Tracing(Protocol):
    """Makes the traces of a connection; see the text of this module."""

    def sending(self, address: str | None, *, settled: bool = False) -> TracesSending:
        """Return what traces a link that sends; `settled`: the outcomes of its messages do not come."""
        ...

    def receiving(self, address: str, group: str | None) -> TracesReceiving:
        """Return what traces a subscription, perhaps of a consumer group."""
        ...


class _Traced(NamedTuple):
    """A message of a `TracedSender`, and the context in which its task has sent it."""

    encoded: Any
    message_id: MessageId | None
    context: Any


class _TracedReceipt(Receipt):
    """A receipt whose outcome is told also to a trace."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self._batch = batch

    def _settle(self, how: Ending) -> None:
        super()._settle(how)
        self._batch.settled(how)


class TracedSender(SenderPublisher):
    """A `SenderPublisher` whose messages are traced.

    Args:
        traces: Traces them.
        address: As for `SenderPublisher`.
        options: As for `SenderPublisher`.
    """

    def __init__(self, traces: TracesSending, address: str | None, **options: Any) -> None:  # noqa: ANN401 - of the base
        super().__init__(address, **options)
        self._traces = traces

    def _encoded(self, item: object) -> object:
        encoded = super()._encoded(item)
        return _Traced(encoded, item.id if isinstance(item, Message) else None, self._traces.current())

    def _sent(self, encoded: Any) -> Receipt:  # noqa: ANN401 - of the method above
        message = encoded.encoded
        payload, batch = self._traces.begin(encoded.context, message, encoded.message_id)
        if type(message) is StreamedHead:
            payload = StreamedHead.of(payload, message.chunks)
        return self._hand_over(payload, Receipt() if batch is None else _TracedReceipt(batch))

    def on_finished(self, error: BaseException | None) -> None:
        """See `SenderPublisher.on_finished`."""
        self._traces.ended(error)
        super().on_finished(error)


def sender_for(tracing: Tracing | None, address: str | None, **options: Any) -> SenderPublisher:  # noqa: ANN401
    """Return the sender to an address, traced if the connection is; the options are those of `SenderPublisher`."""
    if tracing is None:
        return SenderPublisher(address, **options)
    traces = tracing.sending(address, settled=options.get("settled", False))
    return TracedSender(traces, address, **options)


class TracedEnd(PublishingEnd[T]):
    """A `PublishingEnd` that tells a trace the outcomes of its items."""

    def __init__(
        self,
        traces: TracesSending,
        publisher: Publisher[T],
        options: SendingOptions,
        on_finished: Callable[[BaseException | None], None],
        where: Callable[[], str],
    ) -> None:
        """Tell `traces`; the others as for `PublishingEnd`."""

        def finish(error: BaseException | None) -> None:
            traces.ended(error)
            on_finished(error)

        super().__init__(publisher, options, finish, where)
        self._traces = traces

    def on_disposition(self, frame: Disposition) -> None:
        """Receive outcomes, and tell them."""
        super().on_disposition(frame)
        refused = {number: outcome.as_error() for number, outcome in self.refused.items()}
        self._traces.told(self.accepted, refused)
