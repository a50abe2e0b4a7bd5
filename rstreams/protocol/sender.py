"""The sending end of a link: a subscriber whose `on_next` is a transfer and whose demand is the link's credit.

Like the receiving end it acts in `work()`: what the local publisher sends inside a request gathers there and leaves as
one run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from itertools import repeat
from typing import Any, Generic, TypeVar

from rstreams._demand import SLICE
from rstreams._emission import draws_of
from rstreams._holds import NO_HOLD
from rstreams._subscription import ENDED, checked_error, require_subscription
from rstreams.abc import Hold, Publisher, Subscription, Suspendable
from rstreams.errors import (
    Condition,
    DeliveryFailed,
    LinkDetached,
    RStreamsError,
    SpecViolation,
    condition_of,
    error_for,
)
from rstreams.message import ByteStream, Message
from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.link import Link
from rstreams.protocol.outgoing_body import OutgoingBody, StreamedHead
from rstreams.protocol.packer import MAX_PACK_BYTES, Packer, PackHold
from rstreams.protocol.packing import agreed_items, offer, told_outcomes
from rstreams.protocol.states import State

T = TypeVar("T")

_FIRST_GUESS_BYTES = 16 * 1024
"""The size assumed of an item before one has been seen; guards the first request against huge items."""

_UNTOLD = LinkDetached(Condition.LINK_DETACH_FORCED.value, "the link ended before the item's outcome was told")


class LinkSubscriber(Generic[T]):
    """Subscribes to a local publisher on behalf of a link's receiver, and is the endpoint its link calls.

    Demand: What the receiver's credit allows, less what is owed and held (`SenderLedger`), a slice at a time, and only
        while the driver has room: neither this end nor the driver buffers without bound. Demand cannot be taken back
        when credit is; but a publisher that can be suspended is, so that what it owes may go to others.
    Errors: The publisher's `on_error` is a detach with its condition, after what it sent before. An item that cannot be
        encoded ends the stream in the same way.
    Cancels: The publisher, when the receiver detaches, the link is lost, or `abort` is called; items that were not
        sent are given back to the publisher through their holds, those that were and not settled as failed.
    Loss: When the connection is lost and returns, what is unsettled is sent again on the new link, in the order it was
        sent and before anything else; the receiver may have it twice. What was sent settled is not sent again.
    Context: Any task of the connection's trio run; no call blocks.
    Spec: Reactive Streams chapter 2; AMQP 1.0 sections 2.6.7, 2.6.12 and 2.7.

    Attributes:
        accepted: Items the receiver has accepted; at most once: items sent.
        outcome_unknown: Items sent and not settled when the link ended.
        late: Outcomes that came for items no longer waited for.
        left: Whether it has ended by `leave`, before the publisher had.
        resent: Items sent again after a loss.
        streams: Whether deliveries are to be handed over in parts: none ever come.
    """

    streams = False

    def __init__(
        self,
        publisher: Publisher[T],
        *,
        encode: Callable[[T], bytes],
        settlement: Settlement,
        settle_before_detach: bool,
        fail_on_refusal: bool,
        expose_errors: bool,
        on_finished: Callable[[BaseException | None], None],
        resends: bool = False,
        pack_items: int = 1,
        linger_s: float = 0.0,
        open_body: Callable[[ByteStream], Publisher[Any]] | None = None,
    ) -> None:
        """Prepare the sending end; `bind` gives it its link.

        Args:
            publisher: What to send; subscribed when the link is attached.
            encode: Makes an encoded message of an item.
            settlement: At most once: sent settled. At least once: held until the receiver's disposition.
            settle_before_detach: Whether the end waits for all outcomes, as it must into a queue or broker (law 5).
            fail_on_refusal: Whether an item that is not accepted ends the stream with `DeliveryFailed`.
            expose_errors: Whether the text of local exceptions goes to the peer.
            on_finished: Called once, when the link has ended: with the error, or None if all went well.
            resends: Whether to keep what is sent until it is settled, for a connection that returns when it is lost.
            pack_items: The most items a delivery may carry, if the receiver knows packs.
            linger_s: How long a pack may wait for more items before it goes out as it is, in seconds.
            open_body: Makes the publisher of a message's body that is sent while it comes; None: there are none such.
        """
        self.resent = 0
        self.accepted = 0
        self.outcome_unknown = 0
        self.late = 0
        self.left = False
        self.ledger = SenderLedger()
        self._publisher = publisher
        self._encode = encode
        self._settled = settlement is Settlement.AT_MOST_ONCE
        self._settle_before_detach = settle_before_detach
        self._fail_on_refusal = fail_on_refusal
        self._expose_errors = expose_errors
        self._on_finished = on_finished
        self._resends = resends and not self._settled
        self._link: Link | None = None
        self._subscription: Subscription = ENDED
        self._draw: Callable[[int], list[T]] | None = None  # the publisher's items, if they can be drawn
        self._payloads: list[bytes] = []  # held, with their holds beside them
        self._holds: list[Hold] = []
        self._unsettled: dict[Hashable, Hold] = {}
        self._kept: dict[Hashable, bytes] = {}  # what is unsettled and no pack, to be sent again
        self._pack_items = pack_items
        self._packer = Packer(linger_s, keeps=self._resends)
        self._open_body = open_body
        self._bodies_held = 0  # how many of `_payloads` are the heads of streamed messages
        self._body: OutgoingBody | None = None  # of the delivery that is being sent in parts
        self._streamed: set[Hashable] = set()  # deliveries in parts that are unsettled, and cannot be sent again
        self._started = False
        self._next_tag = 0
        self._item_bytes = _FIRST_GUESS_BYTES
        self._completed = False  # the publisher has said its last: completion, or `_error`
        self._error: BaseException | None = None
        self._publisher_ended = False  # by its own word, or by our cancel
        self._working = False
        self._turn_over = False  # the publisher makes its items so slowly that others are to have their turn
        self._drain = False
        self._suspended = False
        self._goodbye = Detach()
        self._stopped = False  # ended by this side or by the receiver, and not by the publisher
        self._finished = False

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link this end lives on: the first one, or a new one in the place of one that was lost."""
        self._link = Link(name, Role.SENDER, driver, self)
        self.ledger.pack = 1
        return self._link

    def properties(self) -> dict[str, Any]:
        """Return what this side's attach says of packs."""
        return offer(self._pack_items)

    @property
    def window_bytes(self) -> int:
        """How many bytes may be on hand of what is received: nothing is."""
        return 0

    def room_bytes(self) -> int:
        """Return how many bytes of deliveries are taken now: none ever come."""
        return 0

    @property
    def wants_link(self) -> bool:
        """Whether a lost link is to be replaced: it has not ended for good."""
        return not self._finished

    @property
    def unsettled(self) -> int:
        """Items sent whose outcome has not come."""
        return _items_of(self._unsettled.values())

    def start(self) -> None:
        """Subscribe to the publisher: the link is attached."""
        if self._started or self._completed:  # attached again, or aborted before it was
            self._wake()
            return
        self._started = True
        try:
            self._publisher.subscribe(self)
        except Exception as error:  # a broken publisher must not take the connection down
            self.on_error(error)

    def abort(self) -> None:
        """End the stream from this side without waiting for outcomes: the publisher is cancelled."""
        self._settle_before_detach = False
        self._goodbye = Detach(condition=Condition.LINK_DETACH_FORCED.value, description="the publisher was cancelled")
        self._stop(None)
        self._wake()

    def leave(self, goodbye: Detach | None = None) -> None:
        """Take no more from the publisher; the link is detached when what it has sent is through.

        Args:
            goodbye: What the detach says; None: that the stream is complete.
        """
        if not self._completed:
            self.left = self._completed = True
            self._goodbye = goodbye or self._goodbye
            self._cancel_publisher()
            self._wake()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is held here, and nothing sent waits for its outcome."""
        return not self._payloads and not self._unsettled and self._body is None

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keep the subscription; a second one is cancelled (2.5)."""
        require_subscription(subscription)
        if self._subscription is not ENDED or self._completed or self._finished:
            subscription.cancel()
            return
        self._subscription = subscription
        self._draw = draws_of(subscription)
        self._wake()

    def on_next(self, item: T) -> None:
        """Encode the item and keep it until `work` sends it."""
        if self._completed:
            self._subscription.hold().release()  # it crossed the cancel: the publisher has it back
            return
        hold = NO_HOLD if self._settled else self._subscription.hold()
        try:
            payload = self._encode_any(item)
        except Exception as error:  # the caller's own encoder may raise anything
            hold.fail(error)
            self._cancel_publisher()
            self.on_error(error)
            return
        self._payloads.append(payload)
        self._holds.append(hold)
        if not self._working:
            self._wake()

    def _encode_any(self, item: Any) -> bytes:  # noqa: ANN401 - an item, which may be a Message
        encode: Callable[[Any], bytes] = self._encode
        if type(item) is not Message or self._open_body is None or not isinstance(item.body, ByteStream):
            return encode(item)
        head = encode(replace(item, body=b""))  # an empty first section of data, and the others as they come
        streamed = StreamedHead.of(head, self._open_body(item.body))
        self._bodies_held += 1
        return streamed

    def on_error(self, error: BaseException) -> None:
        """The publisher failed: a detach with the condition follows what it sent before."""
        self._publisher_ended = True
        if not self._completed:
            self._completed = True
            self._error = checked_error(error)
            self._wake()

    def on_complete(self) -> None:
        """The publisher is through: a detach without error follows what it sent before."""
        self._publisher_ended = True
        if not self._completed:
            self._completed = True
            self._wake()

    # the link calls these

    def on_attach(self, frame: Attach) -> None:
        """The receiver's answer: the stream begins, unless it is a refusal."""
        self.ledger.pack = agreed_items(self._pack_items, frame.properties)
        self._packer.most_items = self.ledger.pack
        self._packer.most_bytes = min(frame.max_message_bytes or MAX_PACK_BYTES, MAX_PACK_BYTES)
        if not frame.refuses and self._state is State.ATTACHED:
            self.start()

    def on_flow(self, frame: Flow) -> None:
        """Credit has changed: `work` asks the driver for it."""
        self._drain = frame.drain

    def on_transfer(self, frame: Transfer) -> None:
        """Never comes to a sender: the link refuses it."""

    def on_disposition(self, frame: Disposition) -> None:
        """Outcomes: each releases its item's hold."""
        if self._resends:
            for tag in frame.deliveries:
                self._kept.pop(tag, None)
        if self._streamed:
            self._streamed_settled(frame.deliveries)
        take = self._unsettled.pop
        outcome = frame.outcome
        accepted = outcome.kind == "accepted"
        packs = self.ledger.pack > 1
        if accepted and not packs:
            self._accepted(list(map(take, frame.deliveries, repeat(None))))
            return
        for tag in frame.deliveries:
            hold = take(tag, None)
            if hold is None:
                self.late += 1
            elif packs and type(hold) is PackHold:
                self._pack_settled(hold, outcome)
            elif not accepted:
                self._not_accepted(hold, outcome)
            else:
                self.accepted += 1
                hold.done()

    def _accepted(self, holds: list[Hold | None]) -> None:
        """Release the holds of items that were accepted; None stands for one that is not waited for."""
        missing, free = holds.count(None), holds.count(NO_HOLD)
        self.late += missing
        self.accepted += len(holds) - missing
        if missing + free < len(holds):
            for hold in holds:
                if hold is not None:
                    hold.done()

    def _streamed_settled(self, tags: Iterable[Hashable]) -> None:
        """Forget what is settled; a receiver may settle a delivery before it has all of it, and wants no more then."""
        self._streamed.difference_update(tags)
        body = self._body
        if body is not None and body.tag not in self._streamed and not self._settled:
            self._body = None
            body.cancel()
            self._send(Transfer([body.tag], [b""], aborted=True))

    def _pack_settled(self, pack: PackHold, outcome: Outcome) -> None:
        if outcome.kind == "accepted":
            self.accepted += len(pack.holds)
            pack.done()
            return
        for hold, told in zip(pack.holds, told_outcomes(outcome, len(pack.holds)), strict=True):
            if told.kind == "accepted":
                self.accepted += 1
                hold.done()
            else:
                self._not_accepted(hold, told)

    def on_detach(self, frame: Detach) -> None:
        """The receiver's cancel, its answer to our detach, or a refusal."""
        error: BaseException | None = None
        if frame.condition is not None:
            error = error_for(frame.condition, frame.description, frame.info)
        elif self._state is State.DETACH_RECEIVED and self._settle_before_detach and not self._through:
            text = "the peer detached the link before the stream was through"
            error = LinkDetached(Condition.LINK_DETACH_FORCED.value, text)
        if self._state is State.DETACH_RECEIVED:
            self._send(Detach())
        self._finish(error, left=error is None and not self._settle_before_detach)

    def on_lost(self, frame: Lost) -> None:
        """The link is gone: what is unsettled is sent again if it returns, and has an unknown outcome if not."""
        if self._through and not self._settled:
            self._finish(None)  # only the answer to our detach was missing
        elif frame.returns and not self._stopped and self._can_resend:
            self._take_back()
        else:
            self._finish(frame.error)

    @property
    def _can_resend(self) -> bool:
        """Whether nothing is under way that is lost, or could be sent only once."""
        return self._body is None and not self._streamed and (self._resends or not self._unsettled)

    def work(self) -> None:
        """Send, request, answer a drain, end: whatever has become possible."""
        if self._working or self._state is not State.ATTACHED:
            return
        self._working = True
        try:
            at_rest = self._send_transfers()
            if self._finished:
                return  # the link was lost while the publisher was asked
            if self._drain and at_rest:
                # What is still owed arrives later and takes the next credit first (law 3).
                self._drain = False
                self._send(Flow(0, drain=True))
            if self._completed:
                self._send_detach()
            else:
                self._follow_credit()
        finally:
            self._working = False

    # what work is made of

    @property
    def _driver(self) -> Driver:
        assert self._link is not None, "bind comes first"
        return self._link.driver

    @property
    def _state(self) -> State:
        return State.UNATTACHED if self._link is None else self._link.state

    def _wake(self) -> None:
        if self._link is not None and self._state is not State.DETACHED:
            self._link.driver.wake()

    def _send_transfers(self) -> bool:
        """Send what is held and request what credit is left; tell whether nothing moves any more, for now."""
        driver, left = self._driver, SLICE
        while True:
            sent = self._send_held(driver, left)
            left -= sent
            if self._body is not None:
                return False  # the driver wakes this end when there is room, and the body when there is more of it
            credit, room = driver.credit(), driver.room_bytes()
            if credit <= 0 or (self._completed and not self._payloads):
                return True
            if room <= 0:
                return False  # the driver wakes this end when there is room
            if left <= 0 or self._turn_over:
                self._turn_over = False
                driver.wake()
                return False
            items = 0
            if not self._completed and self._subscription is not ENDED:  # it may come later than the credit
                items = self.ledger.request(credit, min(left, max(1, room // self._item_bytes)))
                if items:
                    self._request(items)
            if not self._turn_over and (not self._payloads or not (sent or items)):
                return True

    def _follow_credit(self) -> None:
        """Suspend the publisher while it owes items for credit that has been taken back, if it lets itself be."""
        withdrawn = self.ledger.owed > 0 and self._driver.credit() <= 0
        if withdrawn is self._suspended:
            return
        self._suspended = withdrawn
        if isinstance(self._subscription, Suspendable):
            try:
                if withdrawn:
                    self._subscription.suspend()
                else:
                    self._subscription.resume()
                    self._wake()  # for what it has sent at once
            except Exception as error:  # what it sends at once may fail, and is no reason for the connection to die
                self._cancel_publisher()
                self.on_error(error)

    def _request(self, items: int) -> None:
        draw = self._draw
        try:
            if draw is None:
                self._subscription.request(items)
            else:
                self._gather(draw(items), items)
        except Exception as error:  # against 3.16, and no reason for the connection to die
            self._cancel_publisher()
            self.on_error(error)

    def _gather(self, items: Sequence[T], requested: int) -> None:
        """Encode what has been drawn, as `on_next` does with one item, and keep it; nothing holds it."""
        if self._stopped or self.left:
            return  # by the publisher's own code: it has them back
        payloads: list[bytes] = []
        may_stream = self._open_body is not None and Message in set(map(type, items))
        try:
            payloads.extend(map(self._encode_any if may_stream else self._encode, items))
        except Exception as error:  # the caller's own encoder may raise anything
            self._cancel_publisher()
            self._completed = True
            self._error = error  # it came before what the publisher has said behind it
        self._payloads += payloads
        self._holds += [NO_HOLD] * len(payloads)
        if not self._completed and len(items) < requested:
            self.ledger.take_request_back(requested - len(items))
            self._turn_over = True

    def _count_received(self) -> None:
        """Tell the ledger what has gathered since it was last told: once a run, not once an item."""
        ledger = self.ledger
        ledger.receive(len(self._payloads) - ledger.held)
        if ledger.owed < 0 and not self._completed:
            self._stop(SpecViolation("1.1", "the publisher sent more items than were requested"))

    def _send_held(self, driver: Driver, most: int) -> int:
        """Send as much of what is held as credit allows; return how many items that was."""
        self._count_received()
        if self._body is not None and not self._send_body(self._body, driver):
            return 0
        credit = max(driver.credit(), 0)
        count = min(len(self._payloads), credit * self.ledger.pack, most)
        if count and self._bodies_held:
            count = self._before_body(count)
            if count == 0:
                return self._begin_body(driver)
        return self._send_run(driver, count, credit) if count else 0

    def _send_run(self, driver: Driver, count: int, credit: int) -> int:
        """Send the first `count` items held, packed if packs are agreed on; return how many items went out."""
        packs: list[Sequence[bytes]] = []
        if self.ledger.pack > 1:
            packs = self._packer.divide(self._payloads, count, credit)
            count = sum(map(len, packs))
            more_may_come = count == len(self._payloads) and not self._completed and not self._drain
            if more_may_come and self._packer.waits(packs[-1], driver.call_after, self._wake):
                count -= len(packs.pop())
            if count == 0:
                return 0
        payloads, self._payloads = self._payloads[:count], self._payloads[count:]
        holds, self._holds = self._holds[:count], self._holds[count:]
        self.ledger.send(count)
        self._item_bytes = max(1, sum(map(len, payloads)) // count)
        if packs:
            payloads, holds = self._packer.pack(packs, holds)
        tags = range(self._next_tag, self._next_tag + len(payloads))
        self._next_tag += len(payloads)
        if self._settled:
            self.accepted += count
        else:
            self._unsettled.update(zip(tags, holds, strict=True))
            if self._resends:  # a pack keeps its items itself
                sent = zip(tags, payloads, holds, strict=True)
                self._kept.update((tag, payload) for tag, payload, hold in sent if type(hold) is not PackHold)
        self._send(Transfer(tags, payloads, self._settled))
        return count

    def _before_body(self, count: int) -> int:
        """Return how many of the first `count` items held are before a streamed one, which goes by itself."""
        is_head = (type(payload) is StreamedHead for payload in self._payloads[:count])
        return next((at for at, found in enumerate(is_head) if found), count)

    def _begin_body(self, driver: Driver) -> int:
        head, hold, tag = self._payloads.pop(0), self._holds.pop(0), self._next_tag
        assert isinstance(head, StreamedHead)
        self._next_tag += 1
        self._bodies_held -= 1
        self.ledger.send(1)
        if not self._settled:
            self._unsettled[tag] = hold
            self._streamed.add(tag)
        self._send(Transfer([tag], [bytes(head)], self._settled, more=True))
        self._body = OutgoingBody(tag, head.chunks, self._wake)
        self._send_body(self._body, driver)
        return 1

    def _send_body(self, body: OutgoingBody, driver: Driver) -> bool:
        """Send what there is of the body, as far as there is room; tell whether that was the last of it."""
        while driver.room_bytes() > 0:
            part = body.take()
            if part is not None:
                self._send(Transfer([body.tag], [part], self._settled, more=True))
            elif body.error is not None:
                self._body_failed(body, body.error)
                return True
            elif body.through:
                self._body = None
                self.accepted += self._settled
                self._send(Transfer([body.tag], [b""], self._settled))
                return True
            else:
                return False  # the body wakes this end
        return False

    def _body_failed(self, body: OutgoingBody, error: BaseException) -> None:
        """Abort the delivery, and end the stream with the error; what is behind it is given back."""
        self._abort_body(body).fail(error)
        self._stop(error)
        self._wake()

    def _abort_body(self, body: OutgoingBody) -> Hold:
        """Take back the delivery that is being sent, and return its hold."""
        self._body = None
        body.cancel()
        self._streamed.discard(body.tag)
        self._send(Transfer([body.tag], [b""], self._settled, aborted=True))  # a body lives as long as its link
        return self._unsettled.pop(body.tag, NO_HOLD)

    def _send_detach(self) -> None:
        driver = self._driver
        if self._payloads or self._body is not None or driver.queued():
            return
        if self._settle_before_detach and not self._through:
            return
        error = self._error
        if error is None:
            self._send(self._goodbye)
        elif isinstance(error, DeliveryFailed):
            text = f"the publisher gave up after an item was {error.outcome}"
            self._send(Detach(condition=Condition.LINK_DETACH_FORCED.value, description=text))
        else:
            condition, description, info = condition_of(error, expose=self._expose_errors)
            self._send(Detach(condition=condition, description=description, info=info))

    def _send(self, frame: Transfer | Flow | Detach) -> None:
        assert self._link is not None, "bind comes first"
        self._link.send(frame)

    def _take_back(self) -> None:
        """Hold again what is unsettled, before what was never sent."""
        self._count_received()
        payloads: list[bytes] = []
        holds: list[Hold] = []
        for tag, hold in self._unsettled.items():
            if type(hold) is PackHold:
                payloads += hold.items
                holds += hold.holds
            else:
                payloads.append(self._kept[tag])
                holds.append(hold)
        self._payloads = payloads + self._payloads
        self._holds = holds + self._holds
        self.ledger.take_back(len(payloads))
        self.resent += len(payloads)
        self._kept.clear()
        self._unsettled.clear()
        self._drain = False
        self._packer.reset()

    # how it ends

    @property
    def _through(self) -> bool:
        """Whether the publisher has said its last, and all of it is sent and settled."""
        return self._completed and not self._payloads and not self._unsettled and self._body is None

    def _not_accepted(self, hold: Hold, outcome: Outcome) -> None:
        if outcome.kind == "released":
            hold.release()
        else:
            hold.fail(outcome.as_error())
        if self._fail_on_refusal:
            self._stop(outcome.as_error(self.accepted))
            self._wake()

    def _stop(self, error: BaseException | None) -> None:
        """Take no more from the publisher, give back what was not sent, and end with `error`."""
        self._end_with(error)
        self._count_received()
        holds, self._holds = self._holds, []
        self._payloads.clear()
        self._bodies_held = 0
        self.ledger.send(len(holds))
        if self._body is not None:
            holds = [self._abort_body(self._body), *holds]
        self._cancel_publisher()  # first: what is given back must not come again
        for hold in holds:
            hold.release()

    def _end_with(self, error: BaseException | None) -> None:
        self._completed = True
        self._stopped = True
        if self._error is None:  # an item may be refused after the publisher has completed
            self._error = error

    def _cancel_publisher(self) -> None:
        """Cancel the publisher, unless it has ended (2.4) or been cancelled."""
        if self._publisher_ended:
            return
        self._publisher_ended = True
        try:
            self._subscription.cancel()
        except Exception as error:  # against 3.15, and no reason for the connection to die
            if self._error is None:
                self._error = error

    def _finish(self, error: BaseException | None, *, left: bool = False) -> None:
        """The link has ended: give back what was not settled, and say how it went.

        Args:
            error: What ended it; None if it was to end.
            left: Whether a subscriber left a served stream: what it has worked on it has settled before (law 5), and
                what it has not settled crossed its detach.
        """
        if self._finished:
            return
        self._finished = True
        self._end_with(error)
        self._cancel_publisher()
        if self._body is not None:
            self._body.cancel()
            self._body = None
        unsettled, self._unsettled = self._unsettled, {}
        self._kept.clear()
        self._streamed.clear()
        self.outcome_unknown = _items_of(unsettled.values())
        for hold in unsettled.values():
            if left:
                hold.release()
            else:
                hold.fail(error or _UNTOLD)  # somebody may have worked on it
        self._stop(error)  # only now: what was not sent goes back behind what was sent before it
        failed = self._error
        if unsettled and isinstance(failed, RStreamsError):
            # What ends a connection is told to each of its links; the count is this link's own.
            failed = copy(failed).with_traceback(failed.__traceback__)
            failed.outcome_unknown = self.outcome_unknown
        self._on_finished(failed)


def _items_of(holds: Iterable[Hold]) -> int:
    return sum(len(hold.holds) if type(hold) is PackHold else 1 for hold in holds)
