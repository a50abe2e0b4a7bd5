"""The driver of a link on which this side sends."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import cached_property
from typing import Final

from cproton_ffi import ffi, lib

from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.loops import address_of, as_delivery
from rstreams.net._proton.outgoing_frames import SenderNumbers
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sent_deliveries import SentDeliveries
from rstreams.net._proton.session_windows import window_of
from rstreams.protocol.frames import Attach, Detach, Flow, Frame, Transfer

PART_BYTES: Final = 128 * 1024
"""The largest frame, and the bytes of large messages of a link in one output, if other links want to send, too."""

_HEAD_BYTES: Final = 128
"""More than the head of a transfer takes."""

_PARTS_OF_ROOM: Final = 4
"""A link waits until this part of a session's room is free: it would send a few items each time."""


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
        self._session_address = address_of(self._session)
        self._sent = SentDeliveries(host.loops)
        self._waiting: deque[Transfer | Flow] = deque()  # a message in parts for which there is no room, and all behind
        self._at = 0  # how many bytes of its first payload have been sent
        self._partial: Pointer | None = None  # the delivery being sent in parts; NULL: it was settled before its end
        self._share_of = self._share_taken = 0  # an output's number, and the bytes of parts of this link in it
        self._known_credit = 0  # the credit that the end has heard of, less what was sent since
        self._has_unsent = False  # some of its deliveries are never sent
        self._tells_starved = False  # when all sent deliveries are on the wire
        self._tells_drained = False  # likewise

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if not isinstance(frame, Transfer | Flow):
            super().send(frame)
        else:
            left = frame if self._waiting else self._send_next(frame)
            if left is not None:
                self._waiting.append(left)

    def send_ahead(self, tag: int, message: bytes, *, settled: bool) -> bool:
        """See `Driver`: the message fits one frame, and none of the link waits for the session's window."""
        host, pointer = self._host, self.pointer
        if len(message) > self._frame_bytes or self._partial is not None:
            return False
        if lib.pn_link_credit(pointer) <= 1 or lib.pn_link_queued(pointer) or not host.owner.begin_ahead():
            return False
        self.sent_at = host.outputs
        self._sent.at_s = host.turns.at_s
        tags = range(tag, tag + 1)
        try:
            sent = self._loops.send(self.address, tags, [message], settled, False, self._frame_bytes)  # noqa: FBT003 - C's
            self._known_credit -= 1
            if not settled:
                self._sent.add(tags, sent)
        finally:  # also without memory for it: otherwise the connection would stand still
            host.owner.end_ahead()
        return True

    def credit(self) -> int:
        """See `Driver`."""
        credit = int(lib.pn_link_credit(self.pointer))
        return credit - _deliveries_in(self._waiting) if self._waiting else credit

    def queued(self) -> int:
        """See `Driver`."""
        queued = int(lib.pn_link_queued(self.pointer))
        if self._waiting:
            queued += _deliveries_in(self._waiting)
        if queued:
            self._host.turns.wait(self)
        return queued

    def room_bytes(self) -> int:
        """See `Driver`."""
        host = self._host
        if self._waiting:
            host.turns.wait(self)
            return 0
        room = self.room()
        if not room:
            host.turns.wait_for_room(self, self._session)
        return room

    def sent_at_s(self) -> float:
        """See `Driver`."""
        return self._sent.at_s

    def is_shut(self, *, used_up: bool = False) -> bool:
        """See `Driver`."""
        shut = self._host.shut
        if shut and self._session in shut:
            return True
        return used_up and self.queued() > 0 and window_of(self._session) == 0

    def room(self) -> int:
        """See `TakesTurns`: 0 also if there is so little room that a run of items would be short."""
        host = self._host
        if host.output_waits or (host.shut and self._session in host.shut):
            return 0
        room = host.session_bytes - int(self._loops.waiting(self._session_address))
        return room if room * _PARTS_OF_ROOM >= host.session_bytes else 0

    @cached_property
    def _frame_bytes(self) -> int:
        """The most bytes of a message in one frame.

        It is asked for when something is sent. The peer has then told its largest frame, which does not change.
        """
        return min(self._host.peer_frame_bytes or PART_BYTES, PART_BYTES) - _HEAD_BYTES

    def _room_for_parts(self) -> int:
        """Return how many bytes of parts may go now; the frame in which they end may go whole."""
        host = self._host
        if self._share_of != host.outputs:
            self._share_of, self._share_taken = host.outputs, 0
        room = host.outgoing.large_bytes + host.held_parts_bytes - int(self._loops.part_bytes())
        if not host.turns.is_alone(self):
            room = min(room, PART_BYTES - self._share_taken)
        return 0 if host.output_waits else max(0, room)

    # its life

    def settle_some(self, most: int) -> bool:
        """See `LinkDriver`."""
        self._has_unsent = self._has_unsent or lib.pn_link_queued(self.pointer) > 0
        if lib.pn_link_unsettled(self.pointer) <= most:
            return False
        has_some = bool(self._sent)
        if self._partial:
            self._forget_part()
        self._sent.release(most)
        return has_some

    def _forget(self) -> None:
        if self._has_unsent or lib.pn_link_queued(self.pointer):
            self._loops.forget(self.address)
        if self._partial:
            self._forget_part()
        self._waiting.clear()

    def _forget_part(self) -> None:
        """Forget what waits of the delivery in parts, before its address may be that of another one."""
        self._loops.forget(address_of(self._partial))
        self._partial = ffi.NULL

    # turns

    def work(self) -> None:
        """See `LinkDriver`."""
        if self.link is not None:
            while self._waiting:
                left = self._send_next(self._waiting[0])
                if left is not None:
                    self._waiting[0] = left
                    break  # it is woken when there is room
                self._waiting.popleft()
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
        for frame in self._sent.take_decided(noted, self._host):
            if self._partial and lib.pn_link_current(self.pointer) != self._partial:
                self._forget_part()
            self.receive(frame)
        return False

    # sending

    def _send_attach(self, frame: Attach) -> None:
        super()._send_attach(frame)
        self._host.outgoing.expect_attach(self.pointer, self.numbers)

    def _send_detach(self, frame: Detach) -> None:
        self._waiting.clear()
        super()._send_detach(frame)

    def _send_next(self, frame: Transfer | Flow) -> Transfer | None:
        """Send a frame that has none before it; return what is left of it because there was no room."""
        if isinstance(frame, Transfer):
            return self._send_transfer(frame)
        if frame.starved:
            self._tell_starved()
        else:
            self.drain_asked = False
            self._tell_drained()
        return None

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

    def _send_transfer(self, frame: Transfer) -> Transfer | None:
        self.sent_at, self._sent.at_s = self._host.outputs, self._host.turns.at_s
        while True:
            if self._partial is not None or frame.more or frame.aborted:
                count = 1 if self._send_part(frame) else 0
            else:
                count = self._send_whole(frame) or (1 if self._send_part(frame) else 0)
            if count == len(frame.payloads):
                return None
            if count:
                frame = replace(frame, deliveries=frame.deliveries[count:], payloads=frame.payloads[count:])
            if self._partial is not None:
                return frame

    def _send_whole(self, frame: Transfer) -> int:
        """Send the first messages, up to one that does not fit into a frame; return how many."""
        sent = self._loops.send(
            self.address, frame.deliveries, frame.payloads, frame.settled, frame.are_bodies, self._frame_bytes
        )
        count = len(sent)
        self._known_credit -= count
        if count and not frame.settled:
            self._sent.add(frame.deliveries if count == len(frame.payloads) else frame.deliveries[:count], sent)
        return count

    def _send_part(self, frame: Transfer) -> bool:
        """Send what there is room for of the first payload, a delivery or a part of one; tell whether all of it went.

        Nothing is sent if the peer has settled the delivery before.
        """
        pointer, part, more = self.pointer, frame.payloads[0], frame.more
        if self._partial is None:
            begun = self._loops.begin(self.address, frame.deliveries[0])
            self._partial = as_delivery(begun[0])
            if not frame.settled:
                self._sent.add(frame.deliveries[:1], begun)
        is_current = bool(self._partial) and lib.pn_link_current(pointer) == self._partial
        if is_current and frame.aborted:
            self._loops.forget(address_of(self._partial))
            lib.pn_delivery_abort(self._partial)
            self._known_credit = int(lib.pn_link_credit(pointer))
            self._sent.forget_last(frame.deliveries[0])
        elif is_current:
            room, at = self._room_for_parts(), self._at
            if room:
                self._at = self._loops.send_part(
                    self.address, part, at, frame.are_bodies, more, frame.settled, self._frame_bytes, room
                )
            if not room or self._at >= 0:
                self._share_taken += self._at - at
                self._host.turns.wait(self)
                return False
            self._share_taken += len(part) - at
            self._known_credit -= not more
        self._at = 0
        if not more:
            self._partial = None
        return True


def _deliveries_in(waiting: deque[Transfer | Flow]) -> int:
    """Return how many deliveries the engine does not have, or not the whole of."""
    frames = (each for each in waiting if isinstance(each, Transfer) and not each.more)
    return sum(len(each.deliveries) for each in frames)
