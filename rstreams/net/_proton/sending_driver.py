"""The driver of a link on which this side sends."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from cproton_ffi import ffi, lib

from rstreams._codec.encode import body_head
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.large_messages import PART_BYTES, LargeMessages
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.loops import as_delivery
from rstreams.net._proton.outgoing_frames import SenderNumbers
from rstreams.net._proton.outgoing_parts import PLACEHOLDER_BYTES
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sent_deliveries import SentDeliveries
from rstreams.net._proton.session_windows import window_of
from rstreams.protocol.frames import Attach, Detach, Flow, Frame, Transfer

_HEAD_BYTES: Final = 128
"""More than the head of a transfer takes."""

_PARTS_OF_ROOM: Final = 4
"""A link waits until this part of a session's room is free: it would send a few items each time."""

_MIN_FRAME_BYTES: Final = 4096
"""A peer that takes only smaller frames gets no parts beside the engine: there would be many."""


class SendingDriver(LinkDriver):
    """Carries a link of a sender of this side.

    Attributes:
        numbers: The numbers of the link that the engine does not tell.
        drain_asked: Whether the peer has sent a drain that has no answer yet. The engine tells of a flow also when a
            delivery has gone out, and its drain flag stays set behind the answer.
    """

    sends = True

    def __init__(self, host: HostConnection, pointer: Pointer) -> None:
        """Drive the engine's link at `pointer`."""
        super().__init__(host, pointer)
        self.numbers = SenderNumbers()
        self.drain_asked = False
        self._sent = SentDeliveries(host.loops)
        host.unsent.add(pointer, self._session)
        self._large = LargeMessages()
        self._partial: Pointer | None = None  # the delivery being sent in parts
        self._beside: tuple[Transfer, memoryview, bytes] | None = None  # a part of it, what is left, what comes before
        self._share_of = self._share_taken = 0  # an output's number, and the bytes of this link beside the engine in it
        self._known_credit = 0  # the credit that the end has heard of, less what was sent since
        self._has_unsent = False  # some of its deliveries are never sent
        self._tells_starved = False  # when all sent deliveries are on the wire
        self._tells_drained = False  # likewise

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if not isinstance(frame, Transfer | Flow):
            super().send(frame)
        elif self._large.take(frame, self._frame_bytes):
            self._large.go_on(self._send_next, self._has_room_for_part)
        else:
            self._send_next(frame)

    def send_ahead(self, tag: int, message: bytes, *, settled: bool) -> bool:
        """See `Driver`: the message fits one frame, and none of the link waits for the session's window."""
        host, pointer = self._host, self.pointer
        ahead = host.ahead
        if ahead is None or len(message) > self._frame_bytes or self._large.waits or self._partial is not None:
            return False
        if lib.pn_link_credit(pointer) <= 1 or lib.pn_link_queued(pointer) or not ahead.begin_ahead():
            return False
        self.sent_at = host.outputs
        tags = range(tag, tag + 1)
        most_beside = 0 if host.is_traced else self._frame_bytes
        try:
            sent = self._loops.send(pointer, tags, [message], settled=settled, most_beside=most_beside)
            self._known_credit -= 1
            if not settled:
                self._sent.add(tags, sent)
        finally:  # also without memory for it: otherwise the connection would stand still
            ahead.end_ahead()
        return True

    def credit(self) -> int:
        """See `LinkDriver`."""
        credit = int(lib.pn_link_credit(self.pointer)) - self._large.deliveries
        return credit if self._beside is None else credit - self._unfinished

    def queued(self) -> int:
        """See `LinkDriver`."""
        queued = int(lib.pn_link_queued(self.pointer)) + self._large.deliveries + self._unfinished
        if queued:
            self._host.turns.wait(self)
        return queued

    def room_bytes(self) -> int:
        """See `LinkDriver`."""
        host = self._host
        if self._large.waits:
            host.turns.wait(self)
            return 0
        room = self._room()
        if not room:
            host.turns.wait_for_room(self, self._session)
        return room

    def has_room(self) -> bool:
        """See `TakesTurns`."""
        return self._room() > 0

    def is_shut(self, *, used_up: bool = False) -> bool:
        """See `Driver`."""
        shut = self._host.shut
        if shut and self._session in shut:
            return True
        return used_up and self.queued() > 0 and window_of(self._session) == 0

    def _room(self) -> int:
        """Return how many bytes the session takes; 0 if there is so little room that a run of items would be short."""
        host = self._host
        if host.output_waits or (host.shut and self._session in host.shut):
            return 0
        room = host.session_bytes - host.unsent.of(self._session)
        return room if room * _PARTS_OF_ROOM >= host.session_bytes else 0

    @property
    def _unfinished(self) -> bool:
        """Whether the last part of a delivery has not gone beside the engine yet."""
        return self._beside is not None and not self._beside[0].more

    @cached_property
    def _frame_bytes(self) -> int:
        """The most bytes of a large message in one frame beside the engine; 0: they go through the engine.

        It is asked for when something is sent. The peer has then told its largest frame, which does not change.
        """
        frame_bytes = self._host.peer_frame_bytes
        if 0 < frame_bytes < _MIN_FRAME_BYTES:
            return 0
        return min(frame_bytes or PART_BYTES, PART_BYTES) - _HEAD_BYTES

    def _has_room_for_part(self) -> bool:
        """Tell whether there is room for more of a large message; if not, the link is woken when there is."""
        host = self._host
        if self._beside is not None:
            room = self._send_beside(*self._beside)
        else:
            waiting = host.unsent.of(self._session)
            room = waiting < min(PART_BYTES, host.session_bytes) and not host.output_waits
        if not room:
            host.turns.wait(self)
        return room

    def _send_beside(self, frame: Transfer, part: memoryview, head: bytes) -> bool:
        """Send what there is room for of a part, in frames beside the engine; tell whether that was all of it."""
        host, pointer = self._host, self.pointer
        host.flush()  # a frame must have no other bytes than those that it has room for
        at, end = 0, len(part)
        if lib.pn_link_current(pointer) != self._partial:
            at = end
        elif room := self._room_beside():
            add, send, write = host.outgoing.parts.add, lib.pn_link_send, host.outgoing.flush
            waiting, session = lib.pn_session_outgoing_bytes, self._session
            never_sent = waiting(session)
            while at < end and at < room and waiting(session) == never_sent:
                size = self._frame_bytes - len(head)  # so that all frames but the last have the same size
                if head:
                    send(pointer, head, len(head))
                    head = b""
                send(pointer, add(pointer, part[at : at + size]), PLACEHOLDER_BYTES)
                at += size
                if at >= end and not frame.more:
                    self._end_part(frame)
                write()
            self._share_taken += at
            self.sent_at = host.outputs
        if at < end:
            self._beside = frame, part[at:], head
            return False
        self._beside = None
        if not frame.more:
            self._partial = None
        return True

    def _room_beside(self) -> int:
        """Return how many bytes of a part may go beside the engine now; the frame in which they end may go whole."""
        host, outgoing = self._host, self._host.outgoing
        if host.output_waits or not outgoing.takes_parts or host.unsent.of(self._session):
            return 0
        if self._share_of != host.outputs:
            self._share_of, self._share_taken = host.outputs, 0
        room = host.parts_bytes - outgoing.parts.size
        return max(0, room if host.turns.is_alone(self) else min(room, PART_BYTES - self._share_taken))

    def _end_part(self, frame: Transfer) -> None:
        lib.pn_link_advance(self.pointer)
        self._known_credit -= 1
        if frame.settled:
            lib.pn_delivery_settle(self._partial)

    # its life

    def settle_some(self, most: int) -> bool:
        """See `LinkDriver`."""
        self._has_unsent = self._has_unsent or lib.pn_link_queued(self.pointer) > 0
        if lib.pn_session_outgoing_bytes(self._session):
            self._sent.take_back(most)
        if lib.pn_link_unsettled(self.pointer) <= most:
            return False
        has_some = bool(self._sent)
        self._sent.release(most)
        return has_some

    def _forget(self) -> None:
        if self._has_unsent or lib.pn_link_queued(self.pointer):
            self._loops.forget(self.pointer)
        self._host.unsent.remove(self.pointer, self._session)
        self._large.drop()
        self._beside = None

    # turns

    def work(self) -> None:
        """See `LinkDriver`."""
        if self.link is not None:
            if self._large.waits:
                self._large.go_on(self._send_next, self._has_room_for_part)
            if self._tells_starved:
                self._tell_starved()
            if self._tells_drained:
                self._tell_drained()
            super().work()

    def flow_is_news(self) -> bool:
        """See `LinkDriver`: the engine also notes a flow when deliveries have gone out."""
        pointer = self.pointer
        return bool(lib.pn_link_credit(pointer) != self._known_credit or lib.pn_link_get_drain(pointer))

    def hand_over(self, most: int) -> bool:  # noqa: ARG002 - of a receiver's deliveries
        """See `LinkDriver`: flow and outcomes have news."""
        if self.flow_noted:  # first: a delivery that the peer gives back as it withdraws credit must not be sent again
            self.flow_noted = False
            self._known_credit = int(lib.pn_link_credit(self.pointer))
            self.receive(Flow(self.credit(), self.drain_asked and bool(lib.pn_link_get_drain(self.pointer))))
        noted, self.deliveries_noted = self.deliveries_noted, 0
        for frame in self._sent.take_decided(noted, self._host.peer_frame_bytes):
            self.receive(frame)
        return False

    # sending

    def _send_attach(self, frame: Attach) -> None:
        super()._send_attach(frame)
        self._host.outgoing.expect_attach(self.pointer, self.numbers)

    def _send_detach(self, frame: Detach) -> None:
        self._large.drop()
        self._beside = None
        super()._send_detach(frame)

    def _send_next(self, frame: Transfer | Flow) -> None:
        """Send a frame that does not wait behind a large message."""
        if isinstance(frame, Flow):
            self._send_flow(frame)
        else:
            self.sent_at = self._host.outputs
            self._send_transfer(frame)

    def _send_flow(self, frame: Flow) -> None:
        if frame.starved:
            self._tell_starved()
            return
        self.drain_asked = False
        self._tell_drained()

    def _tell_drained(self) -> None:
        """Give credit back, once all deliveries are on the wire: until then the receiver may take their credit back.

        The engine counts what is given back at once, and could not tell it from what the receiver takes.
        """
        self._tells_drained = False
        if lib.pn_link_credit(self.pointer) > 0:
            if lib.pn_link_queued(self.pointer):
                self._host.flush()
            if self.queued():
                self._tells_drained = True
                return
            lib.pn_link_drained(self.pointer)
            self._known_credit = int(lib.pn_link_credit(self.pointer))
        elif lib.pn_link_get_drain(self.pointer):
            # No credit is left to give back; then the engine does not answer. Or the credit is below 0, because
            # deliveries wait in the engine for which the receiver has taken the credit back.
            self.tell_state()

    def tell_state(self) -> None:
        """See `LinkDriver`."""
        self._host.outgoing.ask(self.pointer, self.numbers)

    def _tell_starved(self) -> None:
        """Say that the delivery sent last has been received, once it is on the wire; see `Flow.starved`.

        The peer hears of it by a disposition: its engine takes no notice of the state in a transfer. A peer that is not
        of rstreams might not know what to do with it.
        """
        self._tells_starved = bool(self._sent) and self._host.peer_packs
        if self._tells_starved:
            self._host.flush()
            if self.queued() == 0:
                self._tells_starved = False
                lib.pn_delivery_update(self._sent.last, lib.PN_RECEIVED)

    def _send_transfer(self, frame: Transfer) -> None:
        if frame.more or self._partial is not None or isinstance(frame.payloads[0], memoryview):
            self._send_part(frame)
            return
        sent = self._loops.send(
            self.pointer,
            frame.deliveries,
            frame.payloads,
            settled=frame.settled,
            are_bodies=frame.are_bodies,
            most_beside=0 if self._host.is_traced else self._frame_bytes,
        )
        self._known_credit -= len(frame.payloads)
        if not frame.settled:
            self._sent.add(frame.deliveries, sent)

    def _send_part(self, frame: Transfer) -> None:
        """Send a part of a delivery; the last part ends it. Nothing is sent if the peer has settled it before."""
        pointer = self.pointer
        if self._partial is None:
            begun = self._loops.begin(pointer, frame.deliveries[0])
            self._partial = as_delivery(begun[0])
            if not frame.settled:
                self._sent.add(frame.deliveries, begun)
        is_current = lib.pn_link_current(pointer) == self._partial
        if is_current and frame.aborted:
            lib.pn_delivery_abort(self._partial)
            self._known_credit = int(lib.pn_link_credit(pointer))
            self._sent.forget_last(frame.deliveries[0])
        elif is_current:
            (part,) = frame.payloads
            if isinstance(part, memoryview) and self._frame_bytes:
                self._beside = frame, part, body_head(len(part)) if frame.are_bodies else b""
                return  # goes on when there is room
            lib.pn_link_send(pointer, ffi.from_buffer(part), len(part))
            if not frame.more:
                self._end_part(frame)
        if not frame.more:
            self._partial = None
