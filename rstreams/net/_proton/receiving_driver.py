"""The driver of a link on which this side receives.

A delivery, named as the loops name it, is the receiver's handle for it. Where deliveries come in parts, the handle is
the delivery's pointer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cproton_ffi import lib

from rstreams.errors import Condition, RemoteProtocolError
from rstreams.net._proton.arriving_body import ArrivingBody
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.loops import as_delivery
from rstreams.net._proton.message_formats import CONDITION as FORMAT_CONDITION
from rstreams.net._proton.message_formats import MessageFormats
from rstreams.net._proton.outcomes import OUTCOME_CODES, write_outcome
from rstreams.net._proton.parts import Parts, take_part
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.delivery import ACCEPTED, Outcome
from rstreams.protocol.driver import Intake
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Frame, Lost, Transfer
from rstreams.protocol.link import Link
from rstreams.protocol.packing import PACK_ITEMS, told_items
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import OVERHEAD_BYTES

MAX_LATE: Final = 4096
"""The most deliveries without credit that a link may get after its end; after more the connection is closed."""

MAX_LATE_BYTES: Final = 128 * 1024
"""The most bytes of a connection's deliveries that came behind this side's detach and are not settled."""


class ReceivingDriver(LinkDriver):
    """Carries a link of a receiver of this side.

    Attributes:
        is_windowed: Whether its session has a window. Then a message is read while it comes: otherwise the window would
            close on it.
    """

    sends = False

    def __init__(self, host: HostConnection, pointer: Pointer) -> None:
        """Drive the engine's link at `pointer`."""
        super().__init__(host, pointer)
        self.is_windowed = int(lib.pn_session_get_incoming_capacity(self._session)) > 0
        self._streams = False  # deliveries are handed over in parts
        self._is_plain = not self.is_windowed  # deliveries are read whole, and there is nothing of any other
        self._bounded: Intake | None = None  # tells the bytes that the link's end takes, if it bounds them
        self._max_message_bytes = host.limits.max_message_bytes or 0
        self._parts = Parts(pointer)
        self._formats = MessageFormats()
        self._counted = 0  # the bytes counted of an unfinished message
        self._too_much = ""  # why an unfinished message is to be refused
        self._is_ending = False
        self._left = False  # something was left in the engine because there was no room
        self._asked_with = -sys.maxsize  # the room there was when it was too little
        self._late = 0  # deliveries that came after this side had ended the link
        self._late_bytes = 0  # of those among them that are not settled

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
        """See `LinkDriver`."""
        return int(lib.pn_link_credit(self.pointer))

    def queued(self) -> int:
        """Return 0: a receiver sends no deliveries."""
        return 0

    def room_bytes(self) -> int:
        """Return 0: a receiver sends no deliveries."""
        return 0

    # its life

    def bind(self, link: Link, intake: Intake | None = None) -> None:
        """See `LinkDriver`."""
        super().bind(link)
        if intake is not None and intake.window_bytes:
            self._bounded = intake
        if intake is not None and intake.streams:
            self._streams = True
            self._is_plain = False
            lib.pn_link_set_max_message_size(self.pointer, 0)  # a message in parts has no limit

    def _forget(self) -> None:
        self._bounded = None
        if lib.pn_link_current(self.pointer):
            self._loops.forget(self.pointer)
        self._parts.drop()
        self._count_unfinished(0)
        self._host.late_bytes -= self._late_bytes

    def remote_attach(self) -> Attach:
        """Return the peer's attach."""
        return self._packed_as_told(super().remote_attach())

    def _packed_as_told(self, attach: Attach) -> Attach:
        """Return either side's attach, for packs of no more items than their sender can be told of."""
        items, frame_bytes = attach.properties.get(PACK_ITEMS), self._host.peer_frame_bytes
        if not frame_bytes or not isinstance(items, int):
            return attach
        return replace(attach, properties={**attach.properties, PACK_ITEMS: min(items, told_items(frame_bytes))})

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
        return self._bounded.room_bytes() > self._parts.size

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
        more = False
        if self._is_plain and self._hand_over_whole(most):
            current = lib.pn_link_current(self.pointer)
            if current:
                more = self._look_at_next(current) or not lib.pn_delivery_partial(current)
        elif (self.is_windowed or self._streams) and not self._has_room():
            self._left = True
            self._asked_with = -sys.maxsize
            self._ask_for_room()
        elif self._formats and self._refuse_format():
            self.deliveries_noted = 0
            current = lib.pn_link_current(self.pointer)
            more = bool(current) and not lib.pn_delivery_partial(current)
        elif self._streams:
            frame = self._read_part()
            if frame is not None:
                self.receive(frame)
            more = frame is not None and bool(lib.pn_link_current(self.pointer))
        else:
            self._hand_over_deliveries(most)
            current = lib.pn_link_current(self.pointer)
            if current:
                more = self._look_at_next(current) or not lib.pn_delivery_partial(current)
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
            self._throw_away(frame)
        elif link is None or self._refused or self._ended:
            self._throw_away(frame)
            self._late += len(frame.deliveries)
            if self._late > MAX_LATE and self.credit() < 0:
                text = "it goes on sending, without credit, on a link that has been ended"
                self._host.misused(Condition.SESSION_ERRANT_LINK.value, text)
        else:
            super().receive(frame)

    def _throw_away(self, frame: Transfer) -> None:
        """Settle deliveries that come behind this side's detach, except the first `MAX_LATE_BYTES` of them.

        The peer does not need to hear of those. The engine keeps the memory of unsettled deliveries until the peer
        detaches.
        """
        if frame.settled or frame.more or frame.aborted:
            return
        host = self._host
        cost = sum(map(len, frame.payloads)) + OVERHEAD_BYTES * len(frame.deliveries)
        if host.late_bytes + cost <= MAX_LATE_BYTES:
            host.late_bytes += cost
            self._late_bytes += cost
            return
        for delivery in map(as_delivery, frame.deliveries):
            lib.pn_delivery_settle(delivery)

    # reading

    def _hand_over_whole(self, most: int) -> bool:
        """Hand over whole deliveries where nothing of others is here; tell whether there were any."""
        frame = self._read(most)
        if frame is None:
            self._is_plain = False  # until it has been looked at what else has come
            return False
        self.deliveries_noted = 0
        starved = not frame.settled and _is_received(as_delivery(frame.deliveries[-1]))
        if lib.pn_link_current(self.pointer):
            self._keep_beginning()
        self.receive(frame)
        if starved:
            self.receive(Flow(self.credit(), starved=True))
        return True

    def _hand_over_deliveries(self, most: int) -> None:
        noted, self.deliveries_noted = self.deliveries_noted, 0
        if self._parts:
            self._parts.check()  # the engine may use the same place for the next delivery
        if not lib.pn_link_current(self.pointer):
            starved, frame = noted > 0, None  # a delivery that was read has news: see `Flow`
        else:
            frame = self._read_joined(most)
            starved = frame is not None and not frame.settled and _is_received(as_delivery(frame.deliveries[-1]))
        if frame is not None:
            self.receive(frame)
        else:
            self._host.turns.wake(self)  # an aborted delivery is not handed over, and has used up credit
        if starved:
            self.receive(Flow(self.credit(), starved=True))
        self._is_plain = not (self.is_windowed or self._parts or self._formats)

    def _read(self, most: int) -> Transfer | None:
        """Read up to `most` whole deliveries from the engine, all settled or all not, and none that is too large."""
        deliveries, payloads, settled = self._loops.read(self.pointer, most, self._max_message_bytes)
        return Transfer(deliveries, payloads, settled) if payloads else None

    def _read_joined(self, most: int) -> Transfer | None:
        """Read as `_read` does, and read the beginning of the next delivery, which has not come whole.

        In a session with a window this opens the window again. Elsewhere it is done for large deliveries, because the
        engine's buffer doubles as it grows.
        """
        parts = self._parts
        size = parts.size if parts else 0
        if size and self._is_too_large(size + lib.pn_delivery_pending(lib.pn_link_current(self.pointer))):
            return None  # refused by the caller
        if self._formats or parts.has_pieces:
            most = 1  # the next one may be of an unknown format, or have pieces of its own
            parts.skip_aborted()
        frame = self._read(most)
        if frame is not None and parts:
            frame = parts.complete(frame)
        self._keep_beginning()
        return frame

    def _keep_beginning(self) -> None:
        """Read the beginning of the next delivery, if it has not come whole; see `_read_joined`."""
        parts = self._parts
        current = lib.pn_link_current(self.pointer)
        if current and lib.pn_delivery_partial(current):
            pending = int(lib.pn_delivery_pending(current))
            if self._host.unfinished is not None:
                self._host.unfinished.note_buffer(current, pending)
            if not self._is_too_large(pending):
                parts.take_in(whole=self.is_windowed)
            if self._refused or not self.lives:
                parts.drop()  # it will not be handed over
        if parts or self._counted:
            self._is_plain = False
            self._count_unfinished(parts.size)

    def _read_part(self) -> Transfer | None:
        """Read the next part of the current delivery; None if nothing more of it has come."""
        pointer = self.pointer
        delivery = lib.pn_link_current(pointer)
        if not delivery:
            return None
        if lib.pn_delivery_aborted(delivery):
            lib.pn_delivery_settle(delivery)  # this also advances; the end lets go of it without an outcome
            return Transfer([delivery], [b""], aborted=True)
        part, more, settled = take_part(pointer), bool(lib.pn_delivery_partial(delivery)), _is_settled(delivery)
        if more and not part:
            return None
        if not more:
            part = self._loops.message_of(part)
        if not more and settled:
            lib.pn_delivery_settle(delivery)  # this also advances
        elif not more:
            lib.pn_link_advance(pointer)
        return Transfer([delivery], [part], settled, more)

    @property
    def takes_pieces(self) -> bool:
        """Whether pieces of large frames may come beside the engine: where no window counts their bytes."""
        return not (self.is_windowed or self._streams or self._let_go)

    def has_pieces(self, delivery: Pointer) -> bool:
        """Tell whether a delivery has pieces already, and goes on."""
        return self._parts.has(delivery)

    def put_pieces(self, delivery: Pointer, pieces: Sequence[bytes | memoryview]) -> None:
        """Take copies of pieces of a delivery, of which the engine has got the transfer without its payload."""
        if self.lives and not self._refused:
            self._is_plain = False
            self._parts.put(delivery, pieces)

    def put_body(self, delivery: Pointer, body: ArrivingBody, size: int) -> bool:
        """Take a body as `put_pieces` takes pieces; tell whether its room is used for what is to come."""
        if not self.lives or self._refused:
            return False
        self._is_plain = False
        return self._parts.put_body(delivery, body, size)

    def room_for(self, delivery: Pointer) -> memoryview | None:
        """Return where the next pieces of a delivery may be written; None if `put_pieces` is to be used."""
        return self._parts.room(delivery)

    def note_written(self, delivery: Pointer, size: int) -> None:
        """Take the next piece of a delivery, which has been written into the room for it."""
        self._parts.note_written(delivery, size)

    # deliveries that are refused

    def note_format(self, delivery: Pointer, message_format: int) -> None:
        """Note that a delivery has begun with a message-format that is not 0."""
        self._is_plain = False
        self._formats.note(delivery, message_format)

    def _refuse_format(self) -> bool:
        """Refuse the current delivery if its format is not known here; tell whether it did."""
        current = lib.pn_link_current(self.pointer)
        if not current or not self._formats.has(current):
            return False
        lives = self.lives and not self._refused
        text = self._formats.refuse(current, self._host.peer_frame_bytes, lives=lives)
        if text is not None and self.link is not None:
            self._break(self.link, RemoteProtocolError(FORMAT_CONDITION, text))
            self._host.turns.end(self)
        self._host.turns.wake(self)  # it has used up credit
        return True

    def _count_unfinished(self, size: int) -> None:
        if self._counted != size and not self._too_much and self._host.unfinished is not None:
            self._counted = size
            self._host.unfinished.count(self.end_unfinished, size)

    def end_unfinished(self, why: str) -> None:
        """Have the link ended because of its unfinished message; any task of the run may call this."""
        self._counted = 0
        self._too_much = why
        self._parts.drop_current()
        self._host.turns.read_on(self)

    def _look_at_next(self, current: Pointer) -> bool:
        """Refuse the delivery that was not read if it is too large; tell whether there is more to read."""
        if self._is_too_large(self._parts.size + lib.pn_delivery_pending(current)):
            return self._refuse_message(current)
        if self._too_much:
            why, self._too_much = self._too_much, ""
            self._parts.take_in(whole=True)  # this opens the session's window again
            self._parts.drop_current()
            if self.lives and not self._refused:
                self._end_link(Condition.RESOURCE_LIMIT_EXCEEDED, why)
        return False

    def _is_too_large(self, size: int) -> bool:
        return 0 < self._max_message_bytes < size

    def _refuse_message(self, delivery: Pointer) -> bool:
        """End the link because of a message that is too large; the engine keeps no part of the message (2.7.3)."""
        text = f"the peer sent a message of more than max_message_bytes={self._max_message_bytes}"
        condition = Condition.LINK_MESSAGE_SIZE_EXCEEDED
        self._parts.drop_current()
        self._count_unfinished(0)
        if self.lives:  # rejected, because a released message would come again
            outcome = Outcome("rejected", condition.value, text)
            write_outcome(lib.pn_delivery_local(delivery), outcome, self._host.peer_frame_bytes)
            lib.pn_delivery_update(delivery, lib.PN_REJECTED)
        lib.pn_delivery_settle(delivery)  # the engine throws away the part that is here and the parts to come
        self._end_link(condition, text, "connect() may allow more, and streamed_messages() takes messages of any size")
        return bool(lib.pn_link_current(self.pointer))

    def _end_link(self, condition: Condition, text: str, advice: str = "") -> None:
        """End the link because of a delivery of its peer, unless it has ended."""
        link = self.link
        if link is None or self._ended:
            return
        self._send_detach(Detach(condition=condition.value, description=text))
        told = f"{link.place}: {text}; {advice}" if link.place and advice else f"link {link.name!r}: {text}"
        link.lose(Lost(RemoteProtocolError(condition.value, told)))
        self._host.turns.wake(self)
        self._host.turns.end(self)

    # sending

    def _send_attach(self, frame: Attach) -> None:
        super()._send_attach(self._packed_as_told(frame))

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
        if self._streams:  # these deliveries are pointers
            for delivery in frame.deliveries:
                lib.pn_delivery_update(delivery, OUTCOME_CODES[outcome.kind])
                lib.pn_delivery_settle(delivery)
        else:
            self._loops.settle(frame.deliveries, OUTCOME_CODES[outcome.kind])


def _is_received(delivery: Pointer) -> bool:
    return bool(lib.pn_delivery_remote_state(delivery) == lib.PN_RECEIVED)


def _is_settled(delivery: Pointer) -> bool:
    return bool(lib.pn_delivery_settled(delivery))
