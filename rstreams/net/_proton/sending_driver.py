"""The driver of a link on which this side sends."""

from __future__ import annotations

from cproton_ffi import lib

from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.large_messages import PART_BYTES, LargeMessages
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.loops import as_delivery
from rstreams.net._proton.outgoing_frames import SenderNumbers
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sent_deliveries import SentDeliveries
from rstreams.protocol.frames import Attach, Detach, Flow, Frame, Transfer


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
        self._large = LargeMessages()
        self._partial: Pointer | None = None  # the delivery being sent in parts
        self._tells_starved = False  # when all sent deliveries are on the wire

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if not isinstance(frame, Transfer | Flow):
            super().send(frame)
        elif self._large.take(frame):
            self._large.go_on(self._send_next, self._has_room_for_part)
        else:
            self._send_next(frame)

    def credit(self) -> int:
        """See `LinkDriver`."""
        return int(lib.pn_link_credit(self.pointer)) - self._large.deliveries

    def queued(self) -> int:
        """See `LinkDriver`."""
        queued = int(lib.pn_link_queued(self.pointer)) + self._large.deliveries
        if queued:
            self._host.turns.wait(self)
        return queued

    def room_bytes(self) -> int:
        """See `LinkDriver`."""
        host = self._host
        room = host.session_bytes - int(lib.pn_session_outgoing_bytes(self._session))
        if self._large.waits or host.output_waits:
            room = 0
        if room <= 0:
            host.turns.wait(self)
        return room

    def _has_room_for_part(self) -> bool:
        """Tell whether the engine takes more of a large message; if not, the link is woken when it can."""
        host = self._host
        waiting = int(lib.pn_session_outgoing_bytes(self._session))
        room = waiting < min(PART_BYTES, host.session_bytes) and not host.output_waits
        if not room:
            host.turns.wait(self)
        return room

    # its life

    def settle_some(self, most: int) -> bool:
        """See `LinkDriver`."""
        if lib.pn_link_unsettled(self.pointer) <= most:
            return False
        has_some = bool(self._sent)
        self._sent.release(most)
        return has_some

    def _forget(self) -> None:
        self._large.drop()

    # turns

    def work(self) -> None:
        """See `LinkDriver`."""
        if self.link is not None:
            self._large.go_on(self._send_next, self._has_room_for_part)
            if self._tells_starved:
                self._tell_starved()
            super().work()

    def hand_over(self, most: int) -> bool:  # noqa: ARG002 - of a receiver's deliveries
        """See `LinkDriver`: flow and outcomes have news."""
        if self.flow_noted:  # first: a delivery that the peer gives back as it withdraws credit must not be sent again
            self.flow_noted = False
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
        if lib.pn_link_credit(self.pointer) > 0:
            lib.pn_link_drained(self.pointer)
        elif lib.pn_link_get_drain(self.pointer):
            # No credit is left to give back; then the engine does not answer. Or the credit is below 0, because the
            # receiver had not seen all sent deliveries; then the engine would count back deliveries it has sent.
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
        if frame.more or self._partial is not None:
            self._send_part(frame)
            return
        sent = self._loops.send(self.pointer, frame.deliveries, frame.payloads, settled=frame.settled)
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
