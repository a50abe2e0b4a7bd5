"""The driver that carries one protocol link on the engine.

A link's pointer into the engine is the key of its driver, and a delivery, named as the loops name it, is the receiver's
handle for it. A delivery is dead once it is settled, and no delivery is settled after its link has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from rstreams.errors import Condition, RemoteProtocolError
from rstreams.net._proton.attach import read_attach, write_attach
from rstreams.net._proton.conditions import write_condition
from rstreams.net._proton.large_messages import PART_BYTES, LargeMessages
from rstreams.net._proton.loops import Pointer, as_delivery
from rstreams.net._proton.message_formats import CONDITION as FORMAT_CONDITION
from rstreams.net._proton.message_formats import MessageFormats
from rstreams.net._proton.outcomes import OUTCOME_CODES, write_outcome
from rstreams.net._proton.parts import Parts, take_part
from rstreams.net._proton.sent_deliveries import SentDeliveries
from rstreams.protocol.delivery import ACCEPTED, Outcome
from rstreams.protocol.frames import (
    Attach,
    Detach,
    Disposition,
    Flow,
    Frame,
    Lost,
    Transfer,
)
from rstreams.protocol.link import Link
from rstreams.protocol.packing import PACK_ITEMS, told_items
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import OVERHEAD_BYTES, Share

if TYPE_CHECKING:
    from rstreams.net._proton.engine import Engine

MAX_LATE: Final = 4096
"""Deliveries without credit that a link may get after its end before its peer counts as one that means harm."""

MAX_LATE_BYTES: Final = 128 * 1024
"""What a connection may have of deliveries that came behind this side's detach, and are not settled."""


class LinkDriver:
    """Carries one link: a `rstreams.protocol.driver.Driver` on the engine.

    Context: Only the task that owns the connection, but for `wake`, which any task of its run may call.
    """

    def __init__(self, engine: Engine, pointer: Pointer) -> None:
        """Drive the engine's link at `pointer`."""
        self.pointer = pointer
        self.link: Link | None = None
        self.origin: object = None  # what the owner of the connection wants to remember of it
        self._refused = False
        self._let_go = False
        self.heard_detach = False  # the peer has ended its half
        self._heard_open_end = False  # and leaves what the link belongs to as it is: not closed
        self._late = 0  # deliveries that came after this side had ended the link
        self._late_bytes = 0  # of those that are not settled
        self.sends = bool(lib.pn_link_is_sender(pointer))
        self.flow_noted = False
        self._engine = engine
        self._session = lib.pn_link_session(pointer)
        # As a receiver in a session with a window: a message is read while it comes, or the window would close on it.
        self.is_windowed = not self.sends and int(lib.pn_session_get_incoming_capacity(self._session)) > 0
        self.owns_session = False
        self.streams = False  # what comes is handed over in parts
        self.room_in_end: Callable[[], int] | None = None  # the bytes the link's end takes, if it bounds them
        self._parts = Parts(pointer)
        self._counted = 0  # what is counted of an unfinished message
        self._too_much = ""  # why an unfinished message is to be refused
        self._is_ending = False
        self._asked_with = -sys.maxsize  # so much room there was when there was too little
        self._left = False  # something was left in the engine for want of room
        self._loops = engine.loops
        self._sent = SentDeliveries(engine.loops)
        self.deliveries_noted = 0
        self._partial: Pointer | None = None  # the delivery being sent in parts
        self._tells_starved = False  # when all that was sent is on the wire
        self._large = LargeMessages()
        self._formats = MessageFormats()
        self.handle: int | None = None  # as a sender: the one the engine has given it, once its attach has gone out
        self.allowed_until = 0  # as a sender whose state was asked for: the delivery-count at which its credit ends
        self.sent_at = 0  # which of the connection's outputs had its last transfer

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if isinstance(frame, Transfer) or (isinstance(frame, Flow) and self.sends):
            if self._large.take(frame):
                self._large.go_on(self._send_next, self._has_room_for_part)
            else:
                self._send_next(frame)
        elif isinstance(frame, Disposition):
            self._send_disposition(frame)
        elif isinstance(frame, Flow):
            self._send_flow(frame)
        elif isinstance(frame, Attach):
            self._send_attach(frame)
        else:
            self._send_detach(frame)

    def credit(self) -> int:
        """Return the engine's own number; a receiver's is exact once all that arrived has been read."""
        return int(lib.pn_link_credit(self.pointer)) - self._large.deliveries

    def queued(self) -> int:
        """Return the deliveries not on the wire yet; a sender that is told some is woken when they have gone."""
        queued = int(lib.pn_link_queued(self.pointer)) + self._large.deliveries
        if queued:
            self._engine.wait(self)
        return queued

    def room_bytes(self) -> int:
        """Return what the session takes before it is full; a sender that is told none is woken when there is some."""
        room = self._engine.session_bytes - int(lib.pn_session_outgoing_bytes(self._session))
        if self._large.waits or self._engine.output_waits:
            room = 0
        if room <= 0:
            self._engine.wait(self)
        return room

    def _has_room_for_part(self) -> bool:
        """Tell whether the engine takes more of a large message; if not, the link is woken when it does."""
        waiting = int(lib.pn_session_outgoing_bytes(self._session))
        room = waiting < min(PART_BYTES, self._engine.session_bytes) and not self._engine.output_waits
        if not room:
            self._engine.wait(self)
        return room

    def wake(self) -> None:
        """Have the link work in the connection's next turn; nothing happens when there is none any more."""
        if not self._let_go:
            self._engine.wake(self)

    def slice_is_over(self) -> bool:
        """Tell whether the connection's other links and the tasks of the run are to have their turn."""
        return self._engine.slice_is_over()

    def call_after(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call `function` in a turn of the connection after `delay_s` seconds, if the link is still there."""
        if not self._let_go:
            self._engine.call_after(self, delay_s, function)

    @property
    def share(self) -> Share | None:
        """What the links of the connection have in common of the memory of their node."""
        return self._engine.share

    # what the engine calls

    def bind(self, link: Link) -> None:
        """Carry `link`."""
        self.link = link
        self._refused = link.state is State.DETACH_SENT

    def let_go(self) -> None:
        """Forget the link, which has ended, and the connection, so that an end keeps alive nothing but this."""
        if not self._let_go:
            self._let_go = True
            self.link = self.origin = self.room_in_end = None
            self._large.drop()
            self._parts.drop()
            self._count_unfinished(0)
            self._engine.late_bytes -= self._late_bytes
            del self._engine

    def settle_some(self, most: int) -> bool:
        """Settle so many deliveries of an ended link that nobody has settled; tell whether it still has many.

        To free them all at once, with the link, would take long, and all who are in this thread would wait for it.
        """
        if lib.pn_link_unsettled(self.pointer) <= most:
            return False
        has_some = bool(self._sent)
        self._sent.release(most)
        return has_some

    @property
    def peer_container(self) -> str:
        """The peer's name for itself, from its `open`."""
        return self._engine.peer_container

    def remote_attach(self) -> Attach:
        """Return the peer's attach."""
        attach = self._packed_as_told(read_attach(self.pointer))
        if PACK_ITEMS in attach.properties and not self._engine.peer_packs:
            # It does not know what it says: some peers send back what they were sent.
            return replace(attach, properties={})
        return attach

    def receive(self, frame: Frame) -> None:
        """Hand a frame of the peer to the link, and end a link whose peer broke the protocol."""
        link = self.link
        if isinstance(frame, Detach):
            self.heard_detach = True
            self._heard_open_end = not frame.closed
        elif isinstance(frame, Attach):
            self.heard_detach = False  # attached again before it has our answer: the engine has one link for both
        if isinstance(frame, Transfer) and link is not None and link.state is State.DETACH_SENT:
            self._throw_away(frame)
            return
        if link is None or self._ended or (self._refused and isinstance(frame, Transfer)):
            self._receive_late(frame)
            return
        try:
            link.receive(frame)
        except RemoteProtocolError as error:
            self._break(link, error)
        self._engine.wake(self)
        if link.state is State.DETACHED:
            self._engine.end(self)

    def _receive_late(self, frame: Frame) -> None:
        """Throw away what comes for a link that this side has ended or refused; it gets no outcome (2.6.6)."""
        if isinstance(frame, Transfer):
            self._throw_away(frame)
            self._late += len(frame.deliveries)
            if self._late > MAX_LATE and self.credit() < 0:
                text = "it goes on sending, without credit, on a link that has been ended"
                self._engine.misused(Condition.SESSION_ERRANT_LINK.value, text)
        elif isinstance(frame, Detach):
            self._engine.end(self)

    def _throw_away(self, frame: Transfer) -> None:
        """Settle what comes behind this side's detach, but for a little of which the peer need not hear any more.

        The engine keeps the room of what is not settled until the peer has detached, too.
        """
        if frame.settled or frame.more or frame.aborted:
            return
        cost = sum(map(len, frame.payloads)) + OVERHEAD_BYTES * len(frame.deliveries)
        if self._engine.late_bytes + cost <= MAX_LATE_BYTES:
            self._engine.late_bytes += cost
            self._late_bytes += cost
            return
        for delivery in map(as_delivery, frame.deliveries):
            lib.pn_delivery_settle(delivery)

    def _break(self, link: Link, error: RemoteProtocolError) -> None:
        """End a link whose peer broke the protocol."""
        self._send_detach(Detach(condition=error.condition, description=error.description))
        link.lose(Lost(error))

    @property
    def lives(self) -> bool:
        """Whether there is a link that has not ended."""
        return self.link is not None and not self._ended

    @property
    def _ended(self) -> bool:
        return self.link is not None and self.link.state is State.DETACHED

    def work(self, _most: int) -> bool:
        """Let the link do what has become possible; it wakes itself if there is more."""
        link = self.link
        if link is not None:
            self._large.go_on(self._send_next, self._has_room_for_part)
            if self._tells_starved:
                self._tell_starved()
            link.work()
            if link.state is State.DETACHED:
                self._engine.end(self)
            if self._left and self._has_room():
                self._left = False
                self._engine.read_on(self)
            elif self._left:
                self._ask_for_room()
        return False

    def _ask_for_room(self) -> None:
        """Have the link's end let go of what it may, unless that has been in vain."""
        if self.room_in_end is None or self.streams or self.link is None or self.link.state is not State.ATTACHED:
            return
        room = self.room_in_end()
        if room > self._asked_with:
            self._asked_with = room
            self.receive(Flow(self.credit(), starved=True))

    def hand_over(self, most: int) -> bool:
        """Hand what was noted to the link, at most `most` deliveries; tell whether there is more."""
        more = False
        if self.sends:
            self._hand_over_flow()  # first: what the peer gives back with its credit must not come to it again
            self._hand_over_outcomes()
        elif (self.is_windowed or self.streams) and not self._has_room():
            self._left = True
            self._asked_with = -sys.maxsize
            self._ask_for_room()
        elif self._formats and self._refuse_format():
            self.deliveries_noted = 0
            current = lib.pn_link_current(self.pointer)
            more = bool(current) and not lib.pn_delivery_partial(current)
        elif self.streams:
            frame = self._read_part()
            if frame is not None:
                self.receive(frame)
            more = frame is not None and bool(lib.pn_link_current(self.pointer))
        else:
            self._hand_over_deliveries(most)
            current = lib.pn_link_current(self.pointer)
            more = bool(current) and not lib.pn_delivery_partial(current)
            if current:
                more = self._look_at_next(current) or more
        if not more:
            self._hand_over_flow()
        return more

    def _hand_over_flow(self) -> None:
        if self.flow_noted:
            self.flow_noted = False
            drain = self.sends and bool(lib.pn_link_get_drain(self.pointer))
            self.receive(Flow(self.credit(), drain))

    def _hand_over_deliveries(self, most: int) -> None:
        noted, self.deliveries_noted = self.deliveries_noted, 0
        if not lib.pn_link_current(self.pointer):
            self._parts.check()  # the engine may use the same place for the next delivery
            starved, frame = noted > 0, None  # news of what has been read: see `Flow`
        else:
            frame = self._read_joined(most)
            starved = frame is not None and not frame.settled and _is_received(as_delivery(frame.deliveries[-1]))
        if frame is not None:
            self.receive(frame)
        else:
            self._engine.wake(self)  # what was aborted is nothing to hand over, but has used up credit
        if starved:
            self.receive(Flow(self.credit(), starved=True))

    def note_format(self, delivery: Pointer, message_format: int) -> None:
        """The delivery has begun with a message-format that is not 0."""
        self._formats.note(delivery, message_format)

    def _refuse_format(self) -> bool:
        """Refuse the current delivery if nobody here knows its format; tell whether that was so."""
        current = lib.pn_link_current(self.pointer)
        if not current or not self._formats.has(current):
            return False
        lives = self.lives and not self._refused
        text = self._formats.refuse(current, self._engine.peer_frame_bytes, lives=lives)
        if text is not None and self.link is not None:
            self._break(self.link, RemoteProtocolError(FORMAT_CONDITION, text))
            self._engine.end(self)
        self._engine.wake(self)  # it has used up credit
        return True

    def hand_over_all(self) -> None:
        """Hand over everything that was noted: the link's end comes next."""
        self._is_ending = True
        while self.hand_over(1024):
            pass
        self._is_ending = False

    # sending

    def _send_attach(self, frame: Attach) -> None:
        write_attach(self.pointer, self._packed_as_told(frame))
        lib.pn_link_open(self.pointer)
        if self.sends:
            self._engine.outgoing.expect_attach(self)

    def _packed_as_told(self, attach: Attach) -> Attach:
        """Return either side's attach, for packs of no more items than their sender can be told of."""
        items, frame_bytes = attach.properties.get(PACK_ITEMS), self._engine.peer_frame_bytes
        if self.sends or not frame_bytes or not isinstance(items, int):
            return attach
        return replace(attach, properties={**attach.properties, PACK_ITEMS: min(items, told_items(frame_bytes))})

    def _send_flow(self, frame: Flow) -> None:
        pointer = self.pointer
        if self.sends and frame.starved:
            self._tell_starved()
            return
        if self.sends:
            if lib.pn_link_credit(pointer) > 0:
                lib.pn_link_drained(pointer)
            elif lib.pn_link_get_drain(pointer):
                # No credit is left to give back: of that the engine keeps silent. Or less than none, because more was
                # on its way than the receiver had seen: the engine would count back what it has sent.
                self._engine.outgoing.ask(self)
            return
        # Until a delivery is read, all of it or a part, the engine counts it as credit that is still to be used.
        unread, credit = int(lib.pn_link_queued(pointer)), int(lib.pn_link_credit(pointer))
        if frame.credit > 0 and unread > credit:
            return  # the peer has sent more than its credit: the end hears of it when that is read, and grants no more
        self._engine.flush()  # what is settled makes room for the credit, so the peer must hear of it first (law 2)
        lib.pn_link_set_drain(pointer, frame.drain)
        # To withdraw the credit of what is unread would leave less than none, which the peer takes for nearly 2^32.
        lib.pn_link_flow(pointer, max(frame.credit, unread) - credit)

    def _tell_starved(self) -> None:
        """Say that the delivery sent last has been received, once it is on the wire; see `Flow.starved`.

        The peer hears of it by a disposition: of the state in a transfer its engine takes no notice. A peer that is not
        of rstreams might not know what to do with it.
        """
        self._tells_starved = bool(self._sent) and self._engine.peer_packs
        if self._tells_starved:
            self._engine.flush()
            if self.queued() == 0:
                self._tells_starved = False
                lib.pn_delivery_update(self._sent.last, lib.PN_RECEIVED)

    def _send_next(self, frame: Transfer | Flow) -> None:
        """Send what no large message is before."""
        if isinstance(frame, Flow):
            self._send_flow(frame)
        else:
            self.sent_at = self._engine.outputs
            self._send_transfer(frame)

    def _send_transfer(self, frame: Transfer) -> None:
        if frame.more or self._partial is not None:
            self._send_part(frame)
            return
        sent = self._loops.send(self.pointer, frame.deliveries, frame.payloads, settled=frame.settled)
        if not frame.settled:
            self._sent.add(frame.deliveries, sent)

    def _send_part(self, frame: Transfer) -> None:
        """Send a part of a delivery; its last one ends it. One that the peer has settled before is over already."""
        pointer = self.pointer
        if self._partial is None:
            begun = self._loops.begin(pointer, frame.deliveries[0])
            self._partial = as_delivery(begun[0])
            if not frame.settled:
                self._sent.add(frame.deliveries, begun)
        is_current = lib.pn_link_current(pointer) == self._partial
        if is_current and frame.aborted:
            lib.pn_delivery_abort(self._partial)
            self._sent.forget_last(frame.deliveries[0])
        elif is_current:
            (part,) = frame.payloads
            lib.pn_link_send(pointer, part, len(part))
            if not frame.more:
                lib.pn_link_advance(pointer)
                if frame.settled:
                    lib.pn_delivery_settle(self._partial)
        if not frame.more:
            self._partial = None

    def _send_disposition(self, frame: Disposition) -> None:
        outcome = frame.outcome
        if outcome is not ACCEPTED and outcome.kind != "released":
            for delivery in frame.deliveries:
                local = lib.pn_delivery_local(as_delivery(delivery))
                write_outcome(local, outcome, self._engine.peer_frame_bytes)
        if self.streams:  # these are known by their pointers
            for delivery in frame.deliveries:
                lib.pn_delivery_update(delivery, OUTCOME_CODES[outcome.kind])
                lib.pn_delivery_settle(delivery)
        else:
            self._loops.settle(frame.deliveries, OUTCOME_CODES[outcome.kind])

    def _send_detach(self, frame: Detach) -> None:
        pointer = self.pointer
        self._large.drop()
        if frame.condition is not None:
            condition = lib.pn_link_condition(pointer)
            size = self._engine.peer_frame_bytes
            write_condition(condition, frame.condition, frame.description, frame.info, size)
        if frame.closed and not self._heard_open_end:  # 2.6.5: a detach that is not closed is answered by its like
            lib.pn_link_close(pointer)
        else:
            lib.pn_link_detach(pointer)

    # receiving

    def _read(self, most: int) -> Transfer | None:
        """Take up to `most` whole deliveries, all settled or all not, from the engine, and none that is too large."""
        limit = self._engine.max_message_bytes
        if self._formats:
            most = 1  # this one is of a known format; the next may not be
        deliveries, payloads, settled = self._loops.read(self.pointer, most, limit)
        return Transfer(deliveries, payloads, settled) if payloads else None

    def stream(self) -> None:
        """Hand over in parts what comes, before it has come whole; then its size has no limit. Before the attach."""
        self.streams = True
        lib.pn_link_set_max_message_size(self.pointer, 0)

    def _read_part(self) -> Transfer | None:
        """Read what has come of the current delivery, which is over with its last part; None if there is no news."""
        pointer = self.pointer
        delivery = lib.pn_link_current(pointer)
        if not delivery:
            return None
        if lib.pn_delivery_aborted(delivery):
            lib.pn_delivery_settle(delivery)  # advances, too; its end lets go of it without an outcome
            return Transfer([delivery], [b""], aborted=True)
        part, more, settled = take_part(pointer), bool(lib.pn_delivery_partial(delivery)), _is_settled(delivery)
        if more and not part:
            return None
        if not more and settled:
            lib.pn_delivery_settle(delivery)  # advances, too
        elif not more:
            lib.pn_link_advance(pointer)
        return Transfer([delivery], [part], settled, more)

    def _has_room(self) -> bool:
        """Tell whether the link's end takes more; for one that is ending there is no window left to close."""
        if self.room_in_end is None or self._is_ending or self._refused or not self.lives:
            return True
        return self.room_in_end() > self._parts.size

    def _read_joined(self, most: int) -> Transfer | None:
        """Read as `_read` does, and what has come of the next delivery.

        In a session with a window, for it to open again; of a large one everywhere, for the engine's room doubles as it
        grows.
        """
        parts = self._parts
        parts.check()
        limit = self._engine.max_message_bytes
        if parts.size and limit and parts.size + lib.pn_delivery_pending(lib.pn_link_current(self.pointer)) > limit:
            return None  # refused by the caller
        frame = self._read(most)
        if frame is not None and parts.size:
            payloads = list(frame.payloads)
            payloads[0] = parts.join(payloads[0])
            frame = replace(frame, payloads=payloads)
        elif frame is not None:
            parts.drop()
        current = lib.pn_link_current(self.pointer)
        if current and lib.pn_delivery_partial(current) and not self._is_too_large(lib.pn_delivery_pending(current)):
            parts.take_in(whole=self.is_windowed)
            if self._refused or not self.lives:
                parts.drop()  # nobody waits for it
        self._count_unfinished(parts.cost)
        return frame

    def _count_unfinished(self, size: int) -> None:
        if self._counted != size and self._engine.unfinished is not None:
            self._counted = size
            self._engine.unfinished.count(self.end_unfinished, size)

    def end_unfinished(self, why: str) -> None:
        """Have the link ended because of its message that has not come whole; any task of the run may call this."""
        self._counted = 0
        self._too_much = why
        self._engine.read_on(self)

    def _look_at_next(self, current: Pointer) -> bool:
        """Refuse the delivery that was not read if it must not come any further; tell whether there is more to read."""
        if self._is_too_large(self._parts.size + lib.pn_delivery_pending(current)):
            return self._refuse_message(current)
        if self._too_much:
            why, self._too_much = self._too_much, ""
            self._parts.take_in(whole=True)  # and so the session's window opens again
            self._parts.drop()
            if self.lives and not self._refused:
                self._end_link(Condition.RESOURCE_LIMIT_EXCEEDED, why)
        return False

    def _is_too_large(self, size: int) -> bool:
        return 0 < self._engine.max_message_bytes < size

    def _refuse_message(self, delivery: Pointer) -> bool:
        """End the link because of a message that is too large, whole or not; the engine keeps none of it (2.7.3)."""
        text = f"the peer sent a message of more than max_message_bytes={self._engine.max_message_bytes}"
        condition = Condition.LINK_MESSAGE_SIZE_EXCEEDED
        self._parts.drop()
        self._count_unfinished(0)
        if self.lives:  # rejected: what was merely given back would only come again
            outcome = Outcome("rejected", condition.value, text)
            write_outcome(lib.pn_delivery_local(delivery), outcome, self._engine.peer_frame_bytes)
            lib.pn_delivery_update(delivery, lib.PN_REJECTED)
        lib.pn_delivery_settle(delivery)  # the engine throws away what there is, and what is still to come of it
        self._end_link(condition, text, "connect() may allow more, and streamed_messages() takes messages of any size")
        return bool(lib.pn_link_current(self.pointer))

    def _end_link(self, condition: Condition, text: str, advice: str = "") -> None:
        """End the link because of what its peer sends, unless it has ended."""
        link = self.link
        if link is None or self._ended:
            return
        self._send_detach(Detach(condition=condition.value, description=text))
        told = f"{link.place}: {text}; {advice}" if link.place and advice else f"link {link.name!r}: {text}"
        link.lose(Lost(RemoteProtocolError(condition.value, told)))
        self._engine.wake(self)
        self._engine.end(self)

    def _hand_over_outcomes(self) -> None:
        noted, self.deliveries_noted = self.deliveries_noted, 0
        for frame in self._sent.take_decided(noted, self._engine.peer_frame_bytes):
            self.receive(frame)


def _is_received(delivery: Pointer) -> bool:
    return bool(lib.pn_delivery_remote_state(delivery) == lib.PN_RECEIVED)


def _is_settled(delivery: Pointer) -> bool:
    return bool(lib.pn_delivery_settled(delivery))
