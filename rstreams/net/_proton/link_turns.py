"""The turns of a connection's links: which links have something to do, and in which order they do it.

A link is in up to five queues:

    noted      something has come for it, which it reads
    dirty      its end wants to work
    waiting    its end waits until output has gone; then it works
    room       its end waits until its session has room; the ends of a session work one after the other while it has
    ended      it has ended on this side, and is freed when its last frame has gone and the peer's has come

Context: Any task of the connection's trio run puts a link into a queue; only the owner task gives turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Protocol

from rstreams import _machine
from rstreams.net._proton.pointers import Pointer


class TakesTurns(Protocol):
    """The driver of a link, as its turns see it.

    Attributes:
        pointer: The link in the engine.
        sends: Whether this side is the sender.
        sent_at: The number of the connection's output that had the link's last transfer.
    """

    pointer: Pointer
    sends: bool
    sent_at: int

    def hand_over(self, most: int) -> bool:
        """Read its news, at most `most` deliveries; tell whether there is more."""
        ...

    def room(self) -> int:
        """Return how many bytes of its items the link's session takes now."""
        ...

    def work(self) -> None:
        """Let the link's end work."""
        ...


class _Room:
    """The links that wait for room in one session: the link that has waited longest comes first."""

    __slots__ = ("_turns", "drivers")

    def __init__(self, turns: LinkTurns) -> None:
        self.drivers: dict[TakesTurns, None] = {}
        self._turns = turns

    def work(self) -> None:
        """Let ends work while there is room: if all of a thousand did, most of them would find none."""
        drivers, turns = self.drivers, self._turns
        while drivers:
            driver = next(iter(drivers))
            if not driver.room():
                return  # until more output has gone
            del drivers[driver]
            turns.work(driver)
            if drivers and turns.slice_is_over():
                turns.dirty[self] = None  # it goes on in the next turn
                return


class LinkTurns:
    """The queues of one connection's links.

    Attributes:
        noted: The links that are to read.
        dirty: The links and rooms whose ends are to work.
        waiting: The links whose ends wait until output has gone.
        ended: The links that have ended on this side since the last `take_ended`.
        at_s: When the present turn began, or the present item was sent ahead, on the clock of the run.
    """

    def __init__(self, on_wake: Callable[[], None], on_item: Callable[[], None]) -> None:
        """Have no link in any queue.

        Args:
            on_wake: Called when a link has something to do.
            on_item: Called instead when a publisher is sending an item on a link.
        """
        self._on_wake = on_wake
        self._on_item = on_item
        self.noted: dict[TakesTurns, None] = {}
        self.dirty: dict[TakesTurns | _Room, None] = {}
        self.waiting: dict[TakesTurns, None] = {}
        self._rooms: dict[Hashable, _Room] = {}  # by session
        self.ended: list[TakesTurns] = []
        self._slice_ends = -math.inf
        self.at_s = -math.inf

    # into the queues, and out of them

    def note(self, driver: TakesTurns) -> None:
        """Have the link read its news, in this turn or the next one."""
        self.noted[driver] = None

    def read_on(self, driver: TakesTurns) -> None:
        """Have the link read, in the next turn, deliveries that it left in the engine."""
        self.noted[driver] = None
        self._on_wake()

    def wake(self, driver: TakesTurns, *, for_item: bool = False) -> None:
        """Have the link's end work in the next turn; `for_item` tells that a publisher is sending an item on it."""
        if driver not in self.dirty:
            self.dirty[driver] = None
            if for_item:
                self._on_item()
            else:
                self._on_wake()

    def wait(self, driver: TakesTurns) -> None:
        """Have the link's end work when output has gone."""
        self.waiting[driver] = None

    def wait_for_room(self, driver: TakesTurns, session: Hashable) -> None:
        """Have the link's end work when output has gone, and links that came before have left room in its session."""
        room = self._rooms.get(session)
        if room is None:
            room = self._rooms[session] = _Room(self)
        room.drivers[driver] = None

    def work(self, driver: TakesTurns) -> None:
        """Let an end work that has waited for room, instead of a turn that it may have in this round."""
        self.dirty.pop(driver, None)
        driver.work()

    def wake_waiting(self) -> None:
        """Have the ends work that waited until output had gone.

        The link whose last transfer is oldest comes first: otherwise a link that always has more takes all the room.
        """
        if self.waiting:
            for driver in sorted(self.waiting, key=_sent_at):
                self.dirty.pop(driver, None)
                self.dirty[driver] = None
            self.waiting.clear()
        for room in self._rooms.values():
            if room.drivers:
                self.dirty[room] = None

    def is_alone(self, driver: TakesTurns) -> bool:
        """Tell whether no other end wants to work, now or when output has gone."""
        in_rooms = (room.drivers for room in self._rooms.values())
        return all(each is driver or isinstance(each, _Room) for each in chain(self.dirty, self.waiting, *in_rooms))

    def end(self, driver: TakesTurns) -> None:
        """Have the link freed when its last frame has gone and the peer's has come."""
        self.ended.append(driver)

    def end_later(self, driver: TakesTurns) -> None:
        """Have the link looked at once more, because it cannot be freed yet."""
        self.ended.append(driver)
        self.dirty[driver] = None  # so that there is another turn

    def take_ended(self) -> Sequence[TakesTurns]:
        """Return the links that have ended on this side since the last call."""
        ended, self.ended = self.ended, []
        return ended

    def forget(self, driver: TakesTurns) -> None:
        """Take a link that is gone out of the queues."""
        self.noted.pop(driver, None)
        self.dirty.pop(driver, None)
        self.waiting.pop(driver, None)
        for room in self._rooms.values():
            room.drivers.pop(driver, None)

    def forget_session(self, session: Hashable) -> None:
        """Forget a session that has ended, and whose links are gone."""
        room = self._rooms.pop(session, None)
        if room is not None:
            self.dirty.pop(room, None)

    def clear(self) -> None:
        """Take every link out of the queues."""
        for each in (self.noted, self.dirty, self.waiting, self._rooms, self.ended):
            each.clear()

    # turns

    def give(self, most: int, slice_s: float) -> bool:
        """Let links read, then let ends work, each for `slice_s` seconds at most.

        Senders read first: outcomes and credit take little time, and a receiver's run of items may take long. The ends
        have a slice of their own, because they must not wait until all other links have read.

        Args:
            most: The most deliveries that a link reads before the next link has its turn.
            slice_s: How long links may read, and how long ends may work, in seconds.

        Returns:
            Whether there is more to do at once.
        """
        noted, dirty = self.noted, self.dirty
        if noted:
            self._slice_ends = _machine.now() + slice_s
            for driver in list(noted) if len(noted) == 1 else sorted(noted, key=_receives):
                if driver not in noted:
                    continue  # its link has ended since
                del noted[driver]
                if driver.hand_over(most):
                    noted[driver] = None  # behind the others
                if noted and self.slice_is_over():
                    break
        if dirty:
            self._slice_ends = _machine.now() + slice_s
            for each in list(dirty):
                if each in dirty:
                    del dirty[each]
                    each.work()  # its end wakes itself if there is more
                    if dirty and self.slice_is_over():
                        break
        return bool(noted or dirty)

    def slice_is_over(self) -> bool:
        """Tell whether links have read, or ends have worked, for as long as they may."""
        return _machine.now() >= self._slice_ends


def _receives(driver: TakesTurns) -> bool:
    return not driver.sends


def _sent_at(driver: TakesTurns) -> int:
    return driver.sent_at
