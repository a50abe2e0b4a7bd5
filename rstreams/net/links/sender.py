"""A sender: messages sent one by one from tasks, each with the peer's outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, runtime_checkable

import trio

from rstreams import _machine
from rstreams._core.claims import DONE, NO_HOLD, Claims, Ending, Settles
from rstreams._core.demand import TURN_S, add_demand
from rstreams._core.kept_errors import KeptError
from rstreams.abc import Hold, Subscriber
from rstreams.errors import ConfigError, DeliveryFailed, RStreamsError
from rstreams.message import encode_item
from rstreams.net.links.encoding import Encoding
from rstreams.net.links.own_run import called_elsewhere

TURN_CALLS: Final = 128
"""The most calls of `submit` between two at which other tasks run."""


class Receipt:
    """The outcome of one message, which is known when the peer has settled it; made by `Sender.submit`.

    Context: Any task of the connection's trio run.
    """

    __slots__ = ("_awaited", "_error", "_settled", "_tell")

    def __init__(self) -> None:
        self._settled = False
        self._awaited: trio.Event | None = None  # set when it is settled, if somebody waits
        self._error: KeptError[BaseException] | None = None
        self._tell: Callable[[Receipt], object] | None = None

    def __repr__(self) -> str:
        """Return the outcome, if it is known."""
        outcome = "waits" if not self.settled else "accepted" if self._error is None else f"failed: {self._error.error}"
        return f"<rstreams receipt: {outcome}>"

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            msg = "wait for a receipt with `await receipt.wait()`"
            raise TypeError(msg)

    @property
    def settled(self) -> bool:
        """Whether the outcome is known."""
        return self._settled

    @property
    def error(self) -> BaseException | None:
        """The reason why the message was not accepted; None if it was accepted, or if the outcome is not known yet."""
        return None if self._error is None else self._error.error

    async def wait(self) -> None:
        """Wait until the peer has accepted the message.

        Errors: `DeliveryFailed` if it was settled with another outcome. The error of the link if its outcome never
            came, or if it was never sent.
        Cancels: The message is not taken back.
        """
        if self._settled:
            await trio.lowlevel.checkpoint()
        else:
            if self._awaited is None:
                self._awaited = trio.Event()
            await self._awaited.wait()
        self._raise_error()

    def _raise_error(self) -> None:
        """Raise the reason why the message was not accepted, if there is one."""
        if self._error is not None:
            raise self._error.again()

    def when_settled(self, tell: Callable[[Receipt], object]) -> None:
        """Have `tell` called once with this receipt when the outcome is known, at once if it is; it must not block."""
        self._tell = tell
        if self.settled:
            tell(self)

    def _settle(self, how: Ending) -> None:
        """Note the outcome."""
        if how is not DONE:
            self._error = KeptError(how if isinstance(how, BaseException) else DeliveryFailed("released"))
        self._settled = True
        if self._awaited is not None:
            self._awaited.set()
        if self._tell is not None:
            self._tell(self)


@runtime_checkable
class _GivesBack(Protocol):
    """A link that gives back a message that it has not sent."""

    def withdraw(self, place: object) -> bool:
        """Forget the message whose claim is on this place, and release it; return whether it had not been sent."""
        ...


class Waiter:
    """A message that waits for credit.

    Attributes:
        message: The message.
        receipt: Its receipt, when it has been sent.
    """

    __slots__ = ("_tell", "message", "receipt")

    def __init__(self, message: object, tell: Callable[[Receipt], object] | None = None) -> None:
        """Wait; `tell` is called when the outcome is known."""
        self.message = message
        self.receipt: Receipt | None = None
        self._tell = tell

    def sent(self, receipt: Receipt) -> None:
        """Hear that the message has been sent."""
        self.receipt = receipt
        if self._tell is not None:
            receipt.when_settled(self._tell)

    def give_up(self) -> None:
        """Hear that the message will not be sent."""


class _WaitingTask(Waiter):
    """A task whose message waits for credit.

    Attributes:
        turn: Set when it has been sent, or never will be.
    """

    __slots__ = ("turn",)

    def __init__(self, message: object) -> None:
        super().__init__(message)
        self.turn = trio.Event()

    def sent(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.turn.set()

    def give_up(self) -> None:
        self.turn.set()


class Sender(ABC):
    """Sends messages of any tasks to one address; made by `Connection.sender`.

    It buffers nothing: `submit` and `send` wait for the peer's credit. Tasks are served in the order of their calls.

    Attributes:
        address: The peer's name for the target; None: each message goes to its own address.

    Context: Any task of the connection's trio run; several may send at the same time.
    """

    address: str | None
    _to: str  # the address, for messages

    def __repr__(self) -> str:
        """Return the address that it sends to."""
        return f"<rstreams sender to {self._to}>"

    @abstractmethod
    async def send(self, item: Any) -> None:  # noqa: ANN401 - a `Message`, or any value AMQP carries
        """Send one message and wait until the peer has accepted it.

        Args:
            item: A `Message`, or a value that becomes a message's body.

        Errors: `ConfigError` if it cannot be encoded, or in another thread. `DeliveryFailed` if the peer rejects,
            releases or modifies it. The error of the link if the link ends before.
        Cancels: If the message has not left, it is not sent any more, also while the connection is away. If it has
            left, it may arrive. If then the connection is lost before the outcome comes, and returns, the message may
            be sent again.
        Spec: AMQP 1.0 sections 2.6.7 and 2.6.12.
        """

    @abstractmethod
    async def submit(self, item: Any) -> Receipt:  # noqa: ANN401 - likewise
        """Send one message as soon as there is credit for it; do not wait for its outcome.

        Args:
            item: A `Message`, or a value that becomes a message's body.

        Returns: The receipt to wait for; `receipt.wait()` raises the same errors as `send`.

        Errors: `ConfigError` if it cannot be encoded, or in another thread; the error of the link.
        Cancels: Before the message is sent, also while it waits for credit: nothing is sent.
        Context: Other tasks run, and messages leave, at least once in 128 calls and every 5 ms of calls.
        """


class SenderPublisher(Sender, Settles):
    """A sender, and the publisher of its link. Its receipts are the places of the claims on its messages."""

    def __init__(
        self,
        address: str | None,
        *,
        settled: bool = False,
        encoded: bool = False,
        encode: Callable[[Any], object] | None = None,
        message_of: Callable[[Any], bytes] = encode_item,
    ) -> None:
        """Wait for a link to subscribe.

        Args:
            address: The peer's name for the target; None: each message goes to its own address.
            settled: Whether messages are sent settled; so are their receipts then.
            encoded: Whether messages come encoded.
            encode: Called with each item; None: an item is sent as it is.
            message_of: Makes an encoded message of an item, after `encode`.
        """
        self.address = address
        self._to = "any address" if address is None else repr(address)
        self._own_run = trio.lowlevel.current_trio_token()
        self._settled = settled
        self._is_encoded = encoded
        self._encode = None if encode is None else Encoding(encode)
        self._message_of = message_of
        self._subscriber: Subscriber[Any] | None = None
        self._demand = 0
        self._waiters: deque[Waiter] = deque()
        self._current: Hold = NO_HOLD  # on the message that is handed to the link
        self._closed: KeptError[BaseException] | None = None
        self._on_wait: Callable[[], None] | None = None
        self._begin_turn()

    async def send(self, item: Any) -> None:  # noqa: ANN401 - a `Message`, or any value AMQP carries
        """See `Sender`."""
        receipt = await self.submit(item)
        if not receipt._settled or receipt._error is not None:  # `submit` lets other tasks run
            try:
                await receipt.wait()
            except trio.Cancelled:
                self.take_back(receipt)
                raise

    def take_back(self, receipt: Receipt) -> None:
        """Do not send a message that waits for room at the link, or for the next connection."""
        if not receipt.settled and isinstance(self._subscriber, _GivesBack):
            self._subscriber.withdraw(receipt)

    async def submit(self, item: Any) -> Receipt:  # noqa: ANN401 - likewise
        """See `Sender`."""
        encoded = self._encoded(item)
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None:
            raise self._closed.again()
        if not self._demand or self._waiters:
            return await self._sent_in_turn(encoded)
        self._demand -= 1
        receipt = self._sent(encoded)
        self._calls += 1
        if self._calls >= TURN_CALLS or _machine.now() >= self._turn_ends:
            await trio.lowlevel.cancel_shielded_checkpoint()  # after the message: no other one overtakes it
            self._begin_turn()
        return receipt

    def _sent(self, encoded: object) -> Receipt:
        return self._hand_over(encoded, Receipt())

    def _hand_over(self, encoded: object, receipt: Receipt) -> Receipt:
        """Hand a message over to the link."""
        self._current = Claims(self, 0, (receipt,))
        assert self._subscriber is not None, "there was credit"
        self._subscriber.on_next(encoded)
        if self._settled:
            receipt._settle(DONE)
        return receipt

    def _begin_turn(self) -> None:
        """Note that other tasks have run."""
        self._calls = 0  # of `submit` since then
        self._turn_ends = _machine.now() + TURN_S

    def _encoded(self, item: object) -> object:
        error = called_elsewhere(self._own_run, "send()", f"the sender to {self._to}")
        if error is not None:
            raise error
        if self._is_encoded:
            return item
        try:
            sent = item if self._encode is None else self._encode.at_once(item)
            return self._message_of(sent)
        except ConfigError as error:
            msg = f"a message to {self._to}: {error}"
            raise ConfigError(msg) from error

    async def _sent_in_turn(self, encoded: object) -> Receipt:
        """Wait until the message has been sent, behind those that waited before."""
        waiter = _WaitingTask(encoded)
        self._line_up(waiter)
        try:
            await waiter.turn.wait()
        except trio.Cancelled:
            self.withdraw(waiter)
            raise
        self._begin_turn()
        if waiter.receipt is None:
            self._check_open()
        assert waiter.receipt is not None, "it was sent, or the sender is closed"
        return waiter.receipt

    def _line_up(self, waiter: Waiter) -> None:
        self._waiters.append(waiter)
        if self._on_wait is not None:
            self._on_wait()

    def _serve(self) -> None:
        """Send messages that wait. Their tasks could run in any order, therefore no task sends its own."""
        while self._demand and self._waiters:
            self._demand -= 1
            waiter = self._waiters.popleft()
            waiter.sent(self._sent(waiter.message))

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed.again()

    def _close(self, error: BaseException) -> None:
        if self._closed is None:
            self._closed = KeptError(error)
            waiters, self._waiters = self._waiters, deque()
            for waiter in waiters:
                waiter.give_up()

    def submit_now(self, item: Any) -> Receipt | None:  # noqa: ANN401 - a `Message`, or any value AMQP carries
        """Send one message if there is credit and no other one waits; else send nothing and return None.

        Errors: As `submit`.
        """
        encoded = self._encoded(item)
        self._check_open()
        if not self._demand or self._waiters:
            return None
        self._demand -= 1
        return self._sent(encoded)

    def submit_soon(self, item: Any, tell: Callable[[Receipt], object]) -> Waiter:  # noqa: ANN401 - likewise
        """Send one message now, or as soon as there is credit, behind those that wait; no task has to wait for that.

        Args:
            item: As for `submit`.
            tell: Called with the receipt when the outcome is known. It is not called if the sender is closed before the
                message is sent.

        Errors: As `submit`.
        """
        waiter = Waiter(self._encoded(item), tell)
        self._check_open()
        if self._demand and not self._waiters:
            self._demand -= 1
            waiter.sent(self._sent(waiter.message))
        else:
            self._line_up(waiter)
        return waiter

    def withdraw(self, waiter: Waiter) -> None:
        """Do not send a message any more, if it still waits: here, or at the link."""
        if waiter.receipt is not None:
            self.take_back(waiter.receipt)
        elif waiter in self._waiters:
            self._waiters.remove(waiter)

    def turn_is_over(self) -> bool:
        """Tell whether other tasks are to run before the next message; then a new turn begins."""
        self._calls += 1
        if self._calls < TURN_CALLS and _machine.now() < self._turn_ends:
            return False
        self._begin_turn()
        return True

    @property
    def waiting(self) -> int:
        """How many messages wait for credit."""
        return len(self._waiters)

    def when_waiting(self, tell: Callable[[], None]) -> None:
        """Have `tell` called whenever a message begins to wait."""
        self._on_wait = tell

    def complete(self, why: RStreamsError | None = None) -> None:
        """Take no more messages; the link is detached when all are settled.

        Args:
            why: The error for messages that come later; None: one which says that the sender is closed.
        """
        if self._closed is None:
            self._close(why or RStreamsError(f"the sender to {self._to} is closed"))
            if self._subscriber is not None:
                self._subscriber.on_complete()

    def on_finished(self, error: BaseException | None) -> None:
        """Wake the tasks that wait: the link has ended."""
        self._close(error or RStreamsError(f"the peer ended the link of the sender to {self._to}"))

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Send to `subscriber`, the link."""
        self._subscriber = subscriber
        subscriber.on_subscribe(self)
        if self._closed is not None:
            subscriber.on_complete()

    def request(self, n: int) -> None:
        """Let `n` more messages go: the link has credit."""
        self._demand = add_demand(self._demand, n)
        self._serve()

    def cancel(self) -> None:
        """Stop sending: the link takes no more, and `on_finished` follows."""
        self._demand = 0

    def hold(self) -> Hold:
        """Return the claim on the message that is being sent."""
        return self._current

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - there are none
        """Note the outcome of messages."""
        for receipt in places:
            receipt._settle(how)
