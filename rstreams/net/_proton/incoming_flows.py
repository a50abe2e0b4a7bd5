"""The peer's flows, given to the engine, and corrected where it misreads their numbers.

    echo, drain                    the engine does not answer them, or not always
    credit that is very large      the engine counts in 31 bits
    credit or a window below what  the peer had not seen what was on its way; for the engine they are very large
    has gone out
    a sender's delivery-count      the engine takes one that goes back for credit

A flow is given to the engine as it came. Its own numbers then tell whether it has misread the flow, and it gets a
corrected one.

Spec: AMQP 1.0 sections 2.5.6 (session flow control), 2.6.7 (flow control), 2.7.4 (flow).
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from cproton_ffi import lib

from rstreams.net._proton.frame_fields import fields_of, number_of, of_session, require_uint, with_numbers
from rstreams.net._proton.frame_listener import Channel, FrameListener
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.outgoing_frames import SenderNumbers
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sending_driver import SendingDriver
from rstreams.net._proton.session_windows import is_below_none, window_of

MAX_CREDIT: Final = 2**31 - 1
"""The most credit the engine can count."""

_NEXT_INCOMING_ID, _INCOMING_WINDOW, _DELIVERY_COUNT, _LINK_CREDIT = 0, 1, 5, 6  # the places of a flow's fields


Bytes: TypeAlias = bytes | bytearray | memoryview


class ToEngine(Protocol):
    """Gives the engine frames."""

    def push(self, data: Bytes) -> None:
        """Give the engine frames."""
        ...

    def push_alone(self, frame: bytes, *kinds: int) -> Pointer | None:
        """Give the engine a frame after all its other events are read; return its event, if it is of these kinds."""
        ...


class IncomingFlows:
    """The flows that come on one connection.

    Context: Only the task that owns the connection.
    """

    def __init__(self, listener: FrameListener, host: HostConnection) -> None:
        """Expect flows; see `IncomingFrames`."""
        self._listener = listener
        self._host = host
        # By channel and handle, the links whose state was asked for, of those on which this side sends.
        self._asking: dict[tuple[int, int], SenderNumbers] = {}

    def take(self, frame: bytes, channel: int, known: Channel, engine: ToEngine) -> None:
        """Give the engine a flow."""
        next_id, window, _, _, handle, count, credit, _, drain, echo = fields_of(frame, 10)
        if next_id is None:  # the peer has not seen this side's begin: it counts from the first id, as 2.5.6 says
            frame = with_numbers(frame, {_NEXT_INCOMING_ID: 0}, 10)
        if handle is None:
            if echo is True:
                self._host.outgoing.ask_session(known.session)
            engine.push(frame)
        elif (handle := require_uint(handle)) < known.unused and handle not in known.handles:
            # It is of a link that the peer has detached: go-amqp sometimes sends one.
            engine.push(of_session(frame))
        else:
            key, link, credit = (channel, handle), known.receivers.get(handle), number_of(credit)
            if link is None or drain is True or echo is True:
                driver = self._push_alone(frame, engine)
                link = None if driver is None or not driver.sends else driver.pointer
                if driver is not None:
                    self._answer(frame, key, driver, engine, drain=drain is True, echo=echo is True)
            else:
                engine.push(frame)
            if link is not None:
                known.receivers[handle] = link
                credit = _correct_credit(frame, credit, link, engine)
            if key in self._asking:
                self._asking[key].allowed_until = (number_of(count) + credit) & 0xFFFFFFFF
        left = window_of(known.session)
        if is_below_none(number_of(window), left):
            engine.push(with_numbers(frame, {_NEXT_INCOMING_ID: None, _INCOMING_WINDOW: 0}, 4))
            left = 0
        self._note_window(known, left)

    def note_begin(self, known: Channel) -> None:
        """Note the window with which the peer begins a session."""
        self._note_window(known, window_of(known.session))

    def _note_window(self, known: Channel, window: int) -> None:
        """Note whether the peer has closed the window of a session, or opened it again."""
        if self._host.shut.note(known.session, window):
            self._listener.on_window(known.session)

    def forget(self, channel: int, handle: int | None = None) -> None:
        """Forget a link that the peer has detached, or all links of a channel."""
        for key in [key for key in self._asking if key[0] == channel and handle in (None, key[1])]:
            del self._asking[key]

    def _push_alone(self, frame: bytes, engine: ToEngine) -> LinkDriver | None:
        """Give the engine a flow of a link, and return the driver of that."""
        event = engine.push_alone(frame, lib.PN_LINK_FLOW)
        return self._listener.driver_at(lib.pn_event_link(event)) if event else None

    def _answer(
        self, frame: bytes, key: tuple[int, int], driver: LinkDriver, engine: ToEngine, *, drain: bool, echo: bool
    ) -> None:
        """Have what a flow asks for answered; keep a sender's delivery-count from going back."""
        if isinstance(driver, SendingDriver):
            if drain or echo:
                self._asking[key] = driver.numbers
                driver.drain_asked = driver.drain_asked or drain
        else:
            _keep_count(frame, driver.pointer, engine)
        if echo and not (driver.sends and drain):  # the answer to a drain answers both
            driver.tell_state()


def _correct_credit(frame: bytes, credit: int, link: Pointer, engine: ToEngine) -> int:
    """Tell the engine another credit if it reads this one as negative; return the credit that it was told."""
    counted = int(lib.pn_link_credit(link)) + int(lib.pn_link_queued(link))
    if counted < 0:
        most = 0 if is_below_none(credit, counted) else MAX_CREDIT
        credit = (credit + most - counted) & 0xFFFFFFFF
        engine.push(with_numbers(frame, {_LINK_CREDIT: credit}))
    return credit


def _keep_count(frame: bytes, link: Pointer, engine: ToEngine) -> None:
    """Correct a sender's delivery-count that went back: the engine would read it as new credit."""
    forth = int(lib.pn_link_drained(link))  # how far it went forward since the last call, for a receiver
    if forth < 0:
        count = number_of(fields_of(frame, 6)[_DELIVERY_COUNT])
        engine.push(with_numbers(frame, {_DELIVERY_COUNT: (count - forth) & 0xFFFFFFFF}, 6))
