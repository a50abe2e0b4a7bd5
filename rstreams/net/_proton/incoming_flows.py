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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cproton_ffi import lib

from rstreams.net._proton.engine_events import EngineEvents
from rstreams.net._proton.frame_fields import fields_of, number_of, of_session, require_uint, with_numbers
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.loops import Loops
from rstreams.net._proton.outgoing_frames import SenderNumbers
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sending_driver import SendingDriver
from rstreams.net._proton.session_windows import is_below_none, window_of

MAX_CREDIT: Final = 2**31 - 1
"""The most credit the engine can count."""

_NEXT_INCOMING_ID, _INCOMING_WINDOW, _DELIVERY_COUNT, _LINK_CREDIT = 0, 1, 5, 6  # the places of a flow's fields


Bytes: TypeAlias = bytes | bytearray | memoryview


@dataclass(slots=True)
class Channel:
    """A session of the peer's channel.

    Attributes:
        session: The session in the engine.
        ours: This side's channel, as the peer said it, if this side began the session; else None.
        handles: The handles of the peer's links; for each, whether the peer sends.
        senders: The links that the peer sends on, by their handles.
        receivers: The links that the peer receives on, by their handles, once it has sent a flow of them.
        unused: The first of the handles that the peer has never given a link.
        is_broken: Whether this side has ended the session; what comes before the peer's `end` is passed over (2.5.4).
    """

    session: Pointer
    ours: object
    handles: dict[int, bool] = field(default_factory=dict)
    senders: dict[int, Pointer] = field(default_factory=dict)
    receivers: dict[int, Pointer] = field(default_factory=dict)
    unused: int = 0
    is_broken: bool = False


class ToEngine:
    """Gives the engine of one connection frames of the peer."""

    def __init__(self, events: EngineEvents, loops: Loops) -> None:
        """Have given none."""
        self._events = events
        self._feed = loops.feed

    def push(self, data: Bytes) -> None:
        """Give the engine frames, or a part of one."""
        if len(data):
            self._feed(data)

    def push_alone(self, frame: bytes, *kinds: int) -> Pointer | None:
        """Give the engine a frame after all its other events are read; return its event, if it is of these kinds."""
        self._events.note()
        self._feed(frame)
        event = lib.pn_collector_peek(self._events.collector)
        return event if event and lib.pn_event_type(event) in kinds else None


class IncomingFlows:
    """The flows that come on one connection.

    Context: Only the task that owns the connection.
    """

    def __init__(self, events: EngineEvents, host: HostConnection, engine: ToEngine) -> None:
        """Expect flows, and give them to `engine`."""
        self._events = events
        self._host = host
        self._engine = engine
        # By channel and handle, the links whose state was asked for, of those on which this side sends.
        self._asking: dict[tuple[int, int], SenderNumbers] = {}

    def take(self, frame: bytes, channel: int, known: Channel) -> bool:
        """Give the engine a flow, unless it has a handle that no link has had; tell whether it did."""
        engine = self._engine
        fields = fields_of(frame, 10)
        next_id, window, handle, echo = fields[0], fields[1], fields[4], fields[9]
        if handle is not None and (handle := require_uint(handle)) >= known.unused:
            return False
        if next_id is None:  # the peer has not seen this side's begin: it counts from the first id, as 2.5.6 says
            frame = with_numbers(frame, {_NEXT_INCOMING_ID: 0}, 10)
        if handle is None:
            if echo is True:
                self._host.outgoing.ask_session(known.session)
            engine.push(frame)
        elif handle not in known.handles:
            # It is of a link that the peer has detached: go-amqp sometimes sends one.
            engine.push(of_session(frame))
        else:
            self._take_of_link(frame, (channel, handle), known, fields[5:])
        left = window_of(known.session)
        if is_below_none(number_of(window), left):
            engine.push(with_numbers(frame, {_NEXT_INCOMING_ID: None, _INCOMING_WINDOW: 0}, 4))
            left = 0
        self._events.note_window(known.session, left)
        return True

    def _take_of_link(self, frame: bytes, key: tuple[int, int], known: Channel, fields: Sequence[object]) -> None:
        engine, handle = self._engine, key[1]
        count, credit, _, drain, echo = fields
        link, credit = known.receivers.get(handle), number_of(credit)
        if link is None or drain is True or echo is True:
            event = engine.push_alone(frame, lib.PN_LINK_FLOW)
            driver = self._events.links.of(lib.pn_event_link(event)) if event else None
            link = None if driver is None or not driver.sends else driver.pointer
            if driver is not None:
                self._answer(frame, key, driver, drain=drain is True, echo=echo is True)
        else:
            engine.push(frame)
        if link is not None:
            known.receivers[handle] = link
            credit = _correct_credit(frame, credit, link, engine)
        if key in self._asking:
            self._asking[key].allowed_until = (number_of(count) + credit) & 0xFFFFFFFF

    def forget(self, channel: int, handle: int | None = None) -> None:
        """Forget a link that the peer has detached, or all links of a channel."""
        for key in [key for key in self._asking if key[0] == channel and handle in (None, key[1])]:
            del self._asking[key]

    def _answer(self, frame: bytes, key: tuple[int, int], driver: LinkDriver, *, drain: bool, echo: bool) -> None:
        """Have what a flow asks for answered; keep a sender's delivery-count from going back."""
        if isinstance(driver, SendingDriver):
            if drain or echo:
                self._asking[key] = driver.numbers
                driver.drain_asked = driver.drain_asked or drain
        else:
            _keep_count(frame, driver.pointer, self._engine)
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
