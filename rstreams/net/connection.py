"""A connection to an AMQP 1.0 peer: streams from its addresses, and publishing to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, Unpack, overload

import trio

from rstreams import operators
from rstreams._core.argument_names import check_argument_names, name_arguments
from rstreams._core.subscription import hint_for
from rstreams._core.times import require_seconds
from rstreams._stages.stage import refuse_generator, require_at_least
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.message import Message
from rstreams.net._proton import decode_body, encode_item
from rstreams.net.dialects import Dialect
from rstreams.net.links.bodies import encode_once
from rstreams.net.links.connection_links import Links
from rstreams.net.links.draining import Drained, drain
from rstreams.net.links.effectively_once import EFFECTIVELY_ONCE, check_remembered, decode_unstamped
from rstreams.net.links.encoding import Encoding, check_encode
from rstreams.net.links.failures import DeadLetters, FailureName, strategy_for
from rstreams.net.links.handler_calls import Handling
from rstreams.net.links.publication import PublishResult, naming_the_item, stamper_for
from rstreams.net.links.remote_stream import LinkPublisher, ReceivingOptions, StreamOptions
from rstreams.net.links.sender import Sender, SenderPublisher
from rstreams.net.links.sight import Sight
from rstreams.net.links.streamed_messages import StreamedOptions, StreamedPublisher
from rstreams.net.options.limits import check_function
from rstreams.net.options.names import check_name
from rstreams.net.options.terminus import check_capabilities, check_filters
from rstreams.net.request_reply.connection_methods import RequestReply
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.protocol.byte_bound import check_window_bytes
from rstreams.protocol.credit import check_pack, check_window
from rstreams.protocol.delivery import Delivery
from rstreams.protocol.frames import Settlement
from rstreams.runtime.entered import async_entered
from rstreams.stream import Stream

__all__ = ["Connection", "Delivery", "PublishResult", "SettlementName"]

T = TypeVar("T")

SettlementName: TypeAlias = Literal["at_most_once", "at_least_once", "effectively_once"]
"""How an item is settled; see `Connection.stream` and `Connection.publish`."""

DEFAULT_WINDOW = 256
DEFAULT_PACK_ITEMS = 64


class Connection(RequestReply):
    """An open connection; made by `rstreams.connect`.

    Context: Tasks of the trio run that opened it; other threads use `rstreams.blocking`.
    """

    def __init__(self, links: Links) -> None:
        """Use an open connection."""
        self._links = links

    def __repr__(self) -> str:
        """Return where the connection leads."""
        return f"<rstreams connection to {self._links.peer}>"

    @property
    def dialect(self) -> Dialect:
        """How the peer wants to be spoken to; its methods make filters: `connection.dialect.offset("first")`."""
        return self._links.dialect

    @property
    def status(self) -> ConnectionStatus:
        """Whether the connection is open, lost for a while, or closed, and why."""
        return self._links.carrier.status

    def explain(self) -> Sight:
        """Return what each link of the connection waits for: `print(connection.explain())`.

        A link that sends may wait for credit, for outcomes, for items or for the peer's attach; one that receives for
        items, or for the outcomes of what fills its window. `Stream.explain` says it of one pipeline, with its stages.

        Context: Any task of the connection's trio run.
        """
        return self._links.explain()

    @overload
    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], T],
        settlement: SettlementName = ...,
        **options: Unpack[StreamOptions],
    ) -> Stream[T]: ...

    @overload
    def stream(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> Stream[Any]: ...

    @overload
    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], T],
        settlement: Literal["manual"],
        **options: Unpack[StreamOptions],
    ) -> Stream[Delivery[T]]: ...

    @overload
    def stream(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> Stream[Delivery[Any]]: ...

    def stream(
        self,
        address: str,
        *,
        decode: Callable[[bytes], Any] = decode_body,
        settlement: SettlementName | Literal["manual"] = "at_least_once",
        window: int = DEFAULT_WINDOW,
        window_bytes: int | None = None,
        on_failure: FailureName | DeadLetters = "fail",
        expose_errors: bool = True,
        browse: bool = False,
        filters: Mapping[str, Any] | None = None,
        capabilities: Sequence[str] = (),
        pack_items: int = 1,
        dedup_window: int | None = None,
    ) -> Stream[Any]:
        """Return the stream of what is sent to `address`: one link for each subscription.

        Args:
            address: The peer's name for the source.
            window: The most items granted, buffered and unsettled together, of one subscription.
            window_bytes: The most bytes of encoded messages expected, buffered and unsettled together; None for any
                number. See below.
            settlement: "at_least_once": an item is accepted when the pipeline is through with it. "at_most_once": it is
                sent settled, so what is under way when the link ends is lost. "effectively_once": as at least once, but
                what comes again after a loss is dropped if it was accepted here, and what is still in hand then is not
                handed over twice. "manual": each item comes in a `Delivery`, whose outcome the user decides; what a
                stage fails at, or what a loop that is left has not come to, is given back by itself.
            decode: Makes an item of an encoded message; the default gives its body: bytes for a data section, else the
                value it holds.
            on_failure: What becomes of an item that cannot be decoded, or whose processing failed: "fail" gives it back
                as failed, and what cannot be decoded ends the stream. "modify" (give back as failed), "release" (give
                back untouched), "reject", "accept" and `DeadLetters(address)` go on after what cannot be decoded. A
                failure in the pipeline ends the stream, unless the pipeline handles it. What is given back comes again
                at once: what is modified until the queue's limit of failed attempts, what is released without end.
            expose_errors: Whether the peer is told the type and the text of an error with what is given back as failed,
                rejected, or sent to `DeadLetters`; else only its type. A queue of a node notes it on the dead letter.
            browse: Whether to get copies of what a queue has, in order, and leave it there: what becomes of them
                changes nothing. The stream goes on with what comes later. A peer that does not say that it copies is
                asked for nothing, and the stream ends with `LinkDetached`.
            filters: What of the source is wanted: values by the filter's name, `Described` where the peer asks for it.
            capabilities: What the source must be able to do, such as "queue" or "topic" for some brokers.
            pack_items: The most items that may come in one delivery, if the peer is of rstreams; at most half of
                `window`. Much faster for small items, but not exact: while less demand is left than a pack has items,
                one is drawn, and what of it is not wanted waits here, or is given back.
            dedup_window: How many of the messages accepted last are known when they come again, not less than `window`;
                by default 4096, or twice the window if that is more. With "effectively_once" and "manual" alone.

        Once: A message is known by what `publish(settlement="effectively_once")` stamps it with, or else by its message
            id, which its senders must not use twice; one without either comes again like any other. It is this
            subscription that knows: another one, or another process, does not. What failed is handed over again.
        Credit: Granted as demand comes, never beyond it and never beyond `window` (see `protocol/credit.py`).
        Bytes: With `window_bytes` credit is granted only for as many messages as are expected to fit, by the sizes of
            those that came last; one comes first, to see. When they turn out larger, nothing is taken from the network
            that does not fit, but what the window of the link's session lets in: an eighth more, or two frames if
            that is more, and as much again between the two. A single message may be larger than the bound; it comes
            alone then (and `max_message_bytes` of the connection is the limit of that).
        Errors: `ConfigError` at the call for a bad option; `on_error` with one if it is subscribed to in another thread
            than the connection's. `on_error` with `LinkDetached` if the peer refuses or ends the link with a condition,
            with what ended the connection if it is lost and does not return.
        Cancels: Withdraws the credit, releases what was not handed over, detaches.
        Spec: Reactive Streams 1.1-1.11; AMQP 1.0 sections 2.6 and 3.4.
        """
        _check_address(address)
        check_function("stream", "decode", decode)
        _check_flag("expose_errors", expose_errors)
        manual = settlement == "manual"
        options = ReceivingOptions(
            address=address,
            window=check_window(window),
            settlement=Settlement.AT_LEAST_ONCE if manual else _settlement(settlement, "manual"),
            remembered=_remembered(settlement, dedup_window, window),
            decode=decode,
            manual=manual,
            on_failure=strategy_for(on_failure, address, self._links.dead_letters_to, expose=expose_errors),
            browse=_check_flag("browse", browse),
            filters=check_filters(filters),
            capabilities=check_capabilities(capabilities),
            pack_items=check_pack(pack_items, window),
            window_bytes=check_window_bytes(window_bytes),
        )
        return Stream(LinkPublisher(self._links, options))

    @overload
    def messages(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> Stream[Message]: ...

    @overload
    def messages(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> Stream[Delivery[Message]]: ...

    def messages(self, address: str, *, settlement: Any = "at_least_once", **options: Unpack[StreamOptions]) -> Any:
        """Return the stream of whole messages from `address`, with their properties; else as `stream`."""
        check_argument_names("Connection.messages", options, StreamOptions.__annotations__, Connection.stream)
        return self.stream(address, decode=decode_unstamped, settlement=settlement, **options)

    def streamed_messages(
        self,
        address: str,
        *,
        on_failure: FailureName = "fail",
        filters: Mapping[str, Any] | None = None,
        capabilities: Sequence[str] = (),
    ) -> Stream[Message]:
        """Return the stream of messages from `address`, each handed over when its body begins.

        A body of bytes is a `ByteStream`, to be read while it comes: `async for chunk in message.body`. No more than
        1.5 MiB of it is in memory, however large it is; no limit of message sizes holds. Read it while the message is
        the current one, in the body of an `async for` over the stream or in `map_async`: once the pipeline is through
        with the message, the rest of the body is thrown away as it comes. Other bodies come as a whole, as from
        `messages`, up to 64 MiB.

        Args:
            address: The peer's name for the source.
            on_failure: As for `stream`.
            filters: As for `stream`.
            capabilities: As for `stream`.

        Credit: One message; the next one is asked for when this one is settled.
        Errors: As `stream`. The reader of a body hears, too, what ended the link before the body was through, and
            `RStreamsError` if the sender aborted the message.
        Cancels: As `stream`; a message that has not come to its end is released.
        Settles: Accepted when the pipeline is through with the message and the last of it has come.
        Spec: AMQP 1.0 section 2.6.14.
        """
        _check_address(address)
        if isinstance(on_failure, DeadLetters):
            msg = "streamed_messages(on_failure=DeadLetters(...)): a message that is not kept cannot be sent elsewhere"
            raise ConfigError(msg)
        options = StreamedOptions(
            address=address,
            on_failure=strategy_for(on_failure, address, self._links.dead_letters_to),
            filters=check_filters(filters),
            capabilities=check_capabilities(capabilities),
        )
        return Stream(StreamedPublisher(self._links, options))

    async def consume(
        self,
        address: str,
        handler: Callable[[Any], Awaitable[object]] | Callable[[Any], object],
        *,
        concurrency: int = 1,
        settlement: Literal["at_least_once", "effectively_once"] = "at_least_once",
        decode: Callable[[bytes], Any] = decode_body,
        **options: Unpack[StreamOptions],
    ) -> None:
        """Call `handler` with each item from `address`, and settle the item by how that went, until the stream ends.

        An item is accepted when `handler` has returned. One whose handler raises has the outcome that `on_failure`
        says, and the others go on; with "fail" it is given back as failed and ends the call.

        Args:
            address: The peer's name for the source.
            handler: An async function, or a function. It must not block: nothing else of this trio run goes on then,
                heartbeats included. What blocks goes into a thread: `await trio.to_thread.run_sync(function, item)`.
            concurrency: The most items in `handler` at a time; at least 1. With more than one they end in any order.
                It is also the least `window`: the default one is as large, and one that is given must be.
            settlement: As for `stream`: whether an item that was handled is handled again if it comes again.
            decode: As for `stream`.
            **options: As for `stream`; `on_failure` says, too, what becomes of an item whose handler raised.

        Credit: Never more than `concurrency` items are asked for that have not been handled.
        Errors: As `stream`; with "fail" what `handler` raised. Else the first failure of a call is logged as a warning
            with its traceback, and all that follow at level DEBUG.
        Cancels: Items in `handler` are given back as failed, items not yet handed over untouched.
        Context: Any task of the connection's trio run; waits. `handler` runs in the scope of this call.
        """
        check_function("consume", "handler", handler)
        refuse_generator("consume", "handler", handler)
        check_function("consume", "decode", decode)
        functions = (Connection.consume, Connection.stream)
        check_argument_names("Connection.consume", options, StreamOptions.__annotations__, *functions)
        require_at_least("consume", "concurrency", concurrency, 1, "")
        if settlement not in ("at_least_once", EFFECTIVELY_ONCE):
            msg = f"consume(settlement={settlement!r}): it must be 'at_least_once' or 'effectively_once'"
            raise ConfigError(msg)
        window = check_window(options.setdefault("window", max(DEFAULT_WINDOW, concurrency)))
        if window < concurrency:
            msg = f"consume(concurrency={concurrency!r}): window={window!r} lets no more than {window} items be in hand"
            raise ConfigError(msg)
        if options.get("browse"):
            msg = "consume(browse=True): what is browsed stays where it is; stream(browse=True) gives it"
            raise ConfigError(msg)
        if settlement == EFFECTIVELY_ONCE:
            options["dedup_window"] = check_remembered(options.get("dedup_window"), window)
        deliveries = self.stream(address, decode=decode, settlement="manual", **options)
        await Handling(handler, address, options.get("on_failure", "fail")).of(deliveries, concurrency)

    async def publish(
        self,
        address: str,
        items: Publisher[T],
        *,
        encode: Callable[[T], object] | None = None,
        settlement: SettlementName = "at_least_once",
        expose_errors: bool = False,
        capabilities: Sequence[str] = (),
        pack_items: int = DEFAULT_PACK_ITEMS,
        linger_s: float = 0.0,
        producer_id: str | None = None,
        first_sequence: int = 0,
    ) -> PublishResult:
        """Send what `items` publishes to `address`; return when all of it is settled.

        Args:
            address: The peer's name for the target.
            items: A stream or any publisher. Its items are `Message`s, or values that become a message's body. A body
                that is a `ByteStream` is sent while it comes, one message at a time: half a megabyte of it, and one
                chunk, are in memory. If it raises, the delivery is aborted, and the call ends with the exception. It
                cannot be sent again, so that a loss before it is settled ends the call even if the connection returns.
            encode: Makes of each item what is sent: a `Message`, or a value that becomes its body. None: the items are
                that already. A tuple comes back as a list, for AMQP has lists only; docs/guides/codecs.md has recipes.
            settlement: "at_least_once": each item waits for the peer's outcome. "at_most_once": sent settled.
                "effectively_once": as at least once, but a queue or multicast of an `rstreams.Node` drops what it has
                stored already when it is sent again after a loss.
            expose_errors: Whether the text of an exception of `items` goes to the peer; else only that it failed.
            capabilities: What the target must be able to do, such as "queue" or "topic" for some brokers.
            pack_items: The most items sent in one delivery, if the peer takes packs; 1 for none. Only what is there
                goes into one, so that a slow stream is not held up.
            linger_s: How long a pack may wait for more items all the same, in seconds.
            producer_id: Effectively once: who sends, for the node to remember. None: a new random one, which holds for
                this call, with all the losses that it outlives. With an id of its own, and items that come in the same
                order each time, a publisher may also be started again, after an error or in a new process, from any
                item it likes: the node stores what it has not stored. One call at a time for one id and address: of two
                connections that send as one producer, the node ends the older one's link with `amqp:link:stolen`.
            first_sequence: The number of the first item; the next ones are numbered on from it. To go on from the
                middle of what is numbered, give that item's number.

        Once: Other peers than an `rstreams.Node` do not look at the numbers, and may store a message twice; then it is
            a consumer with "effectively_once" that drops the second one. A node remembers a number of producers for
            each address, in memory: one that is started anew, or another one of several urls, knows of none.
        Demand: The peer's credit; nothing is requested that could not be sent.
        Errors: `LinkDetached` if the peer refuses or ends the link; what ended the connection if it is lost and does
            not return; `DeliveryFailed` for the first item not accepted; what `items` failed with; `ConfigError` that
            names the item if one cannot be encoded: those before it are sent. `outcome_unknown` of the error counts
            items sent whose outcome never came.
        Cancels: The source is cancelled and the link detached; items sent before may have arrived.
        Context: Any task of the connection's trio run; waits. The tasks of `items` live in the connection's scope.
        Spec: AMQP 1.0 sections 2.6.7 and 2.6.12.
        """
        call = f"publish({address!r})"
        _check_address(address)
        require_seconds("publish", "linger_s", linger_s, zero=True)
        if not callable(getattr(items, "subscribe", None)):
            msg = f"{call}: items must be a Stream or another Publisher, not {type(items).__name__}{hint_for(items)}"
            raise ConfigError(msg)
        check_encode("publish", encode)
        encoding = None if encode is None else Encoding(encode)
        sending = self._links.send(
            call,
            address,
            items if encoding is None else operators.map(items, encoding.__call__),
            encode=encode_item,
            settlement=_settlement(settlement),
            fail_on_refusal=True,
            expose_errors=expose_errors,
            capabilities=check_capabilities(capabilities),
            pack_items=check_pack(pack_items),
            linger_s=linger_s,
            stamper=stamper_for(settlement, producer_id, first_sequence),
        )
        try:
            await sending.finished.wait()
        except trio.Cancelled:
            sending.end.abort()
            raise
        if sending.error is not None:
            raise naming_the_item(call, sending.end, sending.error, encoding)
        return PublishResult(sending.end.accepted, complete=not sending.end.left)

    @async_entered("async with connection.sender(...) as sender:")
    async def sender(
        self,
        address: str,
        *,
        encode: Callable[[Any], object] | None = None,
        settlement: SettlementName = "at_least_once",
        capabilities: Sequence[str] = (),
        producer_id: str | None = None,
        first_sequence: int = 0,
    ) -> AsyncIterator[Sender]:
        """Open a sender to `address` for an `async with` block: messages from tasks, each with its outcome.

        Args:
            address: The peer's name for the target.
            encode: Makes of each item what is sent, as for `publish`.
            settlement: "at_least_once": each message waits for the peer's outcome. "at_most_once": sent settled.
                "effectively_once": as for `publish`.
            capabilities: As for `publish`.
            producer_id: As for `publish`.
            first_sequence: The number of the first message sent; the next ones are numbered in the order of sending.

        Errors: `ConfigError` for a bad option; what ended the link, from the calls of the sender, and at the end of the
            block if a message's outcome never came.
        Cancels: As an exception in the block: the link is detached at once; messages sent before may arrive.
        Context: One task of the connection's trio run enters and leaves the block; at its end it waits until all that
            was sent is settled.
        """
        _check_address(address)
        check_encode("sender", encode)
        mode = _settlement(settlement)
        streams = settlement != EFFECTIVELY_ONCE
        sender = SenderPublisher(address, settled=mode is Settlement.AT_MOST_ONCE, streams=streams, encode=encode)
        sending = self._links.send(
            f"sender({address!r})",
            address,
            sender,
            encode=encode_once,
            settlement=mode,
            fail_on_refusal=False,
            expose_errors=False,
            capabilities=check_capabilities(capabilities),
            stamper=stamper_for(settlement, producer_id, first_sequence),
            on_finished=sender.on_finished,
            on_leave=sender.complete,
        )
        try:
            yield sender
            sender.complete()
            await sending.finished.wait()
        except BaseException:
            sending.end.abort()
            raise
        if sending.error is not None:
            raise sending.error

    async def drain_and_close(self, *, timeout_s: float = 10.0) -> Drained:
        """End everything on the connection in order, then close it: for deployments, so that nothing is cut.

        Subscriptions come first: their credit is withdrawn, what is on its way is handed over, and they complete. When
        all of that is settled, at the latest when half of the time is over, publishers and senders follow: `publish`
        takes no more from its source, waits for the outcomes and returns its result, which is not `complete`; a
        `Sender` takes no more messages. New subscriptions fail from the begin, new publishers from then on.

        Args:
            timeout_s: How long all of it may take, in seconds; more than 0.

        Returns: What was not through in time: nothing, if it is `complete`. It is given back: what nobody had begun as
            it was, what was in hand as a failed attempt; those who still wait fail with `ConnectionLost`.

        Errors: `ConfigError` for a time that cannot be, or in another thread.
        Cancels: The connection is closed at the end of its block.
        Context: Any task of the connection's trio run, but none that the connection waits for, such as a handler of
            `consume`; waits.
        """
        require_seconds("drain_and_close", "timeout_s", timeout_s)
        error = self._links.elsewhere("drain_and_close()")
        if error is not None:
            raise error
        drained = await drain(self._links, timeout_s)
        await self._links.carrier.close()
        return drained


def _remembered(settlement: str, dedup_window: int | None, window: int) -> int:
    if settlement == EFFECTIVELY_ONCE or (settlement == "manual" and dedup_window is not None):
        return check_remembered(dedup_window, window)
    if dedup_window is not None:
        msg = f"dedup_window goes with settlement='effectively_once' or 'manual', not with {settlement!r}"
        raise ConfigError(msg)
    return 0


def _settlement(name: str, *more: str) -> Settlement:
    if name == EFFECTIVELY_ONCE:
        return Settlement.AT_LEAST_ONCE  # on the wire
    try:
        return Settlement(name)
    except ValueError:
        *allowed, last = [repr(each) for each in (*(mode.value for mode in Settlement), EFFECTIVELY_ONCE, *more)]
        msg = f"settlement={name!r}: it must be {', '.join(allowed)} or {last}"
        raise ConfigError(msg) from None


def _check_flag(option: str, value: bool) -> bool:  # noqa: FBT001 - the value that is checked
    if not isinstance(value, bool):
        msg = f"{option}={value!r:.80}: it must be True or False"
        raise ConfigError(msg)
    return value


def _check_address(address: str) -> None:
    check_name("address", address, "an address")


name_arguments("Connection", Connection, RequestReply)
