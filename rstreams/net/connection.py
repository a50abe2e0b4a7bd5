"""A connection to an AMQP 1.0 peer: streams from its addresses, and publishing to them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, Unpack, overload

import trio

from rstreams._times import require_seconds
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.message import Message, decode_body, decode_message, encode_item
from rstreams.net._names import check_name
from rstreams.net.carrier import ConnectionStatus
from rstreams.net.failures import DeadLetters, FailureName, strategy_for
from rstreams.net.links import Links
from rstreams.net.receiving import LinkPublisher, ReceivingOptions, StreamOptions
from rstreams.net.sender import Sender
from rstreams.protocol.credit import check_pack, check_window
from rstreams.protocol.delivery import Delivery
from rstreams.protocol.frames import Settlement
from rstreams.stream import Stream

__all__ = ["Connection", "Delivery", "PublishResult", "SettlementName"]

T = TypeVar("T")

SettlementName: TypeAlias = Literal["at_most_once", "at_least_once"]

DEFAULT_WINDOW = 256
DEFAULT_PACK_ITEMS = 64


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What became of a published stream that ended well.

    Attributes:
        accepted: Items the peer accepted; at most once: items sent.
    """

    accepted: int


class Connection:
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
    def status(self) -> ConnectionStatus:
        """Whether the connection is open, lost for a while, or closed, and why."""
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
        window: int = DEFAULT_WINDOW,
        on_failure: FailureName | DeadLetters = "fail",
        filters: Mapping[str, Any] | None = None,
        capabilities: Sequence[str] = (),
        pack_items: int = 1,
    ) -> Stream[Any]:
        """Return the stream of what is sent to `address`: one link for each subscription.

        Args:
            address: The peer's name for the source.
            window: The most items granted, buffered and unsettled together, of one subscription.
            settlement: "at_least_once": an item is accepted when the pipeline is through with it. "at_most_once": it is
                sent settled, so what is under way when the link ends is lost. "manual": each item comes in a
                `Delivery`, whose outcome the user decides.
            decode: Makes an item of an encoded message; the default gives its body: bytes for a data section, else the
                value it holds.
            on_failure: What becomes of an item that cannot be decoded, or whose processing failed: "fail" gives it back
                as failed, and what cannot be decoded ends the stream. "modify" (give back as failed), "release" (give
                back untouched), "reject", "accept" and `DeadLetters(address)` go on after what cannot be decoded. A
                failure in the pipeline ends the stream, unless the pipeline handles it.
            filters: What of the source is wanted: values by the filter's name, `Described` where the peer asks for it.
            capabilities: What the source must be able to do, such as "queue" or "topic" for some brokers.
            pack_items: The most items that may come in one delivery, if the peer is of rstreams; at most half of
                `window`. Much faster for small items, but not exact: while less demand is left than a pack has items,
                one is drawn, and what of it is not wanted waits here, or is given back.

        Credit: Granted as demand comes, never beyond it and never beyond `window` (see `protocol/credit.py`).
        Errors: `ConfigError` at the call for a bad option; `on_error` with one if it is subscribed to in another thread
            than the connection's. `on_error` with `LinkDetached` if the peer refuses or ends the link with a condition,
            with what ended the connection if it is lost and does not return.
        Cancels: Withdraws the credit, releases what was not handed over, detaches.
        Spec: Reactive Streams 1.1-1.11; AMQP 1.0 sections 2.6 and 3.4.
        """
        _check_address(address)
        manual = settlement == "manual"
        options = ReceivingOptions(
            address=address,
            window=check_window(window),
            settlement=Settlement.AT_LEAST_ONCE if manual else _settlement(settlement, "manual"),
            decode=decode,
            manual=manual,
            on_failure=strategy_for(on_failure, address, self._links.dead_letters_to),
            filters=dict(filters or {}),
            capabilities=tuple(capabilities),
            pack_items=check_pack(pack_items, window),
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
        return self.stream(address, decode=decode_message, settlement=settlement, **options)

    async def consume(
        self,
        address: str,
        handler: Callable[[Any], Awaitable[object]] | Callable[[Any], object],
        *,
        concurrency: int = 1,
        decode: Callable[[bytes], Any] = decode_body,
        **options: Unpack[StreamOptions],
    ) -> None:
        """Call `handler` with each item from `address`, and settle the item by how that went, until the stream ends.

        An item is accepted when `handler` has returned. One whose handler raises has the outcome that `on_failure`
        says, and the others go on; with "fail" it is given back as failed and ends the call.

        Args:
            address: The peer's name for the source.
            handler: A function, which must not block, or an async function.
            concurrency: The most items in `handler` at a time; at least 1. With more than one they end in any order.
            decode: As for `stream`.
            **options: As for `stream`; `on_failure` says, too, what becomes of an item whose handler raised.

        Credit: Never more than `concurrency` items are asked for that have not been handled.
        Errors: As `stream`; with "fail" what `handler` raised.
        Cancels: Items in `handler` are given back as failed, items not yet handed over untouched.
        Context: Any task of the connection's trio run; waits. `handler` runs in the scope of this call.
        """
        ends = options.get("on_failure", "fail") == "fail"

        async def handle(delivery: Delivery[Any]) -> None:
            try:
                result = handler(delivery.item)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                delivery.fail(error)
                if ends:
                    raise
            except BaseException:  # a cancellation, which is nobody's failure but has begun the work
                delivery.modify()
                raise
            else:
                delivery.accept()

        deliveries = self.stream(address, decode=decode, settlement="manual", **options)
        await deliveries.map_async(handle, concurrency=concurrency, ordered=False).for_each(_nothing)

    async def publish(
        self,
        address: str,
        items: Publisher[Any],
        *,
        settlement: SettlementName = "at_least_once",
        expose_errors: bool = False,
        capabilities: Sequence[str] = (),
        pack_items: int = DEFAULT_PACK_ITEMS,
        linger_s: float = 0.0,
    ) -> PublishResult:
        """Send what `items` publishes to `address`; return when all of it is settled.

        Args:
            address: The peer's name for the target.
            items: A stream or any publisher. Its items are `Message`s, or values that become a message's body.
            settlement: "at_least_once": each item waits for the peer's outcome. "at_most_once": sent settled.
            expose_errors: Whether the text of an exception of `items` goes to the peer; else only that it failed.
            capabilities: What the target must be able to do, such as "queue" or "topic" for some brokers.
            pack_items: The most items sent in one delivery, if the peer takes packs; 1 for none. Only what is there
                goes into one, so that a slow stream is not held up.
            linger_s: How long a pack may wait for more items all the same, in seconds.

        Demand: The peer's credit; nothing is requested that could not be sent.
        Errors: `LinkDetached` if the peer refuses or ends the link; what ended the connection if it is lost and does
            not return; `DeliveryFailed` for the first item not accepted; what `items` failed with. `outcome_unknown` of
            the error counts items sent whose outcome never came.
        Cancels: The source is cancelled and the link detached; items sent before may have arrived.
        Context: Any task of the connection's trio run; waits. The tasks of `items` live in the connection's scope.
        Spec: AMQP 1.0 sections 2.6.7 and 2.6.12.
        """
        call = f"publish({address!r})"
        _check_address(address)
        require_seconds("publish", "linger_s", linger_s, zero=True)
        if not callable(getattr(items, "subscribe", None)):
            msg = f"{call}: items must be a Stream or another Publisher, not {type(items).__name__}"
            raise ConfigError(msg)
        sending = self._links.send(
            call,
            address,
            items,
            encode=encode_item,
            settlement=_settlement(settlement),
            fail_on_refusal=True,
            expose_errors=expose_errors,
            capabilities=tuple(capabilities),
            pack_items=check_pack(pack_items),
            linger_s=linger_s,
        )
        try:
            await sending.finished.wait()
        except trio.Cancelled:
            sending.end.abort()
            raise
        if sending.error is not None:
            raise sending.error
        return PublishResult(sending.end.accepted)

    @asynccontextmanager
    async def sender(
        self, address: str, *, settlement: SettlementName = "at_least_once", capabilities: Sequence[str] = ()
    ) -> AsyncIterator[Sender]:
        """Open a sender to `address` for an `async with` block: messages from tasks, each with its outcome.

        Args:
            address: The peer's name for the target.
            settlement: "at_least_once": each message waits for the peer's outcome. "at_most_once": sent settled.
            capabilities: As for `publish`.

        Errors: `ConfigError` for a bad option; what ended the link, from the calls of the sender, and at the end of the
            block if a message's outcome never came.
        Cancels: As an exception in the block: the link is detached at once; messages sent before may arrive.
        Context: One task of the connection's trio run enters and leaves the block; at its end it waits until all that
            was sent is settled.
        """
        _check_address(address)
        mode = _settlement(settlement)
        sender = Sender(address, settled=mode is Settlement.AT_MOST_ONCE)
        sending = self._links.send(
            f"sender({address!r})",
            address,
            sender,
            encode=bytes,
            settlement=mode,
            fail_on_refusal=False,
            expose_errors=False,
            capabilities=tuple(capabilities),
            on_finished=sender.on_finished,
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


def _nothing(_result: None) -> None:
    """The outcome has been told already."""


def _settlement(name: str, *more: str) -> Settlement:
    try:
        return Settlement(name)
    except ValueError:
        *allowed, last = [repr(each) for each in (*(mode.value for mode in Settlement), *more)]
        msg = f"settlement={name!r}: it must be {', '.join(allowed)} or {last}"
        raise ConfigError(msg) from None


def _check_address(address: str) -> None:
    check_name("address", address, "an address")
