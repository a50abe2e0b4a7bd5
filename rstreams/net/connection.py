"""A connection to an AMQP 1.0 peer: streams from its addresses, and publishing to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from rstreams._checks.argument_names import name_arguments, require_argument_names
from rstreams._checks.choices import require_choice, require_flag
from rstreams._checks.functions import refuse_generator, require_function, require_plain
from rstreams._checks.names import require_name
from rstreams._checks.numbers import require_seconds
from rstreams._checks.terminus import require_capabilities, require_filters
from rstreams._core.windows import WINDOW, require_ahead
from rstreams._published import PublishResult
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.message import Message, as_is, decode_body
from rstreams.net.dialects import Dialect, Offset
from rstreams.net.links.bodies import open_body
from rstreams.net.links.connection_links import Links
from rstreams.net.links.draining import DrainingMethods
from rstreams.net.links.effectively_once import EFFECTIVELY_ONCE, decode_unstamped
from rstreams.net.links.encoding import message_encoder
from rstreams.net.links.failures import DeadLetters, FailureName, strategy_for
from rstreams.net.links.handler_calls import Handling
from rstreams.net.links.looking import LookingMethods
from rstreams.net.links.named_subscriptions import SubscriptionMethods, require_subscription
from rstreams.net.links.offsets import require_group, require_start, require_to_end
from rstreams.net.links.publication import Publication, stamper_for
from rstreams.net.links.remote_stream import LinkPublisher, LinkSource, StreamOptions, require_priority
from rstreams.net.links.sender import Sender
from rstreams.net.links.settlement_names import SettlementName, remembered_for, settlement_named
from rstreams.net.links.streamed_messages import StreamedOptions, StreamedPublisher
from rstreams.net.links.tracing import sender_for
from rstreams.net.management.client import ManagementMethods
from rstreams.net.request_reply.connection_methods import RequestReply
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.protocol.byte_bound import require_window_bytes
from rstreams.protocol.credit import require_pack, require_window
from rstreams.protocol.delivery import Delivery
from rstreams.protocol.frames import Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.outgoing_body import streaming
from rstreams.runtime.context_managers import async_entered
from rstreams.runtime.ground import ground_here
from rstreams.stream import Stream

__all__ = ["Connection", "Delivery", "PublishResult", "SettlementName"]

T = TypeVar("T")

DEFAULT_PACK_ITEMS = 64


class Connection(RequestReply, ManagementMethods, SubscriptionMethods, LookingMethods, DrainingMethods):
    """An open connection; made by `rstreams.connect`.

    Context: Tasks of the trio run that opened it; other threads use `rstreams.blocking`.
    """

    def __init__(self, links: Links) -> None:
        """Use an open connection."""
        self._links = links

    def __repr__(self) -> str:
        """Return the host and port of the peer."""
        return f"<rstreams connection to {self._links.peer}>"

    @property
    def dialect(self) -> Dialect:
        """The dialect of the peer; its methods make filters: `connection.dialect.offset("first")`."""
        return self._links.dialect

    @property
    def peer_properties(self) -> Mapping[str, Any]:
        """The properties of the peer's `open`, such as "product"; the product of a node is "rstreams"."""
        return self._links.carrier.peer_properties

    @property
    def status(self) -> ConnectionStatus:
        """The state of the connection: open, lost for a while, or closed; and the reason."""
        return self._links.carrier.status

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
        window: int | None = None,
        window_bytes: int | None = None,
        on_failure: FailureName | DeadLetters = "fail",
        expose_errors: bool = True,
        browse: bool = False,
        filters: Mapping[str, Any] | None = None,
        capabilities: Sequence[str] = (),
        pack_items: int = 1,
        dedup_window: int | None = None,
        start: Offset | None = None,
        to_end: bool = False,
        group: str | None = None,
        subscription: str | None = None,
        priority: int | None = None,
    ) -> Stream[Any]:
        """Return the stream of items from `address`; each subscription attaches its own link.

        Args:
            address: The peer's name for the source.
            window: The most items granted, buffered and unsettled together, of one subscription. None: 256, and up to
                1,024 while that number of messages takes at most 2 MiB; with `window_bytes` or `dedup_window` always
                256.
            window_bytes: The most bytes of messages granted, buffered and unsettled together; None: any number. See
                "Bytes" below.
            settlement: "at_least_once": an item is accepted when the pipeline is done with it. "at_most_once": it is
                sent settled; items on their way when the link ends are lost. "effectively_once": as at least once, but
                a message that comes again after a loss is dropped if it was accepted or is still in hand here.
                "manual": each item comes in a `Delivery`, and the user decides its outcome. An item at which a stage
                fails, or that a loop does not reach, is given back.
            decode: A function that makes an item of an encoded message. By default the item is the body: bytes for a
                data section, or the value.
            on_failure: The outcome of an item that cannot be decoded, or whose processing failed. "fail" and "modify"
                give it back as failed, "release" gives it back unchanged; it comes again at once. "reject" rejects it,
                "accept" accepts it, and `DeadLetters(address)` sends it to that address. After an item that cannot be
                decoded the stream ends with "fail", and goes on otherwise. A failure in the pipeline ends the stream,
                unless the pipeline handles it. A modified message comes again until the queue's limit of failed
                attempts, a released one without end.
            expose_errors: Whether the peer gets the text of an error, if an item is given back as failed, rejected, or
                sent to `DeadLetters`; otherwise only the type of the error. A dead letter of a node has this text.
            browse: Whether to get copies of the messages of a queue, in order; the messages stay in the queue. The
                stream goes on with later messages. If the peer does not say that it sends copies, it gets no credit,
                and the stream ends with `LinkDetached`.
            filters: The filters of the source: values by the filter's name, `Described` where the peer asks for it. If
                the peer does not use all filters, the stream ends before an item comes.
            capabilities: Capabilities that the source must have, such as "queue" or "topic" for some brokers.
            pack_items: The most items in one delivery, if the peer also uses rstreams; at most half of `window`. Packs
                make small items much faster. If the demand is smaller than a pack, a whole pack is requested.
            dedup_window: The number of accepted messages that are remembered, to drop them when they come again; at
                least `window`. By default 4096, or twice the window if this is more. Only with "effectively_once" and
                "manual".
            start: Where in a log the stream begins: "first", "last", "next", an offset or a time. After a lost
                connection it goes on behind the last message that was handed over. None: the peer decides where it
                begins.
            to_end: Whether the stream of a log completes behind the message that is the last one when the stream
                begins; without `start` it begins with the first message. A member of a group completes when all these
                messages have been handed out to the group.
            group: The consumer group of a log that this stream is a member of. `start` then counts for a new group. If
                messages were deleted before the group has settled them, the stream ends with `LinkDetached`, unless
                `start` is "first": then it goes on with the oldest message.
            subscription: The name of a subscription that the peer keeps, with the messages that come while this stream
                is away, until `unsubscribe`. The connection needs a `container_id` that you have chosen.
            priority: The priority among the receivers of a queue: the receivers with the highest priority get all
                messages while they have credit. None: the default of the peer. `ConfigError` if the peer's dialect has
                no such priorities.

        Once: The number that `publish(settlement="effectively_once")` gives a message identifies it. Without a number,
            its message id identifies it, which its senders must not use twice. Each subscription remembers its own
            messages.
        Credit: Granted when there is demand, never beyond it and never beyond `window` (see `protocol/credit.py`).
        Bytes: With `window_bytes`, credit is granted for the number of messages that will probably fit, by the sizes
            of the latest messages; at first for one message. If messages are larger, the connection stops reading. The
            link's AMQP session lets in an eighth more than the bound, or two frames if that is more, and the same
            number of bytes may be on its way. A single message may have up to `max_message_bytes` of the connection;
            it comes alone.
        Errors: `ConfigError` at the call for a bad option. `on_error` with `ConfigError` for a subscription in another
            thread than the connection's. `on_error` with `LinkDetached` if the peer refuses or ends the link with a
            condition, and with `AnswerTimeout` if it does not answer the attach. `on_error` with the connection's error
            if it is lost and does not return.
        Cancels: Withdraws the credit, releases items that were not handed over, detaches.
        Spec: Reactive Streams 1.1-1.11; AMQP 1.0 sections 2.6 and 3.4.
        """
        require_name("", "address", address)
        require_function("stream", "decode", decode)
        require_flag("", "expose_errors", expose_errors)
        manual = settlement == "manual"
        first_window = require_window(WINDOW if window is None else window)
        receiving = ReceivingOptions(
            decode=decode,
            window=first_window,
            window_grows=window is None and window_bytes is None and dedup_window is None,
            window_bytes=require_window_bytes(window_bytes),
            on_failure=strategy_for(on_failure, address, self._links.dead_letters_to, expose=expose_errors),
            pack_items=require_pack(pack_items, first_window),
        )
        source = LinkSource(
            address=address,
            receiving=receiving,
            settlement=Settlement.AT_LEAST_ONCE if manual else settlement_named(settlement, "manual"),
            remembered=remembered_for(settlement, dedup_window, first_window),
            manual=manual,
            browse=require_flag("", "browse", browse),
            filters=require_filters(filters),
            capabilities=require_capabilities(capabilities),
            start=require_start("first" if to_end and start is group is None else start, browse=browse),
            to_end=require_to_end(to_end, browse=browse),
            group=require_group(group, browse=browse),
            subscription=require_subscription(self._links, subscription, browse=browse, start=start, group=group),
            priority=require_priority(priority, browse=browse, start=start, to_end=to_end),
        )
        return Stream(LinkPublisher(self._links, source))

    @overload
    def messages(
        self, address: str, *, settlement: SettlementName = ..., **options: Unpack[StreamOptions]
    ) -> Stream[Message]: ...

    @overload
    def messages(
        self, address: str, *, settlement: Literal["manual"], **options: Unpack[StreamOptions]
    ) -> Stream[Delivery[Message]]: ...

    def messages(self, address: str, *, settlement: Any = "at_least_once", **options: Unpack[StreamOptions]) -> Any:
        """Return the stream of whole messages from `address`, with their properties; otherwise as `stream`."""
        require_argument_names("Connection.messages", options, StreamOptions.__annotations__, Connection.stream)
        return self.stream(address, decode=decode_unstamped, settlement=settlement, **options)

    def streamed_messages(
        self,
        address: str,
        *,
        on_failure: FailureName = "fail",
        filters: Mapping[str, Any] | None = None,
        capabilities: Sequence[str] = (),
    ) -> Stream[Message]:
        """Return the stream of messages from `address`; each message is handed over when its body begins.

        A body of bytes is a `ByteStream`, to be read while it comes: `async for chunk in message.body`. At most 1.5
        MiB of it is in memory, and no limit of message sizes applies. Read it before you take the next message: in the
        body of an `async for` over the stream, or in `map_async`. When the pipeline is done with the message, the rest
        of the body is thrown away. Other bodies come as a whole, as from `messages`, up to 64 MiB.

        Args:
            address: The peer's name for the source.
            on_failure: As for `stream`.
            filters: As for `stream`.
            capabilities: As for `stream`.

        Credit: One message; the next one is asked for when this one is settled.
        Errors: As `stream`. If the link ends before the body does, the reader of the body gets the same error. If the
            sender aborts the message, the reader gets `RStreamsError`.
        Cancels: As `stream`; an incomplete message is released.
        Settles: A message is accepted when the pipeline is done with it and its last byte has come.
        Spec: AMQP 1.0 section 2.6.14.
        """
        require_name("", "address", address)
        if isinstance(on_failure, DeadLetters):
            msg = "streamed_messages(on_failure=DeadLetters(...)): a streamed message cannot be sent a second time"
            raise ConfigError(msg)
        options = StreamedOptions(
            address=address,
            on_failure=strategy_for(on_failure, address, self._links.dead_letters_to),
            filters=require_filters(filters),
            capabilities=require_capabilities(capabilities),
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
        """Call `handler` with each item from `address` until the stream ends; an item is settled when its call ends.

        An item is accepted when `handler` has returned. If `handler` raises, `on_failure` is the outcome of the item,
        and other items go on. With "fail" the item is given back as failed, and this call ends.

        Args:
            address: The peer's name for the source.
            handler: An async function, or a function. It must not block, because nothing else in this trio run would
                go on, not even heartbeats. Run blocking code in a thread: `await trio.to_thread.run_sync(function,
                item)`.
            concurrency: The most items in `handler` at a time; at least 1. With more than one, items end in any order.
                `window` is the most items in `handler` or requested ahead; with `window=concurrency` no item is
                requested ahead.
            settlement: As for `stream`.
            decode: As for `stream`.
            **options: As for `stream`; `on_failure` is also the outcome of an item whose handler raised.

        Credit: For `concurrency` items at first. For a quick handler, items are requested ahead: the number that it
            handles in 5 ms, up to `window`. Without `window`, the limit is the window of the link: 256, up to 1,024
            while messages are small. Items whose handling has not begun are released at the end.
        Errors: As `stream`, when the earlier items are handled. With "fail" the exception of `handler`, at once.
            Otherwise each failure is logged.
        Cancels: Items in `handler` are given back as failed. Items that were not handed over are given back unchanged.
        Context: Any task of the connection's trio run; waits. `handler` runs in the scope of this call.
        """
        require_function("consume", "handler", handler)
        refuse_generator("consume", "handler", handler)
        require_function("consume", "decode", decode)
        functions = (Connection.consume, Connection.stream)
        require_argument_names("Connection.consume", options, StreamOptions.__annotations__, *functions)
        require_choice("consume", "settlement", settlement, Literal["at_least_once", "effectively_once"])
        window = options.get("window")
        if (most := require_ahead("consume", "concurrency", concurrency, window)) > WINDOW:
            window = options["window"] = most
        if options.get("browse"):
            msg = "consume(browse=True): browsed messages stay in their queue; use stream(browse=True) to get them"
            raise ConfigError(msg)
        items = self.stream(address, decode=decode, settlement=settlement, **options)
        links, on_failure = self._links, options.get("on_failure", "fail")
        traced = links.tracing is not None
        handling = Handling(handler, address, on_failure, links.at_work, ground_here(), traced=traced)
        await handling.of(items, concurrency, window)

    async def publish(
        self,
        address: str | None,
        items: Publisher[T],
        *,
        encode: Callable[[T], object] | None = None,
        encoded: bool = False,
        durable: bool | None = None,
        settlement: SettlementName = "at_least_once",
        expose_errors: bool = False,
        capabilities: Sequence[str] = (),
        pack_items: int = DEFAULT_PACK_ITEMS,
        linger_s: float = 0.0,
        producer_id: str | None = None,
        first_sequence: int = 0,
        on_end: Callable[[PublishResult], object] | None = None,
    ) -> PublishResult:
        """Send the items of a publisher to `address`; return when all of them are settled.

        Args:
            address: The peer's name for the target. None: each item is a `Message` to its own `address`, over one link;
                the peer must offer that (`ANONYMOUS-RELAY`).
            items: A stream or any publisher. Its items are `Message`s, or values that become a message's body. A body
                that is a `ByteStream` is sent while it comes, one message at a time; half a megabyte of it and one
                chunk are in memory. If it raises, the delivery is aborted, and the call ends with the exception. Such
                a body cannot be sent again: if the connection is lost before the message is settled, the call ends,
                even if the connection returns.
            encode: A function that returns the `Message` for an item, or the value that becomes its body. None: the
                item is sent as it is. A tuple arrives as a list, because AMQP has only lists; docs/guides/codecs.md has
                recipes.
            encoded: Whether the items are encoded messages, as bytes, which are sent as they are; without `encode`.
            durable: Whether every message is marked as durable: a broker must then keep it over its restart. False:
                only a `Message` with `durable=True` is marked. None: True, except at an `rstreams.Node`, whose
                addresses decide.
            settlement: "at_least_once": each item waits for the peer's outcome. "at_most_once": sent settled.
                "effectively_once": as at least once, but a queue or multicast of an `rstreams.Node` drops a message
                that it has stored already when it is sent again after a loss.
            expose_errors: Whether the text of an exception of `items` goes to the peer; otherwise only that it failed.
            capabilities: Capabilities that the target must have, such as "queue" or "topic" for some brokers.
            pack_items: The most items of a delivery, if the peer takes packs; 1: no packs. A pack does not wait for
                items.
            linger_s: How long a pack may wait for more items, in seconds; 0: not at all.
            producer_id: Effectively once: the producer's id, which the node remembers. None: a new random id for this
                call. With an id of your own, and items in the same order each time, publish may be called again, after
                an error or in a new process, from any item: the node stores only the items that it has not stored
                before. For each address, use an id in one call at a time: if two links have the same id, the node ends
                the older link.
            first_sequence: The number of the first item; the next items count up from it.
            on_end: Called once with the result, whether the call returns, raises or is cancelled; it must not block.

        Once: Peers other than an `rstreams.Node` ignore the numbers, and may store a message twice. Then a consumer
            with "effectively_once" drops the second copy. A node keeps the numbers of producers where it keeps
            messages: in memory or in its store.
        Demand: The peer's credit; an item is requested only when it can be sent.
        Errors: `LinkDetached` if the peer refuses or ends the link, `AnswerTimeout` if it does not answer. The error
            of the connection, if it is lost for good. `DeliveryFailed` for the first item that is not accepted. The
            error of `items`. `ConfigError` that names an item that cannot be encoded; the items before it are sent.
            `published` of an error of rstreams has the result.
        Cancels: The source is cancelled and the link detached; items sent before may have arrived: see `on_end`.
        Context: Any task of the connection's trio run; waits. The tasks of `items` live in the connection's scope.
        Spec: AMQP 1.0 sections 2.6.7 and 2.6.12.
        """
        require_target(address)
        require_seconds("publish", "linger_s", linger_s, zero=True)
        if on_end is not None:
            require_plain("publish", "on_end", on_end)
        message_of = message_encoder(
            "publish", encode, self.dialect, durable=durable, encoded=encoded, addressed=address is None
        )
        options = SendingOptions(
            encode=message_of,
            settlement=settlement_named(settlement),
            fail_on_refusal=True,
            expose_errors=expose_errors,
            pack_items=require_pack(pack_items),
            linger_s=linger_s,
        )
        publication = Publication(self._links, address, encode, options, traced=not encoded)
        stamper = stamper_for(settlement, producer_id, first_sequence)
        return await publication.of(items, require_capabilities(capabilities), stamper, on_end)

    @async_entered("async with connection.sender(...) as sender:")
    async def sender(
        self,
        address: str | None,
        *,
        encode: Callable[[Any], object] | None = None,
        durable: bool | None = None,
        settlement: SettlementName = "at_least_once",
        capabilities: Sequence[str] = (),
        producer_id: str | None = None,
        first_sequence: int = 0,
    ) -> AsyncIterator[Sender]:
        """Open a sender to `address` for an `async with` block: messages from tasks, each with its outcome.

        Args:
            address: As for `publish`.
            encode: As for `publish`.
            durable: As for `publish`.
            settlement: "at_least_once": each message waits for the peer's outcome. "at_most_once": sent settled.
                "effectively_once": as for `publish`.
            capabilities: As for `publish`.
            producer_id: As for `publish`.
            first_sequence: The number of the first message sent; the next ones are numbered in the order of sending.

        Errors: `ConfigError` for a bad option. The error of the link, raised by the calls of the sender, and at the
            end of the block if the outcome of a message never came.
        Cancels: As an exception in the block: the link is detached at once; messages sent before may arrive.
        Context: One task of the connection's trio run enters and leaves the block, which ends when all is settled.
        """
        require_target(address)
        message_of = message_encoder("sender", encode, self.dialect, durable=durable, addressed=address is None)
        mode = settlement_named(settlement)
        if settlement != EFFECTIVELY_ONCE:
            message_of = streaming(message_of, open_body)
        settled = mode is Settlement.AT_MOST_ONCE
        sender = sender_for(self._links.tracing, address, settled=settled, encode=encode, message_of=message_of)
        sending = self._links.send(
            f"sender({address!r})",
            address,
            sender,
            SendingOptions(encode=as_is, settlement=mode),
            capabilities=require_capabilities(capabilities),
            stamper=stamper_for(settlement, producer_id, first_sequence),
            on_finished=sender.on_finished,
            on_leave=sender.complete,
        )
        try:
            yield sender
            sender.complete()
            await sending.ended()
        except BaseException:
            sending.end.abort()
            raise


def require_target(address: str | None) -> None:
    """Check the address that messages are to go to."""
    if address is not None:
        require_name("", "address", address)


name_arguments("Connection", Connection, RequestReply, LookingMethods, DrainingMethods)


def __dir__() -> list[str]:
    return __all__
