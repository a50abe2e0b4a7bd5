"""The lives of the two ends of a link: their phases, the events that change them, and a table for each end.

    RECEIVING[phase][event] is the next phase of a receiving end, SENDING[phase][event] that of a sending end.

An end asks the table by `Life.on`, and nothing else changes its phase. An event that is not in the row of the phase
cannot happen there: it would be a bug, and `on` raises.

`states` has another table: the frames that a link may send and receive. A lost link is replaced by a new one with a new
state; the life of its end goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

P = TypeVar("P", bound=Enum)
E = TypeVar("E", bound=Enum)

Table: TypeAlias = Mapping[P, Mapping[E, P]]


class Life(Generic[P, E]):
    """The present phase of an end.

    Attributes:
        phase: The phase. Only `on` changes it.
    """

    __slots__ = ("_table", "phase")

    def __init__(self, table: Table[P, E], phase: P) -> None:
        """Begin in `phase` of `table`."""
        self._table = table
        self.phase = phase

    def on(self, event: E) -> bool:
        """Move to the phase in the table for `event`; return whether it is another one.

        Errors: `RuntimeError` if `event` cannot happen in this phase.
        """
        before = self.phase
        after = self._table[before].get(event)
        if after is None:
            msg = f"{event} cannot happen in {before}: this is a bug in rstreams"
            raise RuntimeError(msg)
        self.phase = after
        return after is not before


def _stay(phase: P, *events: E) -> dict[E, P]:
    return dict.fromkeys(events, phase)


class ReceiverPhase(Enum):
    """A phase of a receiving end."""

    ATTACHING = auto()
    """The first link is not attached yet, and the subscriber has got no signal."""
    LIVE = auto()
    """The link is attached: the demand of the subscriber becomes credit, and deliveries become items."""
    APART = auto()
    """The link is lost, and another one will be attached in its place."""
    PARTING = auto()
    """The peer has detached the link and is about to close the connection. Its deliveries are settled, then this side
    also detaches, and another link is attached later."""
    LEAVING = auto()
    """This side ends the subscription in order: no credit is granted, and deliveries on their way are handed over."""
    ENDING = auto()
    """The publisher has ended: items that wait for demand are handed over, then the subscriber gets the end."""
    LEFT = auto()
    """Both sides have ended the subscription: as ENDING, but items that are lost with the link are not awaited."""
    SILENT = auto()
    """The subscriber gets no more signals. Its held items are settled, then the link is detached."""


class ReceiverEvent(Enum):
    """An event in the life of a receiving end."""

    BEGIN = auto()
    """The link is attached, or it is known that no link will be: the subscriber gets `on_subscribe`."""
    LOSE = auto()
    """The link is lost, and another link will be attached in its place."""
    MISS = auto()
    """The publisher has ended, but the link is lost before all items were handed over. Another link will be attached:
    the missing items and the end come again on it."""
    PART = auto()
    """The peer has detached the link, and another link will be attached in its place."""
    ANSWER = auto()
    """This side has answered the detach of PART."""
    LEAVE = auto()
    """`leave` is called."""
    END = auto()
    """The publisher has completed or failed, or the link is lost for good."""
    SILENCE = auto()
    """The subscriber gets the end, cancels or raises, or this side gives the subscription up."""


RECEIVING: Final[Table[ReceiverPhase, ReceiverEvent]] = MappingProxyType(
    {
        ReceiverPhase.ATTACHING: {
            # END is not in this row: a subscriber gets `on_subscribe` (BEGIN) before its end.
            # If it cancels now (SILENCE), it gets neither.
            **_stay(ReceiverPhase.ATTACHING, ReceiverEvent.LOSE, ReceiverEvent.PART),
            ReceiverEvent.BEGIN: ReceiverPhase.LIVE,
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.LIVE: {
            ReceiverEvent.LOSE: ReceiverPhase.APART,
            ReceiverEvent.PART: ReceiverPhase.PARTING,
            ReceiverEvent.LEAVE: ReceiverPhase.LEAVING,
            ReceiverEvent.END: ReceiverPhase.ENDING,
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.APART: {
            # The next link may also be lost or refused before it is attached.
            **_stay(ReceiverPhase.APART, ReceiverEvent.LOSE, ReceiverEvent.PART),
            ReceiverEvent.BEGIN: ReceiverPhase.LIVE,
            ReceiverEvent.LEAVE: ReceiverPhase.LEAVING,
            ReceiverEvent.END: ReceiverPhase.ENDING,
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.PARTING: {
            ReceiverEvent.ANSWER: ReceiverPhase.APART,
            ReceiverEvent.LOSE: ReceiverPhase.APART,
            ReceiverEvent.LEAVE: ReceiverPhase.LEAVING,
            ReceiverEvent.END: ReceiverPhase.ENDING,
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.LEAVING: {
            # If the link is lost, no items are on their way: the subscription ends when all that came are handed over.
            **_stay(
                ReceiverPhase.LEAVING, ReceiverEvent.BEGIN, ReceiverEvent.LOSE, ReceiverEvent.PART, ReceiverEvent.LEAVE
            ),
            ReceiverEvent.END: ReceiverPhase.LEFT,
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.ENDING: {
            # The first end counts, whatever happens later to this link, or to one that was asked for before the end.
            # Only if items are missing (MISS), the subscription goes on as after a loss before the end.
            ReceiverEvent.MISS: ReceiverPhase.APART,
            **_stay(
                ReceiverPhase.ENDING, ReceiverEvent.BEGIN, ReceiverEvent.LOSE, ReceiverEvent.PART, ReceiverEvent.END
            ),
            ReceiverEvent.LEAVE: ReceiverPhase.LEFT,
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.LEFT: {
            **_stay(
                ReceiverPhase.LEFT,
                ReceiverEvent.BEGIN,
                ReceiverEvent.LOSE,
                ReceiverEvent.PART,
                ReceiverEvent.LEAVE,
                ReceiverEvent.END,
            ),
            ReceiverEvent.SILENCE: ReceiverPhase.SILENT,
        },
        ReceiverPhase.SILENT: _stay(
            ReceiverPhase.SILENT,
            ReceiverEvent.BEGIN,
            ReceiverEvent.LOSE,
            ReceiverEvent.PART,
            ReceiverEvent.LEAVE,
            ReceiverEvent.END,
            ReceiverEvent.SILENCE,
        ),
    }
)


class SenderPhase(Enum):
    """A phase of a sending end."""

    ATTACHING = auto()
    """The first link is not attached yet, and the publisher has no subscriber."""
    LIVE = auto()
    """The publisher is subscribed: credit becomes demand, and items become deliveries."""
    ENDING = auto()
    """The publisher has completed or failed: its items are sent and settled, then the link is detached."""
    LEAVING = auto()
    """This side takes no more items from the publisher; those it has are sent and settled, then it detaches."""
    STOPPED = auto()
    """The stream has failed here or at the receiver. Unsent items are given back to the publisher, the others are
    settled, then the link is detached."""
    ABORTED = auto()
    """This side has cancelled the publisher: like STOPPED, but without waiting for outcomes."""
    FINISHED = auto()
    """The link has ended for good, and its owner knows how."""


class SenderEvent(Enum):
    """An event in the life of a sending end."""

    BEGIN = auto()
    """A link is attached; the first time, the publisher is subscribed."""
    COMPLETE = auto()
    """The publisher has completed or failed."""
    LEAVE = auto()
    """`leave` is called."""
    STOP = auto()
    """The stream fails because this side or the receiver cannot process an item."""
    ABORT = auto()
    """`abort` is called."""
    LOSE = auto()
    """The link is lost, or the peer has detached it, and another link will be attached in its place."""
    FINISH = auto()
    """The link has ended, and no other link will be attached in its place."""


SENDING: Final[Table[SenderPhase, SenderEvent]] = MappingProxyType(
    {
        SenderPhase.ATTACHING: {
            **_stay(SenderPhase.ATTACHING, SenderEvent.LOSE),
            SenderEvent.BEGIN: SenderPhase.LIVE,
            SenderEvent.LEAVE: SenderPhase.LEAVING,
            SenderEvent.ABORT: SenderPhase.ABORTED,
            SenderEvent.FINISH: SenderPhase.FINISHED,
        },
        SenderPhase.LIVE: {
            # After LOSE the next link brings BEGIN again: unsettled items are sent again.
            **_stay(SenderPhase.LIVE, SenderEvent.BEGIN, SenderEvent.LOSE),
            SenderEvent.COMPLETE: SenderPhase.ENDING,
            SenderEvent.LEAVE: SenderPhase.LEAVING,
            SenderEvent.STOP: SenderPhase.STOPPED,
            SenderEvent.ABORT: SenderPhase.ABORTED,
            SenderEvent.FINISH: SenderPhase.FINISHED,
        },
        SenderPhase.ENDING: {
            **_stay(SenderPhase.ENDING, SenderEvent.BEGIN, SenderEvent.LOSE, SenderEvent.COMPLETE, SenderEvent.LEAVE),
            SenderEvent.STOP: SenderPhase.STOPPED,
            SenderEvent.ABORT: SenderPhase.ABORTED,
            SenderEvent.FINISH: SenderPhase.FINISHED,
        },
        SenderPhase.LEAVING: {
            **_stay(SenderPhase.LEAVING, SenderEvent.BEGIN, SenderEvent.LOSE, SenderEvent.COMPLETE, SenderEvent.LEAVE),
            SenderEvent.STOP: SenderPhase.STOPPED,
            SenderEvent.ABORT: SenderPhase.ABORTED,
            SenderEvent.FINISH: SenderPhase.FINISHED,
        },
        SenderPhase.STOPPED: {
            # If the link is lost now, that is FINISH: there is nothing to send on another link.
            **_stay(SenderPhase.STOPPED, SenderEvent.COMPLETE, SenderEvent.LEAVE, SenderEvent.STOP),
            SenderEvent.ABORT: SenderPhase.ABORTED,
            SenderEvent.FINISH: SenderPhase.FINISHED,
        },
        SenderPhase.ABORTED: {
            **_stay(
                SenderPhase.ABORTED,
                SenderEvent.BEGIN,
                SenderEvent.COMPLETE,
                SenderEvent.LEAVE,
                SenderEvent.STOP,
                SenderEvent.ABORT,
            ),
            SenderEvent.FINISH: SenderPhase.FINISHED,
        },
        SenderPhase.FINISHED: _stay(
            SenderPhase.FINISHED,
            SenderEvent.BEGIN,
            SenderEvent.COMPLETE,
            SenderEvent.LEAVE,
            SenderEvent.STOP,
            SenderEvent.ABORT,
            SenderEvent.FINISH,
        ),
    }
)

GIVEN_UP: Final = (SenderPhase.STOPPED, SenderPhase.ABORTED, SenderPhase.FINISHED)
"""The phases in which a lost link of a sending end is not replaced."""

ReceiverLife: TypeAlias = Life[ReceiverPhase, ReceiverEvent]
SenderLife: TypeAlias = Life[SenderPhase, SenderEvent]
