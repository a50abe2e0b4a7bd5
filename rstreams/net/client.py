"""The client: a connection to an AMQP 1.0 peer, streams from its addresses and publishing to them."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import trio

from rstreams._runs import Watched
from rstreams._subscription import require_subscriber, subscribe_failed
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import Condition, ConfigError, ConnectFailed
from rstreams.message import Message, decode_body, decode_message, encode_item
from rstreams.net._names import check_container_id, check_name
from rstreams.net._options import check_connect_timeout, check_idle_timeout, check_max_frame
from rstreams.net._proton import LinkDriver
from rstreams.net._pump import Pump
from rstreams.net.address import PeerAddress, parse_url
from rstreams.protocol.credit import check_window
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.runtime.scope import Scope
from rstreams.stream import Stream

T = TypeVar("T")

SettlementName = Literal["at_most_once", "at_least_once"]

DEFAULT_WINDOW = 256
DEFAULT_IDLE_TIMEOUT_S = 30.0
DEFAULT_MAX_FRAME_BYTES = 64 * 1024

logger = logging.getLogger("rstreams.net")


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

    def __init__(self, pump: Pump, container_id: str) -> None:
        """Use an open connection."""
        self._pump = pump
        self._container_id = container_id
        self._numbers = itertools.count(1)
        self._run = trio.lowlevel.current_trio_token()

    def __repr__(self) -> str:
        """Return where the connection leads."""
        return f"<rstreams connection to {self._pump.peer}>"

    def stream(
        self,
        address: str,
        *,
        window: int = DEFAULT_WINDOW,
        settlement: SettlementName = "at_least_once",
        decode: Callable[[bytes], Any] = decode_body,
    ) -> Stream[Any]:
        """Return the stream of what is sent to `address`: one link for each subscription.

        Args:
            address: The peer's name for the source.
            window: The most items granted, buffered and unsettled together, of one subscription.
            settlement: "at_least_once": an item is accepted when the pipeline is through with it. "at_most_once": it is
                sent settled, so what is under way when the link ends is lost.
            decode: Makes an item of an encoded message; the default gives its body: bytes for a data section, else the
                value it holds.

        Credit: Granted as demand comes, never beyond it and never beyond `window` (see `protocol/credit.py`).
        Errors: `ConfigError` at the call for a bad option; `on_error` with one if it is subscribed to in another thread
            than the connection's. `on_error` with `LinkDetached` if the peer refuses or ends
            the link with a condition, with what ended the connection if it is lost.
        Cancels: Withdraws the credit, releases what was not handed over, detaches.
        Spec: Reactive Streams 1.1-1.11; AMQP 1.0 section 2.6.
        """
        link = _LinkPublisher(self, address, window, _settlement(settlement), decode)
        return Stream(link)

    def messages(
        self, address: str, *, window: int = DEFAULT_WINDOW, settlement: SettlementName = "at_least_once"
    ) -> Stream[Message]:
        """Return the stream of whole messages from `address`, with their properties; else as `stream`."""
        return self.stream(address, window=window, settlement=settlement, decode=decode_message)

    async def publish(
        self,
        address: str,
        items: Publisher[Any],
        *,
        settlement: SettlementName = "at_least_once",
        expose_errors: bool = False,
    ) -> PublishResult:
        """Send what `items` publishes to `address`; return when all of it is settled.

        Args:
            address: The peer's name for the target.
            items: A stream or any publisher. Its items are `Message`s, or values that become a message's body.
            settlement: "at_least_once": each item waits for the peer's outcome. "at_most_once": sent settled.
            expose_errors: Whether the text of an exception of `items` goes to the peer; else only that it failed.

        Demand: The peer's credit; nothing is requested that could not be sent.
        Errors: `LinkDetached` if the peer refuses or ends the link; what ended the connection if it is lost;
            `DeliveryFailed` for the first item not accepted; what `items` failed with. `outcome_unknown` of the error
            counts items sent whose outcome never came.
        Cancels: The source is cancelled and the link detached; items sent before may have arrived.
        Context: Any task of the connection's trio run; waits. The tasks of `items` live in the connection's scope.
        Spec: AMQP 1.0 sections 2.6.7 and 2.6.12.
        """
        _check_address(address)
        if not callable(getattr(items, "subscribe", None)):
            msg = f"publish({address!r}): items must be a Stream or another Publisher, not {type(items).__name__}"
            raise ConfigError(msg)
        if not self._is_here:
            error = self._elsewhere(f"publish({address!r})")
            raise error
        finished = trio.Event()
        errors: list[BaseException] = []

        def on_finished(error: BaseException | None) -> None:
            errors.extend([] if error is None else [error])
            finished.set()

        mode = _settlement(settlement)
        end = LinkSubscriber(
            items,
            encode=encode_item,
            settlement=mode,
            settle_before_detach=True,
            fail_on_refusal=True,
            expose_errors=expose_errors,
            on_finished=on_finished,
        )
        self._pump.attach(end, Attach(self._link_name(), Role.SENDER, "", address, mode))
        try:
            await finished.wait()
        except trio.Cancelled:
            end.abort()
            raise
        if errors:
            raise errors[0]
        return PublishResult(end.accepted)

    @property
    def _is_here(self) -> bool:
        """Whether this is the trio run, and so the thread, that the connection lives in."""
        return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._run

    def _elsewhere(self, call: str) -> ConfigError:
        text = "it was called in another thread or trio run than its connection's, and signals cannot cross from one to"
        return ConfigError(f"{call} of the connection to {self._pump.peer}: {text} another")

    def _link_name(self) -> str:
        return f"{self._container_id}/{next(self._numbers)}"


class _LinkPublisher(Watched, Generic[T]):
    """The publisher behind `Connection.stream`: each subscription attaches a link."""

    def __init__(
        self,
        connection: Connection,
        address: str,
        window: int,
        settlement: Settlement,
        decode: Callable[[bytes], T],
    ) -> None:
        super().__init__()
        _check_address(address)
        self._connection = connection
        self._address = address
        self._window = check_window(window)
        self._settlement = settlement
        self._decode = decode

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        if not self._connection._is_here:
            subscribe_failed(subscriber, self._connection._elsewhere(f"stream({self._address!r})"))
            return
        label = f"link {self._address!r}"
        end = LinkSubscription(
            subscriber, decode=self._decode, window=self._window, on_raised=self._raised, label=label
        )
        self._begins(end)
        name = self._connection._link_name()
        frame = Attach(name, Role.RECEIVER, self._address, "", self._settlement)
        self._connection._pump.attach(end, frame)

    def _raised(self, error: BaseException) -> None:
        text = "the subscriber of %r raised; its subscription is cancelled (Reactive Streams rule 2.13)"
        logger.error(text, self._address, exc_info=error)


@asynccontextmanager
async def connect(
    url: str,
    *,
    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S,
    connect_timeout_s: float = 10.0,
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    container_id: str | None = None,
) -> AsyncIterator[Connection]:
    """Open a connection to an AMQP 1.0 peer for the length of an `async with` block.

    Args:
        url: `amqp://[user:password@]host[:port]`; with credentials SASL PLAIN is used, without ANONYMOUS.
        idle_timeout_s: Seconds of silence after which the peer counts as dead.
        connect_timeout_s: Seconds until the connection must be open.
        max_frame_bytes: The largest frame this side takes; larger messages come in several.
        container_id: This side's name for the peer; a random one by default.

    Errors: `ConfigError` for a bad option; `ConnectFailed` if nothing listens there or it speaks no AMQP 1.0;
        `AuthenticationFailed`; `ConnectionClosed` if the peer opened and closed it at once. What leaves the block
        leaves it unwrapped.
    Cancels: The connection is closed in order, within 3 seconds, and what is subscribed in it ends with it.
    Context: One task enters and leaves the block; any task of the same trio run may use the connection.
    """
    address = parse_url(url)
    check_idle_timeout(idle_timeout_s)
    check_connect_timeout(connect_timeout_s)
    check_max_frame(max_frame_bytes)
    check_container_id(container_id)
    name = container_id or f"rstreams-{uuid.uuid4()}"
    async with Scope() as scope:
        pump: Pump | None = None
        with trio.move_on_after(connect_timeout_s):
            pump = Pump(
                await _open_tcp(address),
                peer=str(address),
                container_id=name,
                hostname=address.host,
                idle_timeout_s=idle_timeout_s,
                max_frame_bytes=max_frame_bytes,
                on_attach=_refuse_attach,
            )
            pump.engine.connect(address.user, address.password)
            scope.nursery.start_soon(pump.run)
            await pump.opened.wait()
        if pump is None or not pump.opened.is_set():
            msg = f"{address} did not answer within connect_timeout_s={connect_timeout_s:g}"
            raise ConnectFailed(msg)
        if pump.error is not None:
            raise pump.error
        try:
            yield Connection(pump, name)
        finally:
            with trio.CancelScope(shield=True):
                await pump.close()


async def _open_tcp(address: PeerAddress) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(address.host, address.port)
    except OSError as error:
        cause = error.__cause__ or error
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        msg = f"cannot connect to {address}: {getattr(cause, 'strerror', None) or cause}"
        raise ConnectFailed(msg) from error


def _refuse_attach(driver: LinkDriver, frame: Attach) -> None:
    text = "this side is a client and has no addresses"
    driver.bind(refuse(driver, frame, Condition.NOT_ALLOWED.value, text))


def _settlement(name: SettlementName) -> Settlement:
    try:
        return Settlement(name)
    except ValueError:
        allowed = " or ".join(repr(mode.value) for mode in Settlement)
        msg = f"settlement={name!r}: it must be {allowed}"
        raise ConfigError(msg) from None


def _check_address(address: str) -> None:
    check_name("address", address, "an address")
