"""The driver of a link on which this side receives.

A delivery, named as the loops name it, is the receiver's handle for it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

from cproton_ffi import lib

from rstreams.errors import Condition, RemoteProtocolError
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.loops import IN_TRANSACTION, as_delivery
from rstreams.net._proton.outcomes import OUTCOME_CODES, write_outcome
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.delivery import ACCEPTED, Outcome
from rstreams.protocol.driver import IntakeLimits
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Frame, Lost, Transfer
from rstreams.protocol.joined_message import JoinedMessage
from rstreams.protocol.link import Link
from rstreams.protocol.packing import PACK_ITEMS, told_items
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import OVERHEAD_BYTES

MAX_LATE: Final = 4096
"""The most deliveries without credit that a link may get after its end; after more the connection is closed."""

MAX_LATE_BYTES: Final = 128 * 1024
"""The most bytes of a connection's deliveries that came behind this side's detach and are not settled."""


class _SendsNothing:
    """What a driver answers to whoever wants to send, on a link of a receiver."""

    def send_ahead(self, tag: int, message: bytes, *, settled: bool) -> bool:  # noqa: ARG002 - for a sender
        return False

    def queued(self) -> int:
        return 0

    def room_bytes(self) -> int:
        return 0

    def room(self) -> int:
        return 1  # it sends no items

    def is_shut(self, *, used_up: bool = False) -> bool:  # noqa: ARG002 - for a sender
        return False


class _LateDeliveries:
    """The deliveries that come behind this side's detach: the peer does not need to hear of them.

    They are thrown away. The engine keeps the memory of unsettled deliveries until the peer detaches. Therefore all are
    settled but the first `MAX_LATE_BYTES` of them.

    Attributes:
        count: How many came after the link had ended.
    """

    def __init__(self, host: HostConnection) -> None:
        self.count = 0
        self._host = host
        self._bytes = 0  # of those that are not settled

    def take(self, frame: Transfer) -> None:
        if frame.settled or frame.more or frame.aborted:
            return
        cost = sum(map(len, frame.payloads)) + OVERHEAD_BYTES * len(frame.deliveries)
        if self._host.late_bytes + cost <= MAX_LATE_BYTES:
            self._host.late_bytes += cost
            self._bytes += cost
            return
        for delivery in map(as_delivery, frame.deliveries):
            lib.pn_delivery_settle(delivery)

    def forget(self) -> None:
        self._host.late_bytes -= self._bytes


class ReceivingDriver(_SendsNothing, LinkDriver):
    """Carries a link of a receiver of this side.

    Attributes:
        is_windowed: Whether its session has a window. Then a message is read while it comes: otherwise the window would
            close on it.
        arrivals: The messages that have come and are not handed over.
    """

    sends = False

    def __init__(self, host: HostConnection, pointer: Pointer) -> None:
        """Drive the engine's link at `pointer`."""
        super().__init__(host, pointer)
        self.is_windowed = int(lib.pn_session_get_incoming_capacity(self._session)) > 0
        self._streams = False  # deliveries are handed over in parts
        self._bounded: IntakeLimits | None = None  # tells the bytes that the link's end takes, if it bounds them
        self._max_message_bytes = host.limits.max_message_bytes or 0
        self.arrivals = self._loops.arrivals(self.address, not self.is_windowed)
        self._counted = 0  # the bytes counted of an unfinished message
        self._too_much = ""  # why an unfinished message is to be refused
        self._is_ending = False
        self._left = False  # something was left in the engine because there was no room
        self._asked_with = -sys.maxsize  # the room there was when it was too little
        self._late = _LateDeliveries(host)

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if isinstance(frame, Disposition):
            self._send_disposition(frame)
        elif isinstance(frame, Flow):
            self._send_flow(frame)
        else:
            super().send(frame)

    def credit(self) -> int:
        """See `Driver`; it is exact once all that arrived has been read."""
        return int(lib.pn_link_credit(self.pointer))

    # its life

    def bind(self, link: Link, intake: IntakeLimits | None = None) -> None:
        """See `LinkDriver`."""
        super().bind(link)
        if intake is not None and intake.window_bytes:
            self._bounded = intake
        if intake is not None and intake.streams:
            self._streams = True
            self.arrivals.read_in_parts()
            lib.pn_link_set_max_message_size(self.pointer, 0)  # a message in parts has no limit

    def _forget(self) -> None:
        self._bounded = None
        self._count_unfinished(0)
        self.arrivals.close()
        self._late.forget()
        del self._late

    def remote_attach(self) -> Attach:
        """Return the peer's attach."""
        return _packed_as_told(super().remote_attach(), self._host.peer_frame_bytes)

    # turns

    def work(self) -> None:
        """See `LinkDriver`."""
        super().work()
        if self._left and self._has_room():
            self._left = False
            self._host.turns.read_on(self)
        elif self._left:
            self._ask_for_room()

    def _has_room(self) -> bool:
        """Tell whether the link's end takes more; always, if it is ending: its window does not matter any more."""
        if self._bounded is None or self._is_ending or self._refused or not self.lives:
            return True
        return self._bounded.room_bytes() > int(self.arrivals.current()[0])

    def _ask_for_room(self) -> None:
        """Have the link's end settle the items that it may, unless it was asked before with as little room."""
        if self._bounded is None or self._streams or self.link is None or self.link.state is not State.ATTACHED:
            return
        room = self._bounded.room_bytes()
        if room > self._asked_with:
            self._asked_with = room
            self.receive(Flow(self.credit(), starved=True))

    def hand_over(self, most: int) -> bool:
        """See `LinkDriver`: deliveries have come, and perhaps a flow behind them."""
        if (self.is_windowed or self._streams) and not self._has_room():
            more = False
            self._left = True
            self._asked_with = -sys.maxsize
            self._ask_for_room()
        else:
            more = self._hand_over_part() if self._streams else self._hand_over_deliveries(most)
        if not more and self.flow_noted:
            self.flow_noted = False
            self.receive(Flow(self.credit()))
        return more

    def hand_over_all(self) -> None:
        """See `LinkDriver`."""
        self._is_ending = True
        super().hand_over_all()
        self._is_ending = False

    def receive(self, frame: Frame) -> None:
        """See `LinkDriver`; a transfer that comes too late is thrown away, and gets no outcome (2.6.6)."""
        link = self.link
        if link is not None and link.state is State.ATTACHED and not self._refused and type(frame) is Transfer:
            self._give(link, frame)
        elif not isinstance(frame, Transfer):
            super().receive(frame)
        elif link is not None and link.state is State.DETACH_SENT:
            self._late.take(frame)
        elif link is None or self._refused or link.state is State.DETACHED:
            self._late.take(frame)
            self._late.count += len(frame.deliveries)
            if self._late.count > MAX_LATE and self.credit() < 0:
                text = "it goes on sending, without credit, on a link that has been ended"
                self._host.owner.on_misuse(Condition.SESSION_ERRANT_LINK.value, text)
        else:
            super().receive(frame)

    # reading

    def _hand_over_deliveries(self, most: int) -> bool:
        """Hand over whole deliveries; tell whether there are more."""
        noted, self.deliveries_noted = self.deliveries_noted, 0
        deliveries, messages, settled, is_split, starved = self.arrivals.read(most, self._max_message_bytes)
        if messages:
            payloads = JoinedMessage(messages) if is_split else messages
            overdrawn = lib.pn_link_credit(self.pointer) < 0
            self.receive(Transfer(deliveries, payloads, settled, overdrawn=overdrawn))
        else:
            starved = noted > 0 and not lib.pn_link_current(self.pointer)  # one that was read has news: see `Flow`
            self._host.turns.wake(self)  # an aborted delivery is not handed over, and has used up credit
        if starved:
            self.receive(Flow(self.credit(), starved=True))
        current = lib.pn_link_current(self.pointer)
        if current:
            return self._look_at_next(current)
        if self._counted:
            self._count_unfinished(0)
        return False

    def _hand_over_part(self) -> bool:
        """Hand over the next part of the current delivery; tell whether there may be more."""
        part = self.arrivals.read_part()
        current = lib.pn_link_current(self.pointer)
        if part is not None:
            delivery, payload, settled, more, aborted = part
            settled, overdrawn = settled and not aborted, lib.pn_link_credit(self.pointer) < 0
            self.receive(Transfer([delivery], [payload], settled, more, aborted=aborted, overdrawn=overdrawn))
            return bool(lib.pn_link_current(self.pointer))
        _, message_format = self.arrivals.current()
        return bool(current) and message_format != 0 and self._refuse_format(current, message_format)

    # deliveries that are not read

    def _look_at_next(self, current: Pointer) -> bool:
        """Look at the delivery that was not read, and refuse it if need be; tell whether there is more to read."""
        pending = int(lib.pn_delivery_pending(current))
        size, message_format = self.arrivals.current()
        if message_format:
            return self._refuse_format(current, message_format)
        if 0 < self._max_message_bytes < size + pending:
            return self._refuse_message(current)
        if self._too_much or self._refused or not self.lives:
            self.arrivals.drop()
        if lib.pn_delivery_partial(current):
            if pending:
                if self._host.unfinished is not None:
                    self._host.unfinished.note_buffer(current, pending)
                self.arrivals.read_on()
                size, _ = self.arrivals.current()
            self._count_unfinished(size)
        if self._too_much:
            why, self._too_much = self._too_much, ""
            if self.lives and not self._refused:
                self._end_link(Condition.RESOURCE_LIMIT_EXCEEDED, why)
        return not lib.pn_delivery_partial(current)

    def _refuse_format(self, current: Pointer, message_format: int) -> bool:
        """Refuse the current delivery: it is in another format than 0, or in a transaction. Tell whether there is more.

        Nobody here can take it, and the engine would send it on as one of format 0. It is thrown away while it comes,
        and refused when it has come whole: otherwise the engine would count its further bytes as unread, and a window
        would stay closed. If the sender has settled it, and gets no outcome, its link ends.
        """
        if lib.pn_delivery_partial(current):
            self.arrivals.read_on()  # which throws its bytes away
            return False
        condition = Condition.NOT_IMPLEMENTED.value
        text = f"the message-format 0x{message_format:08x} is not known here; only 0 is known"
        if message_format == IN_TRANSACTION:
            text = "the message is part of a transaction, and there are no transactions here"
        lives, settled = self.lives and not self._refused, _is_settled(current)
        if lives and not settled:
            self._reject(current, condition, text)
        lib.pn_delivery_settle(current)  # this also advances
        self.arrivals.remove()
        if lives and settled and self.link is not None:
            self._break(self.link, RemoteProtocolError(condition, text))
            self._host.turns.end(self)
        self._host.turns.wake(self)  # it has used up credit
        return bool(lib.pn_link_current(self.pointer))

    def _reject(self, delivery: Pointer, condition: str, text: str) -> None:
        outcome = Outcome("rejected", condition, text)
        write_outcome(lib.pn_delivery_local(delivery), outcome, self._host.peer_frame_bytes)
        lib.pn_delivery_update(delivery, lib.PN_REJECTED)

    def _count_unfinished(self, size: int) -> None:
        if self._counted != size and not self._too_much and self._host.unfinished is not None:
            self._counted = size
            self._host.unfinished.count(self.end_unfinished, size)

    def end_unfinished(self, why: str) -> None:
        """Have the link ended because of its unfinished message; any task of the run may call this."""
        self._counted = 0
        self._too_much = why
        self.arrivals.drop()
        self._host.turns.read_on(self)

    def _refuse_message(self, delivery: Pointer) -> bool:
        """End the link because of a message that is too large; the engine keeps no part of the message (2.7.3)."""
        text = f"a message has more than max_message_bytes={self._max_message_bytes}, the most that its receiver takes"
        condition = Condition.LINK_MESSAGE_SIZE_EXCEEDED
        self._count_unfinished(0)
        if self.lives:  # rejected, because a released message would come again
            self._reject(delivery, condition.value, text)
        lib.pn_delivery_settle(delivery)  # the engine throws away what is to come
        self.arrivals.remove()
        self._end_link(condition, text, "connect() may allow more, and streamed_messages() takes messages of any size")
        return bool(lib.pn_link_current(self.pointer))

    def _end_link(self, condition: Condition, text: str, advice: str = "") -> None:
        """End the link because of a delivery of its peer, unless it has ended."""
        link = self.link
        if link is None or link.state is State.DETACHED:
            return
        self._send_detach(Detach(condition=condition.value, description=text))
        told = f"{link.place}: {text}; {advice}" if link.place and advice else f"link {link.name!r}: {text}"
        link.lose(Lost(RemoteProtocolError(condition.value, told)))
        self._host.turns.wake(self)
        self._host.turns.end(self)

    # sending

    def _send_attach(self, frame: Attach) -> None:
        super()._send_attach(_packed_as_told(frame, self._host.peer_frame_bytes))

    def _send_flow(self, frame: Flow) -> None:
        pointer = self.pointer
        # The engine counts a delivery as credit that is still to be used until all of it has been read.
        unread, credit = int(lib.pn_link_queued(pointer)), int(lib.pn_link_credit(pointer))
        if frame.credit > 0 and unread > credit:
            return  # the peer has sent more than its credit; the end hears of it when it reads, and grants no more
        self._host.flush()  # settled deliveries make room for this credit, therefore the peer hears of them first
        lib.pn_link_set_drain(pointer, frame.drain)
        # Withdrawing the credit of unread deliveries would leave less than 0, which the peer reads as nearly 2^32.
        lib.pn_link_flow(pointer, max(frame.credit, unread) - credit)

    def tell_state(self) -> None:
        """See `LinkDriver`."""
        self._host.outgoing.ask(self.pointer)

    def _send_disposition(self, frame: Disposition) -> None:
        outcome = frame.outcome
        if outcome is not ACCEPTED and outcome.kind != "released":
            for delivery in frame.deliveries:
                local = lib.pn_delivery_local(as_delivery(delivery))
                write_outcome(local, outcome, self._host.peer_frame_bytes)
        self._loops.settle(frame.deliveries, OUTCOME_CODES[outcome.kind])


def _packed_as_told(attach: Attach, frame_bytes: int) -> Attach:
    """Return either side's attach, for packs of no more items than their sender can be told of."""
    items = attach.properties.get(PACK_ITEMS)
    if not frame_bytes or not isinstance(items, int):
        return attach
    return replace(attach, properties={**attach.properties, PACK_ITEMS: min(items, told_items(frame_bytes))})


def _is_settled(delivery: Pointer) -> bool:
    return bool(lib.pn_delivery_settled(delivery))
