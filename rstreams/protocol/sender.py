"""The sending end of a link: it subscribes to a local publisher, and the link's credit becomes demand.

Like the receiving end it acts in `work()`. This module decides when to send and to ask. The rest is elsewhere:

    sender_state           the answers to questions about it
    life                   the phases of the end, and the events between them
    local_publisher        the publisher: asked, suspended, cancelled
    outgoing_items         the items that it has sent, until they leave
    outgoing_deliveries    the deliveries made of them
    unsettled_deliveries   those whose outcome has not come
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from rstreams._core.demand import SLICE
from rstreams._core.spell import Spell
from rstreams.abc import Hold, Publisher
from rstreams.errors import (
    Condition,
    DeliveryFailed,
    LinkDetached,
    RStreamsError,
    SpecViolation,
    condition_of,
)
from rstreams.protocol.ages import Ages
from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role
from rstreams.protocol.life import GIVEN_UP, SENDING, Life, SenderEvent, SenderLife, SenderPhase
from rstreams.protocol.link import Link
from rstreams.protocol.local_publisher import OPEN, Attention, LocalPublisher
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_deliveries import OutgoingDeliveries
from rstreams.protocol.outgoing_holds import end_each
from rstreams.protocol.outgoing_items import OutgoingItems
from rstreams.protocol.sender_state import SenderState
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import UnsettledBound

T = TypeVar("T")

_UNTOLD = LinkDetached(Condition.LINK_DETACH_FORCED.value, "the link ended before the item's outcome was told")


class LinkSubscriber(SenderState, Generic[T]):
    """Subscribes to a local publisher on behalf of a link's receiver, and is the endpoint that its link calls.

    Demand: As much as the receiver's credit allows, minus the items that are owed and held (`SenderLedger`), a slice at
        a time. It asks only while the driver has room and the limit of unsettled items is kept (`unsettled`): neither
        this end nor the driver keeps anything without limit. When credit is taken back, demand cannot be. But a
        publisher that can be suspended is then suspended, and the items that it owes may go to others.
    Errors: The publisher's `on_error` is a detach with its condition, after the items that it sent before. An item that
        cannot be encoded ends the stream in the same way.
    Cancels: The publisher, when the receiver detaches, the link is lost, or `abort` is called. Unsent items are given
        back to the publisher through their holds; items that were sent and not settled are given back as failed.
    Loss: When the connection is lost and returns, unsettled items are sent again on the new link, in their order and
        before all others; the receiver may get them twice. Items that were sent settled are not sent again. The same
        happens when the peer detaches the link because it is about to close such a connection.
    Context: Any task of the connection's trio run; no call blocks.
    Spec: Reactive Streams chapter 2; AMQP 1.0 sections 2.6.7, 2.6.12 and 2.7.
    """

    def __init__(
        self, publisher: Publisher[T], options: SendingOptions, on_finished: Callable[[BaseException | None], None]
    ) -> None:
        """Prepare the sending end of `publisher`; `bind` gives it its link, and then it is subscribed.

        `on_finished` is called once, when the link has ended: with the error, or None after success.
        """
        self.outcome_unknown = 0
        super().__init__(options.pack_items)
        self.left = False
        self.ledger = SenderLedger()
        self.blocked = Spell()
        self._lacks_room = False
        self._ages = Ages()
        self._options = options
        self._on_finished = on_finished
        self._bound = UnsettledBound(options.unsettled, options.share, self._wake)
        self._told_starved = (0, 0)  # deliveries begun and items unsettled at the last such message to the receiver
        self._life: SenderLife = Life(SENDING, SenderPhase.ATTACHING)
        self._items = OutgoingItems(options, self.ledger)
        self._publisher = LocalPublisher(
            publisher,
            self._items,
            self.ledger,
            self._life,
            settled=options.settled,
            wake=self._wake,
            send_ahead=self._send_ahead,
            end=self,
        )
        self._deliveries = OutgoingDeliveries(
            options,
            self._items,
            self._bound,
            send=self._send,
            stop=self._stop,
            place=lambda: self.place(),  # noqa: PLW0108 - the owner sets it later
            wake=self._wake,
        )
        self._settled = options.settled
        self._drain = False
        self._goodbye = Detach()
        self._cut: LinkDetached | None = None
        self._patient: bool | None = None  # the outcomes of the last items are waited for; None: not yet

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link of this end: the first one, or a new one in the place of a lost one."""
        self._link = Link(name, Role.SENDER, driver, self, self.on_disposition)
        self._answered = False
        self.ledger.pack = 1
        return self._link

    def start(self) -> None:
        """Subscribe to the publisher: the link is attached."""
        self._publisher.start()

    def abort(self, why: LinkDetached | None = None) -> None:
        """End the stream from this side without waiting for outcomes: the publisher is cancelled.

        With `why`, the receiver is told it, and unsettled items fail with it when the detach is sent.
        """
        self._cut = why
        why = why or LinkDetached(Condition.LINK_DETACH_FORCED.value, "the publisher was cancelled")
        self._goodbye = Detach(condition=why.condition, description=why.description)
        self._stop(None, SenderEvent.ABORT)
        self._wake()

    def leave(self, goodbye: Detach | None = None) -> None:
        """Take no more items from the publisher; the link is detached when all its items are settled.

        Args:
            goodbye: The detach; None: one for a complete stream. With it the outcomes of the last items are waited for
                until the connection is closed, and not for `last_outcomes_s`.
        """
        if self._publisher.close(SenderEvent.LEAVE):
            self.left = True
            self._patient = None if goodbye is None else True
            self._goodbye = goodbye or self._goodbye
            self._wake()

    # the link calls these

    def on_attach(self, frame: Attach) -> None:
        """Receive the receiver's answer: the stream begins, unless it is a refusal."""
        self.ledger.pack = self._agreed_items(frame)
        self._deliveries.agree(self.ledger.pack, frame.max_message_bytes)
        self._answered = not frame.refuses
        if self._answered and self.state is State.ATTACHED:
            self.start()

    def on_flow(self, frame: Flow) -> None:
        """Note that credit has changed: `work` asks the driver for it."""
        self._drain = frame.drain
        if self._settled:
            self._has_lost = False  # no outcomes will come
        if frame.credit <= 0 and self._driver.credit() <= 0:
            self._publisher.suspend()  # now, because items that come back with it may go to others

    def on_disposition(self, frame: Disposition) -> None:
        """Receive outcomes: each ends its item's hold."""
        self._has_lost = False
        self._deliveries.settle(frame)

    def on_detach(self, frame: Detach) -> None:
        """Receive the receiver's cancel, its answer to our detach, or a refusal."""
        error = frame.error
        if error is None and self.state is State.DETACH_RECEIVED and self._awaits_outcomes and not self._through:
            text = "the peer detached the link before the stream had ended"
            error = LinkDetached(Condition.LINK_DETACH_FORCED.value, text)
        if error is not None:
            error.place = self.place()
        if self.state is State.DETACH_RECEIVED:
            self._answer_detach()
        announced = error is not None and frame.announces_close and self.attach_later is not None
        if error is not None and (announced or self._survives(error)):
            self._lose(error, returns=True)
            self._return_after(error)
            return
        self._finish(error, left=error is None and not self._awaits_outcomes)

    def _answer_detach(self) -> None:
        self._send(Detach())

    def on_lost(self, frame: Lost) -> None:
        """Handle the loss of the link: unsettled items are sent again if it returns, else their outcome is unknown."""
        reason = self._survived(frame)
        self._lose(frame.error, returns=frame.returns or reason is not None)
        self._return_after(reason)

    def work(self) -> None:
        """Send, request, answer a drain and end: do all that has become possible."""
        link, publisher = self._link, self._publisher
        if link is None or link.state is not State.ATTACHED:
            self._bound.go_on()
            return
        if publisher.attention is Attention.WORKS:
            return
        publisher.attention = Attention.WORKS
        publisher.turn_over = False
        try:
            if publisher.suspended:
                publisher.resume(link.driver)
            at_rest, credit = self._send_transfers(link.driver)
            if self._life.phase is SenderPhase.FINISHED:
                return  # the link was lost while the publisher was asked
            if publisher.starved or self._bound.held_back:
                self._tell_starved()
            if self._drain and at_rest and not publisher.comes_later:
                # Items that are still owed arrive later, and take the next credit first.
                self._drain = False
                self._send(Flow(0, drain=True))
                credit = 0
            if self._life.phase not in OPEN:
                self._send_detach()
            elif self.ledger.owed > 0 and credit <= 0:
                publisher.suspend()
            self._note_state(link.driver, credit)
        finally:
            publisher.attention = Attention.NONE
            self._bound.go_on()

    def _note_state(self, driver: Driver, credit: int) -> None:
        """Note whether it is blocked, and when it has sent deliveries; mostly there is nothing new."""
        if self._deliveries.begun != self._ages.end:
            self._deliveries.note_age(self._ages, driver)
        if credit <= 0 or self._lacks_room or self._bound.held_back or self.blocked.lasts or driver.is_shut():
            self._note_blocked(driver)

    def _tell_starved(self) -> None:
        """Tell the receiver, if it is so, that no more items can come before it settles some.

        The publisher reports each time that it has no room. If this side's own limit holds items back, the receiver is
        told once for the same unsettled items.
        """
        starved, self._publisher.starved = self._publisher.starved, False
        unsettled = self._deliveries.begun, self._bound.items
        if self._bound.items and (starved or (self._bound.held_back and unsettled != self._told_starved)):
            self._told_starved = unsettled
            self._send(Flow(self._driver.credit(), starved=True))

    # parts of `work`

    def _wake(self, *, for_item: bool = False) -> None:
        link = self._link
        if link is None:
            return
        if link.state is not State.DETACHED:
            # No drain is answered inside of a signal: the publisher may be about to send another item.
            link.driver.wake(for_item=for_item and not self._drain)
        elif self._needs_no_link:  # no other link has come in the place of the lost one yet
            self._finish(None)

    def _send_ahead(self, payload: bytes, hold: Hold) -> bool:
        """Send one encoded item inside of the publisher's signal, if nothing else is to be done; tell whether it is."""
        link, ledger = self._link, self.ledger
        if link is None or link.state is not State.ATTACHED or self._drain:
            return False
        if ledger.pack > 1 or ledger.owed <= 0 or type(payload) is not bytes:
            return False
        if ledger.owed == 1 and ledger.may_request(link.driver.credit()):
            return False  # the publisher is asked for more in a turn
        return self._deliveries.send_ahead(payload, hold, link.driver)

    def _send_transfers(self, driver: Driver) -> tuple[bool, int]:
        """Send held items, and request items for the remaining credit.

        Returns: Whether nothing is left to do for now, and the credit that is left.
        """
        items, publisher, ledger, left = self._items, self._publisher, self.ledger, SLICE
        self._bound.held_back = self._lacks_room = False
        while True:
            sent = 0
            if items.payloads or ledger.held or ledger.owed < 0 or self._deliveries.body is not None:
                sent = self._send_held(driver, left)
                left -= sent
            credit = driver.credit()
            if self._deliveries.body is not None or self._bound.held_back:
                return False, credit  # woken later: by the driver's room, by a part of the body, or by an outcome
            may_ask = credit > 0 and (self._drain or ledger.may_request(credit)) and self._life.phase in OPEN
            if credit <= 0 or not (items.payloads or may_ask):
                return True, credit
            room = driver.room_bytes()
            if room <= 0:
                self._lacks_room = True
                return False, credit  # the driver wakes this end when there is room
            if left <= 0 or publisher.turn_over:
                driver.wake()
                return False, credit
            most, waiting = left, ledger.owed + ledger.held
            if not self._settled:
                most = self._bound.may_ask(left, waiting, items.size.mean, ledger.pack, drains=self._drain)
            asked = publisher.request(credit, most, room)
            if self._bound.held_back and not asked:
                return not items.payloads, credit
            if not publisher.turn_over and (not items.payloads or not (sent or asked)):
                return True, credit

    def _send_held(self, driver: Driver, most: int) -> int:
        """Send as many held items as credit allows; return how many."""
        self._count_received()
        items, deliveries = self._items, self._deliveries
        if deliveries.body is not None and not deliveries.send_body(deliveries.body, driver):
            return 0
        credit = max(driver.credit(), 0)
        count = min(len(items.payloads), credit * self.ledger.pack, most)
        if not count:
            return 0
        if not self._settled:
            count = self._bound.fit(items.payloads, count, self.ledger.pack)
            if not count:
                self._bound.hold_back()
                return 0
        count = items.before_body(count)
        if not count:
            deliveries.begin_body(driver)
            return 1
        if deliveries.most_bytes:
            count = items.before_too_large(count, deliveries.most_bytes)
            if not count:
                deliveries.refuse_first()
                return 1
        is_last = self._publisher.completed
        return deliveries.send_run(count, driver, credit, is_last=is_last, hurries=self._drain)

    def _count_received(self) -> None:
        if not (self._items.count_received() or self._publisher.completed):
            self._stop(SpecViolation("1.1", "the publisher sent more items than were requested"))

    def _send_detach(self) -> None:
        driver = self._driver
        if self._items.payloads or self._deliveries.body is not None or driver.queued():
            return
        if (self._awaits_outcomes and not self._through) or self._is_patient(driver):
            return
        error = self._publisher.error
        if error is None:
            self._send(self._goodbye)
            if self._cut is not None:
                self._finish(self._cut)
        elif isinstance(error, DeliveryFailed) and not error.refused_here:
            text = f"the publisher gave up after an item was {error.outcome}"
            self._send(Detach(condition=Condition.LINK_DETACH_FORCED.value, description=text))
        else:
            condition, description, info = condition_of(error, expose=self._options.expose_errors)
            self._send(Detach(condition=condition, description=description, info=info))

    def _is_patient(self, driver: Driver) -> bool:
        """Tell whether outcomes of the last items may still come, which some receivers do not tell behind a detach."""
        limit_s = self._options.last_outcomes_s
        if self._deliveries.at_rest or not limit_s or self._life.phase is SenderPhase.ABORTED:
            return False
        if self._patient is None:
            self._patient = True
            driver.call_after(limit_s, self._lose_patience)
        return self._patient

    def _lose_patience(self) -> None:
        self._patient = False
        self._wake()

    def _lose(self, error: RStreamsError, *, returns: bool) -> None:
        self._unblock()
        self._count_received()
        if self._needs_no_link:
            self._finish(None)
        elif returns and self._life.phase not in GIVEN_UP and self._deliveries.can_resend:
            self._has_lost = True
            self._life.on(SenderEvent.LOSE)
            self._deliveries.take_back()  # before items that were never sent
            self._drain = False
        else:
            self._finish(error)

    # how it ends

    def _stop(self, error: BaseException | None, event: SenderEvent = SenderEvent.STOP) -> None:
        """Take no more from the publisher, give unsent items back, and end with `error`."""
        self._publisher.close(event, error)
        self._give_back(_UNTOLD)

    def _give_back(self, lost: BaseException) -> None:
        """Give unsent items back; items that were sent over a lost link fail with `lost`."""
        doubtful, holds = self._items.take_holds()
        self.outcome_unknown += len(doubtful)
        if self._deliveries.body is not None:
            holds = [self._deliveries.abort_body(self._deliveries.body), *holds]
            self._items.numbers.unsent += 1
        for hold in doubtful:
            hold.fail(lost)  # the receiver may have begun to process it
        for hold in holds:
            hold.release()

    def _finish(self, error: BaseException | None, *, left: bool = False) -> None:
        """Give unsettled items back, and report the end of the link to the owner.

        Args:
            error: The reason; None for a successful end.
            left: Whether a subscriber left a served stream. It has then settled all items that it has processed, and
                the unsettled items crossed its detach.
        """
        if not self._publisher.close(SenderEvent.FINISH, error):
            return
        self._unblock()
        self.outcome_unknown += self._bound.items
        self._items.numbers.unsent += self._settled and self._deliveries.body is not None
        ends = end_each(self._deliveries.take_holds(), None if left else error or _UNTOLD)
        if self._options.finish_later is not None:
            self._options.finish_later(ends)
        else:
            deque(ends, 0)
        self._give_back(error or _UNTOLD)  # only now: unsent items go back after items that were sent before them
        failed = self._publisher.error
        if self.outcome_unknown and isinstance(failed, RStreamsError):
            failed.outcome_unknown = self.outcome_unknown
        self._on_finished(failed)
