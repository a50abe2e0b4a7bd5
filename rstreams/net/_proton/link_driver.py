"""The driver that carries one protocol link on the engine.

A pointer into the engine is used as what it is: the link's is the key of its driver, a delivery's is the receiver's
handle for it. A delivery's pointer is dead once it is settled, and no delivery is settled after its link has ended.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Hashable
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cproton_ffi import ffi, lib

from rstreams.errors import Condition, RemoteProtocolError
from rstreams.net._proton.attach import read_attach, write_attach
from rstreams.net._proton.conditions import read_condition, write_condition
from rstreams.net._proton.data import read_map, write_map
from rstreams.protocol.delivery import ACCEPTED, RELEASED, Outcome
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
from rstreams.protocol.states import State

if TYPE_CHECKING:
    from rstreams.net._proton.engine import Engine

Pointer: TypeAlias = Any  # a cffi pointer into the engine

BUFFER_BYTES: Final = 512 * 1024
"""What may wait in a session before its senders hold back, and the most that goes out at once."""

MAX_LATE: Final = 4096
"""Deliveries without credit that a link may get after its end before its peer counts as one that means harm."""

_OUTCOME_CODES: Final = {
    "accepted": lib.PN_ACCEPTED,
    "rejected": lib.PN_REJECTED,
    "released": lib.PN_RELEASED,
    "modified": lib.PN_MODIFIED,
}
_put_tag: Final = struct.Struct(">I").pack_into


class LinkDriver:
    """Carries one link: a `rstreams.protocol.driver.Driver` on the engine.

    Context: Only the task that owns the connection, but for `wake`, which any task of its run may call.
    """

    def __init__(self, engine: Engine, pointer: Pointer) -> None:
        """Drive the engine's link at `pointer`."""
        self.pointer = pointer
        self.link: Link | None = None
        self._refused = False
        self._late = 0  # deliveries that came after this side had ended the link
        self.sends = bool(lib.pn_link_is_sender(pointer))
        self.flow_noted = False
        self._engine = engine
        self._session = lib.pn_link_session(pointer)
        # As a sender: the deliveries not settled yet, in the order they were sent.
        self._sent: deque[tuple[Hashable, Pointer]] = deque()
        self.outcomes_noted = 0
        self._tag_bytes = ffi.new("char[]", 4)
        self._tag = ffi.new("pn_bytes_t *", {"size": 4, "start": self._tag_bytes})[0]
        # As a receiver: where a message is copied to on its way from the engine.
        self._too_large = False  # the message at hand is larger than allowed
        # The buffer never has room for more than a message of the largest size allowed, so what is larger does not fit.
        self._buffer_bytes = min(4096, engine.max_message_bytes + 1 if engine.max_message_bytes else 4096)
        self._buffer = ffi.new("char[]", self._buffer_bytes)

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if isinstance(frame, Transfer):
            self._send_transfer(frame)
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
        return int(lib.pn_link_credit(self.pointer))

    def queued(self) -> int:
        """Return the deliveries not on the wire yet; a sender that is told some is woken when they have gone."""
        queued = int(lib.pn_link_queued(self.pointer))
        if queued:
            self._engine.wait(self)
        return queued

    def room_bytes(self) -> int:
        """Return what the session takes before it is full; a sender that is told none is woken when there is some."""
        room = BUFFER_BYTES - int(lib.pn_session_outgoing_bytes(self._session))
        if room <= 0:
            self._engine.wait(self)
        return room

    def wake(self) -> None:
        """Have the link work in the connection's next turn."""
        self._engine.wake(self)

    # what the engine calls

    def bind(self, link: Link) -> None:
        """Carry `link`."""
        self.link = link
        self._refused = link.state is State.DETACH_SENT

    def remote_attach(self) -> Attach:
        """Return the peer's attach."""
        return read_attach(self.pointer)

    def receive(self, frame: Frame) -> None:
        """Hand a frame of the peer to the link, and end a link whose peer broke the protocol."""
        link = self.link
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
            self._late += len(frame.deliveries)
            if self._late > MAX_LATE and self.credit() < 0:
                text = "it goes on sending, without credit, on a link that has been ended"
                self._engine.misused(Condition.SESSION_ERRANT_LINK.value, text)
        elif isinstance(frame, Detach):
            self._engine.end(self)

    def _break(self, link: Link, error: RemoteProtocolError) -> None:
        """End a link whose peer broke the protocol."""
        self._send_detach(Detach(condition=error.condition, description=error.description))
        link.lose(Lost(error))

    @property
    def _ended(self) -> bool:
        return self.link is not None and self.link.state is State.DETACHED

    def work(self, _most: int) -> bool:
        """Let the link do what has become possible; it wakes itself if there is more."""
        link = self.link
        if link is not None:
            link.work()
            if link.state is State.DETACHED:
                self._engine.end(self)
        return False

    def hand_over(self, most: int) -> bool:
        """Hand what was noted to the link, at most `most` deliveries; tell whether there is more."""
        more = False
        if self.sends:
            self._hand_over_outcomes()
        else:
            frame = self._read(most)
            if frame is not None:
                self.receive(frame)
            current = lib.pn_link_current(self.pointer)
            more = bool(current) and not lib.pn_delivery_partial(current)
            if self._too_large or (current and not more and self._is_too_large(lib.pn_delivery_pending(current))):
                more = self._refuse_message(current)
        if self.flow_noted and not more:
            self.flow_noted = False
            drain = self.sends and bool(lib.pn_link_get_drain(self.pointer))
            self.receive(Flow(self.credit(), drain))
        return more

    def hand_over_all(self) -> None:
        """Hand over everything that was noted: the link's end comes next."""
        while self.hand_over(1024):
            pass

    # sending

    def _send_attach(self, frame: Attach) -> None:
        write_attach(self.pointer, frame)
        lib.pn_link_open(self.pointer)

    def _send_flow(self, frame: Flow) -> None:
        pointer = self.pointer
        if self.sends:
            lib.pn_link_drained(pointer)
            return
        self._engine.flush()  # what is settled makes room for the credit, so the peer must hear of it first (law 2)
        lib.pn_link_set_drain(pointer, frame.drain)
        lib.pn_link_flow(pointer, frame.credit - lib.pn_link_credit(pointer))

    def _send_transfer(self, frame: Transfer) -> None:
        pointer, tag, tag_bytes, note = self.pointer, self._tag, self._tag_bytes, self._sent.append
        new, send, advance, settle = lib.pn_delivery, lib.pn_link_send, lib.pn_link_advance, lib.pn_delivery_settle
        raw_tag = ffi.buffer(tag_bytes)
        settled = frame.settled
        for number, payload in zip(frame.deliveries, frame.payloads, strict=True):
            _put_tag(raw_tag, 0, number & 0xFFFFFFFF)  # type: ignore[operator]
            delivery = new(pointer, tag)
            send(pointer, payload, len(payload))
            advance(pointer)
            if settled:
                settle(delivery)
            else:
                note((number, delivery))

    def _send_disposition(self, frame: Disposition) -> None:
        update, settle = lib.pn_delivery_update, lib.pn_delivery_settle
        outcome = frame.outcome
        code = _OUTCOME_CODES[outcome.kind]
        plain = outcome is ACCEPTED or outcome.kind == "released"
        for delivery in frame.deliveries:
            if not plain:
                _write_outcome(lib.pn_delivery_local(delivery), outcome, self._engine.peer_frame_bytes)
            update(delivery, code)
            settle(delivery)

    def _send_detach(self, frame: Detach) -> None:
        pointer = self.pointer
        if frame.condition is not None:
            condition = lib.pn_link_condition(pointer)
            size = self._engine.peer_frame_bytes
            write_condition(condition, frame.condition, frame.description, frame.info, size)
        if frame.closed:
            lib.pn_link_close(pointer)
        else:
            lib.pn_link_detach(pointer)

    # receiving

    def _read(self, most: int) -> Transfer | None:
        """Take up to `most` whole deliveries, all settled or all not, from the engine."""
        pointer, unpack, buffer, room = self.pointer, ffi.unpack, self._buffer, self._buffer_bytes
        current, partial, settled = lib.pn_link_current, lib.pn_delivery_partial, lib.pn_delivery_settled
        recv, advance = lib.pn_link_recv, lib.pn_link_advance
        deliveries: list[Pointer] = []
        payloads: list[bytes] = []
        run_settled = False
        while len(payloads) < most:
            delivery = current(pointer)
            if not delivery or partial(delivery):
                break
            if settled(delivery) is not run_settled:
                if payloads:
                    break
                run_settled = not run_settled
            size = recv(pointer, buffer, room)
            if 0 <= size < room:
                payloads.append(unpack(buffer, size))
            elif lib.pn_delivery_aborted(delivery):
                lib.pn_delivery_settle(delivery)  # advances, too
                continue
            else:
                if self._is_too_large(size + lib.pn_delivery_pending(delivery)):
                    self._too_large = True
                    break
                payloads.append(self._read_rest(size))
                buffer, room = self._buffer, self._buffer_bytes
            if run_settled:
                lib.pn_delivery_settle(delivery)  # advances, too
            else:
                advance(pointer)
            deliveries.append(delivery)
        if not payloads:
            return None
        return Transfer(deliveries, payloads, run_settled)

    def _read_rest(self, size: int) -> bytes:
        """Return a message that was empty, or filled the buffer; let the buffer grow to its size."""
        if size < 0:
            return b""
        parts = [ffi.unpack(self._buffer, size)]
        while (more := lib.pn_delivery_pending(lib.pn_link_current(self.pointer))) > 0:
            if more > self._buffer_bytes:
                self._buffer_bytes = more
                self._buffer = ffi.new("char[]", more)
            size = lib.pn_link_recv(self.pointer, self._buffer, more)
            if size <= 0:
                break
            parts.append(ffi.unpack(self._buffer, size))
        return b"".join(parts)

    def _is_too_large(self, size: int) -> bool:
        return 0 < self._engine.max_message_bytes < size

    def _refuse_message(self, delivery: Pointer) -> bool:
        """End the link because of a message that is too large, whole or not; the engine keeps none of it (2.7.3)."""
        self._too_large = False
        lib.pn_delivery_settle(delivery)  # the engine throws away what there is, and what is still to come of it
        link = self.link
        if link is not None and not self._ended:
            most = self._engine.max_message_bytes
            text = f"link {link.name!r}: the peer sent a message of more than max_message_bytes={most}"
            self._break(link, RemoteProtocolError(Condition.LINK_MESSAGE_SIZE_EXCEEDED.value, text))
            self._engine.wake(self)
            self._engine.end(self)
        return bool(lib.pn_link_current(self.pointer))

    def _hand_over_outcomes(self) -> None:
        """Settle what the peer has decided on, and hand it over in runs of equal outcomes.

        A peer settles in order, nearly always, so the deliveries sent first are looked at first, and the rest only if
        that did not find as many outcomes as were noted.
        """
        sent, noted, self.outcomes_noted = self._sent, self.outcomes_noted, 0
        state_of, settle = lib.pn_delivery_remote_state, lib.pn_delivery_settle
        accepted: list[Hashable] = []
        while sent and state_of(sent[0][1]) == _ACCEPTED:
            tag, delivery = sent.popleft()
            settle(delivery)
            accepted.append(tag)
        if accepted:
            self.receive(Disposition(accepted, ACCEPTED))
        if len(accepted) < noted:
            self._hand_over_scattered()

    def _hand_over_scattered(self) -> None:
        decided: list[tuple[Hashable, Outcome]] = []
        left: deque[tuple[Hashable, Pointer]] = deque()
        for tag, delivery in self._sent:
            state = lib.pn_delivery_remote_state(delivery)
            if state in _TERMINAL or lib.pn_delivery_settled(delivery):
                decided.append((tag, _read_outcome(delivery, state)))
                lib.pn_delivery_settle(delivery)
            else:
                left.append((tag, delivery))
        self._sent = left
        for outcome, run in groupby(decided, itemgetter(1)):
            self.receive(Disposition([tag for tag, _ in run], outcome))


_ACCEPTED: Final = lib.PN_ACCEPTED
_TERMINAL: Final = frozenset(_OUTCOME_CODES.values())


def _read_outcome(delivery: Pointer, state: int) -> Outcome:
    if state == _ACCEPTED:
        return ACCEPTED
    disposition = lib.pn_delivery_remote(delivery)
    if state == lib.PN_REJECTED:
        condition = read_condition(lib.pn_disposition_condition(disposition))
        name, description, _ = condition or (Condition.INTERNAL_ERROR.value, "", {})
        return Outcome("rejected", name, description)
    if state == lib.PN_MODIFIED:
        return Outcome(
            "modified",
            delivery_failed=bool(lib.pn_disposition_is_failed(disposition)),
            undeliverable_here=bool(lib.pn_disposition_is_undeliverable(disposition)),
            annotations=read_map(lib.pn_disposition_annotations(disposition)),
        )
    return RELEASED  # or settled without an outcome, which says as little as being given back


def _write_outcome(disposition: Pointer, outcome: Outcome, frame_bytes: int) -> None:
    if outcome.kind == "rejected":
        name = outcome.condition or Condition.INTERNAL_ERROR.value
        condition = lib.pn_disposition_condition(disposition)
        write_condition(condition, name, outcome.description, {}, frame_bytes)
    else:
        lib.pn_disposition_set_failed(disposition, outcome.delivery_failed)
        lib.pn_disposition_set_undeliverable(disposition, outcome.undeliverable_here)
        if outcome.annotations:
            write_map(lib.pn_disposition_annotations(disposition), outcome.annotations)
