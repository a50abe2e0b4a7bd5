"""The items that a local publisher has sent and its link has not: requested as credit allows, encoded, and kept.

Theory of operation. `request` asks the publisher for as many items as there are credit and room for. The items gather
here, are encoded at once, and are held until the link takes them as one run. The ledger is told of the gathered items
once for each run, not for each item. Bytes that come in runs are held unchanged. If they are sent in packs, they are
encoded when the pack is made. Otherwise the driver writes what stands before a body, and no item is copied for it.

Either side can end the stream; the table in `life` has both ways. When the publisher completes or fails, the items that
it sent before are sent first. When this side closes, the publisher is cancelled. It gets back the items that it still
sends, or has drawn in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._codec.data_sections import largest_body, total_bytes
from rstreams._core.claims import DONE, NO_HOLD, Claims, Settles, no_claims
from rstreams._core.fast_paths import draws_of
from rstreams._core.run import Run
from rstreams._core.sight import Scannable
from rstreams._core.subscription import ENDED, checked_error
from rstreams.abc import Hold, Publisher, Subscription, Suspendable
from rstreams.message import ByteStream, Message, as_is, encode_item
from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.driver import Driver, Wake
from rstreams.protocol.item_numbers import ItemNumbers
from rstreams.protocol.life import GIVEN_UP, SenderEvent, SenderLife, SenderPhase
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_body import StreamedHead
from rstreams.protocol.outgoing_holds import WaitingClaims
from rstreams.protocol.packing import MAX_PACK_BYTES
from rstreams.protocol.unsettled import ItemSize

T = TypeVar("T")

_SHORT_BODY = 255
_SHORT_SECTION_BYTES, _SECTION_BYTES = 5, 8
"""The bytes before a body in its section: of at most `_SHORT_BODY` bytes, and of more."""

_MOST_BODY_BYTES: Final = 2**32 - 1 - _SECTION_BYTES
"""The largest body that can be encoded."""

_LIVE: Final[SenderPhase] = SenderPhase.LIVE

_OPEN: Final = (SenderPhase.ATTACHING, _LIVE)
"""The phases in which more items may come from the publisher."""


class OutgoingItems(Scannable, Generic[T]):
    """The items from the publisher of a `LinkSubscriber`, and their subscriber; see the text of this module.

    Context: As `LinkSubscriber`.
    Spec: Reactive Streams chapter 2.

    Attributes:
        payloads: The held items, encoded, in their order.
        are_bodies: Whether they are not encoded yet: each is the body of its message.
        attended: Whether the link is working, and sees new items without a wake-up.
        starved: Whether the publisher has said that it can send no more before items are settled.
        suspended: Whether the publisher is suspended.
        holds: The hold of each item; items that came together have theirs in one run.
        numbers: The number of each item.
        error: The error that the stream failed with.
        turn_over: Whether the publisher makes its items so slowly that other links should have their turn.
        size: The size that the next items are expected to have.
        unencodable: Whether the stream failed because an item could not be encoded.
    """

    __slots__ = (
        "_draw",
        "_encode",
        "_heads",
        "_keeps_bodies",
        "_ledger",
        "_life",
        "_open_body",
        "_publisher",
        "_says_stall",
        "_send_ahead",
        "_settled",
        "_subscription",
        "_wake",
        "_woken",
        "are_bodies",
        "attended",
        "error",
        "holds",
        "numbers",
        "payloads",
        "size",
        "starved",
        "suspended",
        "turn_over",
        "unencodable",
    )

    def __init__(
        self,
        publisher: Publisher[T],
        options: SendingOptions,
        ledger: SenderLedger,
        life: SenderLife,
        *,
        wake: Wake,
        send_ahead: Callable[[bytes, Hold], bool],
        says_stall: Callable[[], str],
    ) -> None:
        """Start without items.

        Args:
            publisher: The publisher of the items.
            options: Those of the link.
            ledger: Counts owed and held items.
            life: The life of the end.
            wake: Makes the link work soon; for an item, perhaps at once.
            send_ahead: Sends one encoded item at once, if the link can do that now; tells whether it was sent.
            says_stall: Returns why the link asks for no more.
        """
        self.payloads: list[bytes] = []
        self.are_bodies = False
        self.holds = WaitingClaims()
        self.numbers = ItemNumbers()
        self.error: BaseException | None = None
        self.turn_over = False
        self.unencodable = False
        self._says_stall = says_stall
        self._publisher = publisher
        self._ledger = ledger
        self._life = life
        self._encode: Callable[[Any], bytes] = options.encode
        # Items that may have to be sent again are kept encoded.
        self._keeps_bodies = options.encode is encode_item and not options.resends
        self._settled = options.settled
        self._open_body = options.open_body
        self._wake = wake
        self._send_ahead = send_ahead
        self.attended = False
        self._woken = False  # the link was woken for new items, and has not worked since
        self.starved = False
        self._subscription: Subscription = ENDED
        self.suspended = False
        self._draw: Callable[[int], list[T]] | None = None  # draws the publisher's items, if they can be drawn
        self._heads = 0  # how many of `payloads` are the heads of streamed messages
        self.size = options.size or ItemSize()

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
        return self._life.phase not in _OPEN

    def stall(self) -> str:
        """Return why the link asks for no more."""
        return self._says_stall()

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keep the subscription; a second one is cancelled (2.5)."""
        require_subscription(subscription)
        if self._subscription is not ENDED or self._life.phase is not _LIVE:
            subscription.cancel()
            return
        self._subscription = subscription
        self._draw = draws_of(subscription)
        self._wake()

    def on_next(self, item: T) -> None:
        """Encode the item and keep it until the link sends it."""
        if self._life.phase is not _LIVE:
            self.numbers.unsent += 1
            self._subscription.hold().release()  # it was sent before the cancel arrived: the publisher gets it back
            return
        hold = NO_HOLD if self._settled else self._subscription.hold()
        try:
            payload = self._encode_any(item)
        except Exception as error:  # the caller's own encoder may raise anything
            self.unencodable = True
            self.numbers.unsent += 1
            hold.fail(error)
            self._fail(error)
            return
        if not self.payloads and not self.attended and self._send_ahead(payload, hold):
            self._ledger.pass_on(1)
            self.size.mean = max(1, len(payload))
            return
        if self.are_bodies:
            self._encode_held()
        self.payloads.append(payload)
        self.holds.append(hold)
        self._note_items()

    def on_run(self, run: Run[Any]) -> None:
        """Encode many items and keep them, as `on_next` does with one."""
        if self._life.phase is not _LIVE:
            self.numbers.unsent += run.size
            return
        items: list[Any] = []
        begin = run.at + 1
        try:
            items.extend(run.items(keeps=True))
        finally:
            claims = run.keep_since(begin, len(items))
            if self._life.phase in GIVEN_UP:  # a stage on the way has closed this side
                self.numbers.unsent += len(items)
                claims.release()
            elif items:
                kept = self._keep(items, no_claims(len(items)) if self._settled else claims, run.made)
                if self._settled:
                    claims.end_some(kept + 1, DONE)  # also the one that cannot be encoded, as in `on_next`
                    claims.release()
                self._note_items()

    def _note_items(self) -> None:
        if not self.attended and not self._woken:
            self._woken = True
            self._wake(for_item=True)

    def _encode_any(self, item: Any) -> bytes:  # noqa: ANN401 - an item, which may be a Message
        encode = self._encode
        if type(item) is not Message or self._open_body is None or not isinstance(item.body, ByteStream):
            return encode(item)
        head = encode(replace(item, body=b""))  # an empty first section of data; the others follow as they come
        streamed = StreamedHead.of(head, self._open_body(item.body))
        self._heads += 1
        return streamed

    def on_error(self, error: BaseException) -> None:
        """Note that the publisher failed: a detach with the condition follows its items."""
        if self._life.on(SenderEvent.COMPLETE):
            self.error = checked_error(error)
            self._wake()

    def on_complete(self) -> None:
        """Note that the publisher completed: a detach without error follows its items."""
        if self._life.on(SenderEvent.COMPLETE):
            self._wake()

    # the link calls these, to get items

    def begin_turn(self) -> bool:
        """Let the link see new items without a wake-up; return False if it did so already."""
        self._woken = False
        if self.attended:
            return False
        self.attended = True
        self.turn_over = False
        return True

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
        if self.completed or self._subscription is ENDED:  # the subscription may come later than the credit
            return 0
        items = self._ledger.request(credit, min(most, max(1, room_bytes // self.size.mean)))
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
            self.numbers.unsent += len(items)
            return  # closed by the publisher's own code, which has them back
        kept = self._keep(items, no_claims(len(items)))
        if kept == len(items) < requested and self._life.phase is _LIVE:
            self._ledger.take_request_back(requested - len(items))
            self.turn_over = True

    def _keep(self, items: list[Any], claims: Claims, made: dict[Callable[..., Any], list[Any]] | None = None) -> int:
        """Encode items as `on_next` does with one, and keep them, up to one that cannot be encoded; return how many.

        Args:
            items: The items.
            claims: The claims on them.
            made: As of their run; None: no other link gets them.
        """
        largest = largest_body(items)
        if self._may_stay_bodies(largest):
            self.are_bodies = True
            self.payloads += items
            self.holds.put(claims)
            return len(items)
        self._encode_held()
        may_stream = largest < 0 and Message in set(map(type, items))
        encode = self._encode_any if may_stream else self._encode
        payloads: list[bytes] = []
        try:
            payloads.extend(self._encoded(items, largest, made) or map(encode, items))
        except Exception as error:  # the caller's own encoder may raise anything
            count = len(payloads)
            self.unencodable = True
            self.numbers.unsent += len(items) - count
            self.payloads += payloads
            self.holds.put(claims.cut(count))
            claims.cut(1).fail(error)
            claims.release()
            self._fail(error)
            self.error = error  # it counts before what the publisher has signalled behind the items
            return count
        self.payloads += payloads
        self.holds.put(claims)
        return len(items)

    def _encoded(self, items: list[Any], largest: int, made: dict[Callable[..., Any], list[Any]] | None) -> list[bytes]:
        """Return the messages of a run that are encoded already, also by another link that gets it; else none."""
        if self._encode is as_is and largest >= 0:
            return items
        if made is None or self._encode is not encode_item:
            return []
        if encode_item not in made:
            made[encode_item] = []
            with suppress(Exception):  # the caller finds the item
                made[encode_item] = list(map(encode_item, items))
        return made[encode_item]

    def _may_stay_bodies(self, largest: int) -> bool:
        """Tell whether items may be held as they are, by the size of the largest; -1: they are not all bytes."""
        if not self._keeps_bodies or (self.payloads and not self.are_bodies):
            return False
        return 0 <= largest <= (_MOST_BODY_BYTES if self._ledger.pack == 1 else MAX_PACK_BYTES)

    def _encode_held(self) -> None:
        """Encode items that are held unchanged."""
        if self.are_bodies:
            self.are_bodies = False
            self.payloads = [encode_item(body) for body in self.payloads]

    def suspend(self, driver: Driver) -> None:
        """Suspend the publisher, if it allows that, while it owes items for credit that was taken back."""
        if self.suspended or self._ledger.owed <= 0 or driver.credit() > 0:
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

    def count_received(self) -> bool:
        """Tell the ledger of items that came since the last time; return whether no more came than were requested."""
        ledger = self._ledger
        ledger.receive(len(self.payloads) - ledger.held)
        return ledger.owed >= 0 or self.completed

    # the link calls these, to send items

    def before_body(self, count: int) -> int:
        """Return how many of the first `count` held items come before a streamed one, which is sent by itself."""
        if not self._heads:
            return count
        is_head = (type(payload) is StreamedHead for payload in self.payloads[:count])
        return next((at for at, found in enumerate(is_head) if found), count)

    def take(self, count: int) -> tuple[list[bytes], list[Claims], Sequence[int]]:
        """Take the first `count` held items, none of which is streamed, the claims on them and their numbers."""
        if count == len(self.payloads):
            payloads, self.payloads = self.payloads, []
        else:
            payloads, self.payloads = self.payloads[:count], self.payloads[count:]
        claims = self.holds.take(count)
        self._ledger.send(count)
        self.size.mean = max(1, total_bytes(payloads) // count)
        return payloads, claims, self.numbers.take(count)

    def before_too_large(self, count: int, most_bytes: int) -> int:
        """Return how many of the first `count` held items come before the first message of more than `most_bytes`."""
        payloads = self.payloads if count == len(self.payloads) else self.payloads[:count]
        if total_bytes(payloads) + _SECTION_BYTES <= most_bytes:  # nearly always true for all together
            return count
        return next((at for at, payload in enumerate(payloads) if self._size(payload) > most_bytes), count)

    def _size(self, payload: bytes) -> int:
        """Return the size of the message of a held item, in bytes."""
        size = len(payload)
        if self.are_bodies:
            size += _SECTION_BYTES if size > _SHORT_BODY else _SHORT_SECTION_BYTES
        return size

    def take_first(self) -> tuple[int, Hold, int]:
        """Take the first held item, which is not sent; return the size of its message, its hold and its number."""
        payload, hold, (number,) = self.payloads.pop(0), self.holds.take_first(), self.numbers.take(1)
        self._ledger.send(1)
        return self._size(payload), hold, number

    def take_head(self) -> tuple[StreamedHead, Hold, Sequence[int]]:
        """Take the first held item, which is the head of a streamed one, its hold and its number."""
        head, hold = self.payloads.pop(0), self.holds.take_first()
        assert isinstance(head, StreamedHead)
        self._heads -= 1
        self._ledger.send(1)
        return head, hold, self.numbers.take(1)

    def put_back(self, payloads: list[bytes], holds: list[Hold], numbers: list[int]) -> None:
        """Hold items again that were sent on a lost link, before items that were never sent."""
        self._encode_held()  # the next link may not take packs
        self.payloads = payloads + self.payloads
        self.holds.put_first(holds)
        self.numbers.take_back(numbers)
        self._ledger.take_back(len(payloads))

    def withdraw(self, source: Settles) -> bool:
        """Forget a held item whose claim has a source of its own, and release it; return whether it was held."""
        at, hold = self.holds.remove(source)
        if hold is None:
            return False
        self.count_received()  # before one is missing
        self._heads -= type(self.payloads.pop(at)) is StreamedHead
        del self.numbers.again[at : at + 1]
        self._ledger.send(1)
        hold.release()
        return True

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

    def take_holds(self) -> tuple[list[Hold], list[Hold]]:
        """Forget held items, and return the holds of doubtful items, and those of items that were never sent."""
        self.count_received()
        holds, again = self.holds.take_all(), self.numbers.again
        doubtful, holds = holds[: len(again)], holds[len(again) :]
        self.numbers.unsent += len(holds)
        again.clear()
        self.payloads.clear()
        self._heads = 0
        self._ledger.send(len(doubtful) + len(holds))
        return doubtful, holds

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
