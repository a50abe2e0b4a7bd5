"""The receiving end of a link: a subscription whose requests become flows, and whose items come as transfers.

A call from user code only notes a wish and wakes the driver. The driver then calls `work()`, as after every run of
frames, and `work()` does the rest. Therefore no signal waits for the network, and none recurses.

This module has the frames of the link and the calls of the subscriber. The rest is elsewhere:

    receiver_state      the answers to questions about it
    life                the phases of the end, and the events between them
    credit              credit: granted, drained, held back
    incoming_items      the signals; first of all the items that have come: kept, handed over, held
    incoming_outcomes   their outcomes, until the peer knows them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.demand import demand_error
from rstreams._core.spell import Spell
from rstreams._core.threads import get_ident, refuse_thread
from rstreams.abc import Hold, Subscriber
from rstreams.errors import (
    Condition,
    ConfigError,
    LinkDetached,
    PeerClosed,
    ProtocolError,
    RemoteProtocolError,
    SessionEnded,
)
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.incoming_items import IncomingItems
from rstreams.protocol.incoming_outcomes import IncomingOutcomes
from rstreams.protocol.life import RECEIVING, Life, ReceiverEvent, ReceiverLife, ReceiverPhase
from rstreams.protocol.link import Link
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver_state import ENDS, SILENT, ReceiverState
from rstreams.protocol.states import State
from rstreams.protocol.watched_items import WatchedItems

T = TypeVar("T")


class LinkSubscription(ReceiverState[T]):
    """The subscription of a link's subscriber, and the endpoint that the link calls.

    Credit: Granted by `CreditLedger`: never beyond demand, never beyond the window, not before the peer's attach.
        While the subscription is suspended no credit is granted, and unused credit is withdrawn.
    Errors: A refusal, or a detach with a condition, is `on_error(LinkDetached)`. A lost connection is `on_error` with
        its cause, unless the connection returns. The failure strategy decides the outcome of an item that `decode`
        refuses or that fails in the pipeline, and whether the subscription ends with it. A subscriber that raises
        loses its subscription, and the item in hand fails.
    Loss: If the connection returns, unmet demand becomes credit of the new link. Items that were not handed over are
        dropped, because the peer has them back; those that came settled are handed over. Items that were handed over
        keep their place in the window until the pipeline has processed them. Their outcomes come too late for the peer,
        and are counted. A detach that announces the loss does not end the subscription; it is answered when all items
        are settled.
    Cancels: No signal comes from then on. Credit is withdrawn, and items that were not handed over are released. When
        all held items are settled the link is detached (closed).
    Context: Any task of the connection's trio run; no call blocks. `SpecViolation` is raised in another thread.
    Spec: Reactive Streams chapter 3; AMQP 1.0 sections 2.6.7, 2.6.12 and 2.7.

    Attributes:
        hold: Takes a hold on the item in `on_next`: its disposition waits for the hold.
        signals_later: See `SignalsLater`: items come in turns of the connection.
        why_not: Returns the error for an attach of the publisher with which the subscription cannot go on.
        why_not_first: The same for the first message of a link; None: no message is looked at.
    """

    signals_later = True

    def __init__(
        self, subscriber: Subscriber[T], options: ReceivingOptions[T], on_raised: Callable[[BaseException], None]
    ) -> None:
        """Prepare the subscription of `subscriber`; `bind` gives it its link.

        `on_raised` is called with an exception that the subscriber raised in a signal, which the specification forbids
        (2.13).
        """
        super().__init__(options.pack_items)
        self._options = options
        self.window_bytes = options.window_bytes
        self.full = Spell()
        self.ledger = CreditLedger(
            options.window,
            grows=options.window_grows,
            renews_at_zero=options.renews_at_zero,
            window_bytes=options.window_bytes,
            answers_drain=options.answers_drain,
        )
        self._life: ReceiverLife = Life(RECEIVING, ReceiverPhase.ATTACHING)
        self._subscriber = subscriber
        self._outcomes = IncomingOutcomes(self.ledger, options.on_failure, give_up=self.give_up, wake=self._wake)
        make_items = IncomingItems[T] if options.watch is None else WatchedItems[T]
        self._items = make_items(
            subscriber,
            options,
            self.ledger,
            self._life,
            self._outcomes,
            give_up=self.give_up,
            on_raised=on_raised,
            wake=self._wake,
        )
        self.hold: Callable[[], Hold] = self._items.hold  # not a method: this saves a call for each held item
        self._settled = False  # the deliveries come settled
        self._error: BaseException | None = None  # in the phases `ENDS`: why the publisher has failed, if it has
        self._reason: PeerClosed | None = None  # in the phase PARTING: the reason why the peer has detached the link
        self._goodbye = Detach()
        self.why_not: Callable[[Attach], LinkDetached | None] = _nothing_is_wrong
        self.why_not_first: Callable[[bytes], LinkDetached | None] | None = None
        self._is_first = True  # nothing has come on the present link
        self._thread = get_ident()
        self._requested = 0

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link of this subscription: the first one, or a new one in the place of a lost one."""
        self._link = Link(name, Role.RECEIVER, driver, self, self.on_transfer)
        self._answered = False
        self._is_first = True
        self.ledger.pack = 1
        return self._link

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        """Return claims on the items; see `rstreams._core.claims_in_order`."""
        if self._settled:
            return None
        return self._items.gather(loose=loose)

    def start(self) -> None:
        """Begin: the link is attached, or it never will be. The first call signals `on_subscribe`."""
        first = self._life.phase is ReceiverPhase.ATTACHING
        self._life.on(ReceiverEvent.BEGIN)
        if first:
            self._items.signal(lambda: self._subscriber.on_subscribe(self))
            if self._options.asks_for_room:
                self._wake()  # it may have asked for nothing: then it is full

    def _start_at_last(self) -> None:
        """Begin, if it has not begun, because it is about to end."""
        if self._life.phase is ReceiverPhase.ATTACHING:
            self.start()

    # the subscriber calls these

    def request(self, n: int) -> None:
        """Ask for `n` more items; see `rstreams.abc.Subscription.request`."""
        if get_ident() != self._thread:
            refuse_thread(f"request({n})", self._thread)
        if self._life.phase is SILENT:
            return
        error = demand_error(n)
        if error is not None:
            self.give_up(error)
            return
        demand_limits = self.ledger.demand < self.ledger.window  # else the window limits: no change now
        self.ledger.request(n)
        self._requested += n
        if demand_limits:
            self._wake()

    def cancel(self) -> None:
        """End the subscription; the detach follows when all held items are settled."""
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        if self._life.on(ReceiverEvent.SILENCE):
            self._wake()

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Make the sender use up its credit now with the items that it has.

        Args:
            on_drained: Called like a signal when the credit is used up or given back, and the items that came for it
                are handed over; never after the end.

        Credit: All credit that the grant rule allows is granted first, unless the subscription is suspended. Credit
            that the sender gives back becomes unmet demand, and is granted again after `on_drained`. If fewer items
            came than were requested and had room, the sender had no more.
        Errors: `ConfigError` if the sender does not answer drains.
        Spec: AMQP 1.0 section 2.6.7 (drain).
        """
        if not self.ledger.answers_drain:
            msg = f"drain() of {self.label}: this peer does not answer drains"
            raise ConfigError(msg)
        if not self.ended:
            self.ledger.drain(on_drained)
            self._wake()

    def suspend(self) -> None:
        """Withdraw the credit that the sender has not used; see `rstreams.abc.Suspendable`.

        Credit: It becomes unmet demand. A drain withdraws it: after a flow of 0, deliveries on their way would be
            beyond credit. The sender may use the credit up first, with the items that it has. All items that come are
            handed over.
        Spec: AMQP 1.0 section 2.6.7 (drain).
        """
        self.ledger.suspended = True
        self._wake()

    def resume(self) -> None:
        """Grant again as much as demand and window allow, when a drain in progress has been answered."""
        self.ledger.suspended = self._life.phase is ReceiverPhase.LEAVING
        self._wake()

    def leave(self) -> None:
        """End the subscription in order: no more items are requested, and those on their way are still handed over.

        The subscriber gets `on_complete` when all of them are handed over. The link is detached when all of them are
        settled.

        Credit: Withdrawn, as by `suspend`.
        """
        self._start_at_last()
        self._life.on(ReceiverEvent.LEAVE)
        self.suspend()
        if self._link is None:
            self.work()  # it was never attached: there is nothing to wait for

    def give_up(self, error: BaseException) -> None:
        """End the subscription with `error`; items that were not handed over are released.

        A peer that broke the protocol gets its condition.
        """
        self._start_at_last()
        if not self._life.on(ReceiverEvent.SILENCE):
            return
        if isinstance(error, ProtocolError):
            self._goodbye = replace(self._goodbye, condition=error.condition, description=error.description)
        self._items.end(error)
        self._wake()

    # the link calls these

    def on_attach(self, frame: Attach) -> None:
        """The publisher's answer: the subscription begins, unless it is a refusal."""
        self._settled = frame.settlement is Settlement.AT_MOST_ONCE
        self.ledger.pack = self._agreed_items(frame)
        self._answered = not frame.refuses
        if self._answered and self.state is State.ATTACHED:
            self.start()
            wrong = self.why_not(frame)
            if wrong is not None:
                wrong.place = self.place()
                self.give_up(wrong)  # before any credit is granted

    def on_transfer(self, frame: Transfer) -> None:
        """Receive items: they are handed over as far as there is demand, otherwise buffered within the window."""
        link = self._link
        if link is None or link.state is not State.ATTACHED:
            return  # it crossed our detach; the sender knows that it was not taken (2.6.6)
        self._has_lost = False
        if self._is_first and frame.payloads:
            frame = self._look_at_first(frame)
        if frame.payloads:
            self._items.take_in(frame)
        if frame.overdrawn and not self.ended:
            msg = f"link {link.name!r}: the sender sent more than its credit"
            self.give_up(RemoteProtocolError(Condition.LINK_TRANSFER_LIMIT_EXCEEDED.value, msg))
        self._items.hand_over(link.driver)

    def _look_at_first(self, frame: Transfer) -> Transfer:
        """Look at the first message of a link; return what is to be handed over."""
        self._is_first = False
        if frame.more:
            return frame
        first = frame.payloads[0]
        wrong = None if self.why_not_first is None else self.why_not_first(first)
        try:
            seen = wrong is None and self._was_seen(first)
        except LinkDetached as error:
            wrong, seen = error, False
        if wrong is not None:
            wrong.place = self.place()
            self.give_up(wrong)  # before it is handed over
        if not seen:
            return frame
        if not frame.settled:
            self._outcomes.drop(frame.deliveries[0])
        return replace(frame, deliveries=frame.deliveries[1:], payloads=frame.payloads[1:])

    def _was_seen(self, first: bytes) -> bool:  # noqa: ARG002 - for links that go on
        """Return whether the first message of a link was handed over before the loss of the link before.

        Errors: `LinkDetached` if the subscription cannot go on with this message.
        """
        return False

    def on_flow(self, frame: Flow) -> None:
        """Receive the sender's answer to a drain, which `work` looks at, or its need for settlement."""
        loose = self._outcomes.loose
        loose.wanted = loose.wanted or frame.starved

    def on_detach(self, frame: Detach) -> None:
        """Receive the publisher's end: it is signalled after buffered items, and answered when all are settled."""
        error = frame.error
        if error is None and not (frame.closed and self._life.phase is not ReceiverPhase.ATTACHING):
            did = "refused the link and did not say why" if frame.closed else "left the subscription without ending it"
            error = LinkDetached(Condition.LINK_DETACH_FORCED.value, f"the peer {did}")
        if error is not None:
            error.place = self.place()
        if error is not None and not frame.announces_close and self._survives(error):
            self._send(self._goodbye)
            self.on_lost(Lost(error, returns=True))
            self._return_after(error)
            return
        if error is None or self.attach_later is None or not frame.announces_close:
            self._end(error)
            return
        self._life.on(ReceiverEvent.PART)
        if self._life.phase is ReceiverPhase.PARTING:
            self._reason = error  # `work` answers it when the items of the link are settled
        elif self._life.phase in (ReceiverPhase.ATTACHING, ReceiverPhase.APART):  # no items came on it
            self._send(self._goodbye)
            self._return_after(error)

    def on_lost(self, frame: Lost) -> None:
        """Handle the loss of the link: the peer has back items that were not handed over and did not come settled."""
        parts, self._reason = self._reason, None
        if self._life.phase is not ReceiverPhase.PARTING or not isinstance(frame.error, SessionEnded):
            parts = None  # otherwise the connection lives: the session has ended, which is the announced loss
        reason = self._survived(frame) or parts
        returns = frame.returns or reason is not None
        if returns:
            self._has_lost = True
            self._life.on(ReceiverEvent.LOSE)
        else:
            self._end(frame.error)
        if self._life.phase in ENDS and self._error is None and self._items.lacks_when_lost:
            if not returns:
                self._error = frame.error  # the stream was complete, but the items that are dropped now are missing
            elif self._life.phase is ReceiverPhase.ENDING:
                self._life.on(ReceiverEvent.MISS)
        self._items.forget_link()
        self.ledger.forget_link()
        self.work()
        self._return_after(reason)

    def work(self) -> None:
        """Hand over, settle, grant and end: do all that has become possible."""
        items = self._items
        if items.emitting:
            items.work_waits = True  # called from inside a signal; this work is done after it
            return
        life, ledger, link = self._life, self.ledger, self._link
        driver = None if link is None or link.state is State.DETACHED else link.driver
        if ledger.buffered:
            items.hand_over(driver)
        while ledger.buffered and ledger.demand and self.state is State.DETACHED and life.phase is not SILENT:
            items.hand_over(None)  # what was requested meanwhile: no link will have a turn for it
        if (
            life.phase is ReceiverPhase.LEAVING
            and self.at_rest
            and not (ledger.drains and self.state is State.ATTACHED)
        ):
            self._end(None)  # no more items are on their way
        if life.phase in ENDS and not items.buffer:
            life.on(ReceiverEvent.SILENCE)
            items.end(self._error)
        if life.phase is SILENT:
            self._release(link)
        self._send_dispositions()
        if link is not None and link.state is State.ATTACHED and life.phase is not SILENT:
            self._send_flow(link)
        elif self.full.lasts:
            self.full.note(lasts=False)
        if life.phase in _DETACHES:
            self._send_detach()

    # parts of `work`

    def _release(self, link: Link | None) -> None:
        """Give back items that will not be handed over."""
        if link is not None and link.state is State.ATTACHED and link.driver.credit() > 0:
            self._send(Flow(0))  # first: items that are given back now must not come again
        self._items.release()

    def _wake(self) -> None:
        link = self._link
        if link is None:
            return
        if link.state is State.DETACHED:
            self.work()  # without a driver, items that came settled may still be handed over
        else:
            link.driver.wake()

    def _send_dispositions(self) -> None:
        """Send the collected outcomes. Without a link there are none: they are forgotten with it."""
        link = self._link
        for frame in self._outcomes.take_dispositions():
            assert link is not None, "its deliveries came on a link"
            link.send(frame)

    def _send_flow(self, link: Link) -> None:
        """Grant or drain credit, if that has become possible."""
        ledger, loose, credit = self.ledger, self._outcomes.loose, link.driver.credit()
        while loose.claims and ledger.may_grant and loose.make_room(ledger, credit):
            self._send_dispositions()
        flow = ledger.next_flow(credit)
        if flow is not None:
            link.send(flow)
            credit = flow.credit
        elif ledger.drains:
            calls = ledger.end_drain(credit)
            if calls is not None:
                for call in calls:
                    if self._life.phase is not SILENT:
                        self._items.signal(call)
                self._wake()
        if credit <= 0 or self.full.lasts:
            self._note_full(credit)

    def _send_detach(self) -> None:
        """Detach when every item that was handed over has been settled."""
        if self.ledger.unsettled or self._items.buffer or self.state not in _CAN_DETACH:
            return
        self._send(self._goodbye)
        if self._life.phase is ReceiverPhase.PARTING:
            reason, self._reason = self._reason, None
            self._life.on(ReceiverEvent.ANSWER)
            self._items.forget_link()
            self.ledger.forget_link()
            self._return_after(reason)

    # how it ends

    def _end(self, error: BaseException | None) -> None:
        """Note that the publisher has ended, with `error` if it failed; only the first end counts."""
        self._start_at_last()
        if self._life.on(ReceiverEvent.END):
            self._error = error


def _nothing_is_wrong(_answer: Attach) -> None:
    """Return no error for a publisher's attach."""


_DETACHES: Final = (ReceiverPhase.PARTING, SILENT)
"""The phases in which the link is detached as soon as all items are settled."""

_CAN_DETACH: Final = (State.ATTACHED, State.DETACH_RECEIVED, State.ATTACH_SENT, State.REFUSED)
