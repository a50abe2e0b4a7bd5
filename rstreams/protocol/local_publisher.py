"""The local publisher of a sending end: items are requested of it as credit allows.

Theory of operation. `request` asks the publisher for as many items as there are credit and room for. The items gather
in `outgoing_items`. An item that comes while nothing else is to be done is sent at once, without being held.

Either side can end the stream; the table in `life` has both ways. When the publisher completes or fails, the items that
it sent before are sent first. When this side closes, the publisher is cancelled. It gets back the items that it still
sends, or has drawn in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Final, Generic, Protocol, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.claims import DONE, NO_HOLD, no_claims
from rstreams._core.fast_paths import draws_of
from rstreams._core.run import Run
from rstreams._core.sight import Asked, Scannable, Want
from rstreams._core.spell import Spell
from rstreams._core.subscription import ENDED, checked_error
from rstreams.abc import Hold, Publisher, Subscription, Suspendable
from rstreams.culprits import WaitTree
from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.driver import Driver, Wake
from rstreams.protocol.life import GIVEN_UP, SenderEvent, SenderLife, SenderPhase
from rstreams.protocol.outgoing_body import StreamedHead
from rstreams.protocol.outgoing_items import OutgoingItems

T = TypeVar("T")

_ENCODED: Final = (bytes, StreamedHead)
"""The types of encoded messages."""

_LIVE: Final[SenderPhase] = SenderPhase.LIVE

OPEN: Final = (SenderPhase.ATTACHING, _LIVE)
"""The phases in which more items may come from the publisher."""


class Attention(Enum):
    """Whether the link sees items that come."""

    NONE = auto()
    """It must be woken."""
    WOKEN = auto()
    """It has been woken for items, and has not worked since."""
    WORKS = auto()
    """It is working."""


_NONE, _WOKEN, _WORKS = Attention


class SendingEnd(Protocol):
    """The end of a link that a local publisher belongs to, when somebody looks at it."""

    def stall(self) -> str:
        """Return why the link asks for no more."""
        ...

    def part(self, want: Want, asked: Asked) -> WaitTree:
        """Return the link, with what it waits for."""
        ...


class LocalPublisher(Scannable, Generic[T]):
    """The publisher of a `LinkSubscriber`, and the subscriber that it has; see the text of this module.

    Context: As `LinkSubscriber`.
    Spec: Reactive Streams chapter 2.

    Attributes:
        attention: Whether the link sees items that come.
        starved: Whether the publisher has said that it can send no more before items are settled.
        suspended: Whether the publisher is suspended.
        error: The error that the stream failed with.
        turn_over: Whether the publisher makes its items so slowly that other links should have their turn.
        unasked: While the publisher has an item that it is not asked for; None: it does not tell.
        unencodable: Whether the stream failed because an item could not be encoded.
    """

    __slots__ = (
        "_draw",
        "_end",
        "_items",
        "_ledger",
        "_life",
        "_publisher",
        "_send_ahead",
        "_settled",
        "_subscription",
        "_wake",
        "attention",
        "error",
        "starved",
        "suspended",
        "turn_over",
        "unasked",
        "unencodable",
    )

    def __init__(
        self,
        publisher: Publisher[T],
        items: OutgoingItems,
        ledger: SenderLedger,
        life: SenderLife,
        *,
        settled: bool,
        wake: Wake,
        send_ahead: Callable[[bytes, Hold], bool],
        end: SendingEnd,
    ) -> None:
        """Start without items.

        Args:
            publisher: The publisher of the items.
            items: Gets the items.
            ledger: Counts owed and held items.
            life: The life of the end.
            settled: Whether items are sent settled; then no holds are taken.
            wake: Makes the link work soon; for an item, perhaps at once.
            send_ahead: Sends one encoded item at once, if the link can do that now; tells whether it was sent.
            end: The end that it belongs to.
        """
        self.error: BaseException | None = None
        self.turn_over = False
        self.unencodable = False
        self.starved = False
        self.suspended = False
        self.unasked: Spell | None = None
        self.attention = _NONE
        self._publisher = publisher
        self._items = items
        self._ledger = ledger
        self._life = life
        self._settled = settled
        self._wake = wake
        self._send_ahead = send_ahead
        self._end = end
        self._subscription: Subscription = ENDED
        self._draw: Callable[[int], list[T]] | None = None  # draws the publisher's items, if they can be drawn

    def start(self) -> None:
        """Subscribe to the publisher, the first time that a link is attached."""
        if not self._life.on(SenderEvent.BEGIN):  # attached again, or ended before
            self._wake()
            return
        try:
            self._publisher.subscribe(self)
        except Exception as error:  # a broken publisher must not end the connection
            self.on_error(error)

    @property
    def completed(self) -> bool:
        """Whether no more items are expected from the publisher."""
        return self._life.phase not in OPEN

    def stall(self) -> str:
        """Return why the link asks for no more."""
        return self._end.stall()

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscription of the publisher."""
        return () if self._subscription is ENDED else (self._subscription,)

    def part(self, want: Want, asked: Asked) -> WaitTree | None:
        """Return the end of the link that it belongs to."""
        return self._end.part(want, asked)

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keep the subscription; a second one is cancelled (2.5)."""
        require_subscription(subscription)
        if self._subscription is not ENDED or self._life.phase is not _LIVE:
            subscription.cancel()
            return
        self._subscription = subscription
        self._draw = draws_of(subscription)
        unasked = getattr(subscription, "unasked", None)
        self.unasked = unasked if isinstance(unasked, Spell) else None
        self._wake()

    def on_next(self, item: T) -> None:
        """Encode the item and keep it until the link sends it."""
        items = self._items
        if self._life.phase is not _LIVE:
            items.numbers.unsent += 1
            self._subscription.hold().release()  # it was sent before the cancel arrived: the publisher gets it back
            return
        hold = NO_HOLD if self._settled else self._subscription.hold()
        try:
            payload: Any = item if items.are_encoded and type(item) in _ENCODED else items.encode(item)
        except Exception as error:  # the caller's own encoder may raise anything
            items.numbers.unsent += 1
            hold.fail(error)
            self.unencodable = True
            self._fail(error)
            return
        if not items.payloads and self.attention is not _WORKS and self._send_ahead(payload, hold):
            self._ledger.pass_on(1)
            items.size.mean = max(1, len(payload))
            return
        items.put_one(payload, hold)
        self._note_items()

    def on_run(self, run: Run[Any]) -> None:
        """Encode many items and keep them, as `on_next` does with one."""
        held = self._items
        if self._life.phase is not _LIVE:
            held.numbers.unsent += run.size
            return
        items: list[Any] = []
        begin = run.at + 1
        try:
            items.extend(run.items(keeps=True))
        finally:
            claims = run.keep_since(begin, len(items))
            if self._life.phase in GIVEN_UP:  # a stage on the way has closed this side
                held.numbers.unsent += len(items)
                claims.release()
            elif items:
                kept, wrong = held.put(items, no_claims(len(items)) if self._settled else claims, run.made)
                if wrong is not None:
                    self._fail_unencodable(wrong)
                if self._settled:
                    claims.end_some(kept + 1, DONE)  # also the one that cannot be encoded, as in `on_next`
                    claims.release()
                self._note_items()

    def _note_items(self) -> None:
        if self.attention is _NONE:
            self.attention = _WOKEN
            self._wake(for_item=True)

    def on_error(self, error: BaseException) -> None:
        """Note that the publisher failed: a detach with the condition follows its items."""
        if self._life.on(SenderEvent.COMPLETE):
            self.error = checked_error(error)
            self._wake()

    def on_complete(self) -> None:
        """Note that the publisher completed: a detach without error follows its items."""
        if self._life.on(SenderEvent.COMPLETE):
            self._wake()

    def withdraw(self, place: object) -> bool:
        """Give back an item that has not been sent, and whose claim is on this place; return whether there was one."""
        return self._items.withdraw(place)

    # the link calls these, to get items

    def look_again(self) -> None:
        """Have the link look whether it can answer a drain: no more items come later."""
        self._wake()

    @property
    def comes_later(self) -> bool:
        """Whether the publisher has items that come without a further request, for instance from a disk."""
        later: bool = getattr(self._subscription, "comes_later", False)
        return later

    def starve(self) -> None:
        """Note that the publisher can send no more before items are settled."""
        self.starved = True
        self._wake()

    def request(self, credit: int, most: int, room_bytes: int) -> int:
        """Ask the publisher for items for `credit` deliveries and `room_bytes`, at most `most`; return how many."""
        if (
            self._life.phase not in OPEN or self._subscription is ENDED
        ):  # the subscription may come later than the credit
            return 0
        items = self._ledger.request(credit, min(most, max(1, room_bytes // self._items.size.mean)))
        if items:
            draw = self._draw
            try:
                if draw is None:
                    self._subscription.request(items)
                else:
                    self._gather(draw(items), items)
            except Exception as error:  # it breaks 3.16; the connection goes on
                self._fail(error)
        return items

    def _gather(self, items: list[Any], requested: int) -> None:
        """Keep drawn items; they have no holds."""
        if self._life.phase not in (_LIVE, SenderPhase.ENDING):
            self._items.numbers.unsent += len(items)
            return  # closed by the publisher's own code, which has them back
        kept, wrong = self._items.put(items, no_claims(len(items)))
        if wrong is not None:
            self._fail_unencodable(wrong)
        elif kept < requested and self._life.phase is _LIVE:
            self._ledger.take_request_back(requested - kept)
            self.turn_over = True

    def suspend(self) -> None:
        """Suspend the publisher, if it allows that, while it owes items for credit that was taken back."""
        if self.suspended or self._ledger.owed <= 0:
            return
        self.suspended = True
        if isinstance(self._subscription, Suspendable):
            try:
                self._subscription.suspend()
            except Exception as error:  # it breaks 3.16; the connection goes on
                self._fail(error)

    def resume(self, driver: Driver) -> None:
        """Let a suspended publisher send items again, if there is credit.

        The link calls this before it sends, and therefore before it answers a drain: the items that the publisher has
        now come first.
        """
        if not self.suspended or (self._ledger.owed > 0 and driver.credit() <= 0):
            return
        self.suspended = False
        if isinstance(self._subscription, Suspendable):
            try:
                self._subscription.resume()
            except Exception as error:  # an item sent at once may fail; the connection goes on
                self._fail(error)

    # how it ends

    def close(self, event: SenderEvent, error: BaseException | None = None) -> bool:
        """Take no more from the publisher, by `event` and with `error`; return whether the phase has changed."""
        lives = self._life.phase is _LIVE
        is_new = self._life.on(event)
        if self.error is None:  # an item may be refused after the publisher has completed
            self.error = error
        if lives:
            self._cancel()
        return is_new

    def _cancel(self) -> None:
        try:
            self._subscription.cancel()
        except Exception as error:  # it breaks 3.15; the connection goes on
            if self.error is None:
                self.error = error

    def _fail(self, error: BaseException) -> None:
        """End the stream with `error` after the items that the publisher sent before, and cancel the publisher."""
        if self._life.on(SenderEvent.COMPLETE):
            self.error = checked_error(error)
            self._cancel()
            self._wake()

    def _fail_unencodable(self, error: Exception) -> None:
        """End the stream: an item cannot be encoded. That counts before what the publisher has signalled behind it."""
        self.unencodable = True
        self._fail(error)
        self.error = error
