"""A driver that carries a link inside one program: for tests of the protocol without an engine or a network."""

# ruff: noqa: SLF001 - the two ends are one object

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Self

from rstreams.errors import RStreamsError
from rstreams.protocol.frames import Flow, Frame, Lost, Role, Transfer
from rstreams.protocol.link import Link


class LocalDriver:
    """Carries a link to a peer link in the same program, frame by frame, in order.

    Frames and wake-ups of both ends go through one queue. The first call works it off, and calls inside of that only
    add to it. Therefore a signal never recurses into the other end, however deep the exchange is.

    Deliveries in parts are handed over when they have come whole.

    Context: Any task of the one trio run, or the plain thread, in which both ends live; never blocks.
    """

    _ROOM_BYTES = 1 << 20

    def __init__(self, turns: deque[Callable[[], None]]) -> None:
        """Make one end; use `LocalDriver.pair()`."""
        self._turns = turns
        self._working = [False]
        self._credit = 0
        self._awake = False
        self._cut = False
        self._parts: list[bytes] = []  # of a delivery that is still coming
        self._link: Link | None = None
        self._peer: LocalDriver = self

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Return the drivers of the two ends; `bind` a link to each."""
        turns: deque[Callable[[], None]] = deque()
        one, other = cls(turns), cls(turns)
        one._peer, other._peer = other, one
        other._working = one._working
        return one, other

    def bind(self, link: Link) -> None:
        """Carry `link`."""
        self._link = link

    def cut(self, error: RStreamsError, *, returns: bool = False) -> None:
        """Lose the connection: both links hear `Lost(error, returns)`, frames still under way do not arrive."""
        for end in (self, self._peer):
            end._cut = True
            self._turns.append(partial(end._lose, Lost(error, returns)))
        self._run()

    def send(self, frame: Frame) -> None:
        """Queue a frame for the peer, with the credit arithmetic of AMQP 1.0 section 2.6.7."""
        peer = self._peer
        match frame:
            case Flow(credit=credit) if self._role is Role.RECEIVER:
                granted = credit - self._credit
                self._credit = credit
                self._turns.append(lambda: peer._arrive_flow(granted, frame.drain))
            case Flow(starved=True):
                self._turns.append(peer._arrive_starved)
            case Flow():
                returned, self._credit = self._credit, 0
                self._turns.append(lambda: peer._arrive_flow(-returned, frame.drain))
            case Transfer(deliveries=deliveries):
                self._credit -= 0 if frame.more else len(deliveries)  # a delivery counts with its last part
                self._turns.append(lambda: peer._arrive(frame))
            case _:
                self._turns.append(lambda: peer._arrive(frame))
        self._run()

    def send_ahead(self, _tag: int, _message: bytes, *, settled: bool) -> bool:  # noqa: ARG002 - a driver's
        """Return False: the queue is worked off at once in any case."""
        return False

    def credit(self) -> int:
        """Return the credit this end knows of, in deliveries."""
        return self._credit

    def queued(self) -> int:
        """Return 0: sent frames have left."""
        return 0

    def room_bytes(self) -> int:
        """Return a constant: the frames are with the peer at once, and credit bounds them."""
        return self._ROOM_BYTES

    def is_shut(self, *, used_up: bool = False) -> bool:  # noqa: ARG002 - a driver's
        """Return False: there are no sessions here."""
        return False

    def wake(self, *, for_item: bool = False) -> None:  # noqa: ARG002 - the queue is worked off at once in any case
        """Queue a turn for this end's link."""
        if not self._awake:
            self._awake = True
            self._turns.append(self._work)
            self._run()

    def sent_at_s(self) -> float:
        """See `Driver`; no time passes here."""
        return 0.0

    def now_s(self) -> float:
        """See `Driver`; no time passes here."""
        return 0.0

    def slice_is_over(self) -> bool:
        """Return False: there is no clock here."""
        return False

    def call_after(self, _delay_s: float, function: Callable[[], None]) -> None:
        """Queue a turn for `function`: there is no clock here, therefore it is called soon."""
        self._turns.append(function)
        self._run()

    @property
    def _role(self) -> Role:
        assert self._link is not None, "bind a link first"
        return self._link.role

    def _work(self) -> None:
        self._awake = False
        if self._link is not None:
            self._link.work()

    def _arrive(self, frame: Frame) -> None:
        if self._cut or self._link is None:
            return
        if isinstance(frame, Transfer) and not frame.more:
            self._credit -= len(frame.deliveries)
            if self._credit < 0:
                frame = replace(frame, overdrawn=True)
        arrived = self._whole(frame.encoded()) if isinstance(frame, Transfer) else frame
        if arrived is not None:
            self._link.receive(arrived)
        self.wake()

    def _whole(self, frame: Transfer) -> Transfer | None:
        """Return the whole deliveries of which `frame` is the last part; None if there are none yet."""
        if frame.more:
            self._parts += frame.payloads
            return None
        parts, self._parts = self._parts, []
        if frame.aborted:
            return None
        return replace(frame, payloads=[b"".join((*parts, *frame.payloads))]) if parts else frame

    def _arrive_flow(self, change: int, drain: bool) -> None:  # noqa: FBT001 - AMQP's own flag
        self._credit += change
        if not self._cut and self._link is not None:
            self._link.receive(Flow(self._credit, drain))
            self.wake()

    def _arrive_starved(self) -> None:
        if not self._cut and self._link is not None:
            self._link.receive(Flow(self._credit, starved=True))
            self.wake()

    def _lose(self, lost: Lost) -> None:
        if self._link is not None:
            self._link.lose(lost)

    def _run(self) -> None:
        if self._working[0]:
            return
        self._working[0] = True
        try:
            while self._turns:
                self._turns.popleft()()
        finally:
            self._working[0] = False
