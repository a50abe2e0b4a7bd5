"""The common base of the two ends of a link: their present link, and hints of their owner."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from rstreams._core.beyond import Beyond, Sides
from rstreams._core.sight import Asked
from rstreams._core.spell import Spell
from rstreams.culprits import Culprit
from rstreams.errors import MADE_ANEW, AnswerTimeout, Condition, PeerClosed, SessionEnded
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Frame, Lost
from rstreams.protocol.life import Life, ReceiverPhase, SenderPhase
from rstreams.protocol.link import Link
from rstreams.protocol.packing import PACK_ITEMS, agreed_items, offer
from rstreams.protocol.states import State
from rstreams.protocol.tally import Tally, TallySum

_FINAL: Final = frozenset(
    {
        Condition.DECODE_ERROR.value,
        Condition.INTERNAL_ERROR.value,  # the publisher itself has failed
        Condition.INVALID_FIELD.value,
        Condition.LINK_MESSAGE_SIZE_EXCEEDED.value,
        Condition.LINK_REDIRECT.value,
        Condition.LINK_STOLEN.value,
        Condition.LINK_TRANSFER_LIMIT_EXCEEDED.value,
        Condition.NOT_ALLOWED.value,
        Condition.NOT_IMPLEMENTED.value,
        Condition.UNAUTHORIZED_ACCESS.value,
        MADE_ANEW,
    }
)
"""The conditions after which another link would have the same end."""

_FINAL_AFTER_LOSS: Final = _FINAL - {Condition.INTERNAL_ERROR.value}
"""Those of them that cannot pass when a peer refuses a link which it has had before its connection was lost.

A broker that starts lets clients in before its queues are ready. RabbitMQ refuses links to its streams for some 100 ms,
with amqp:not-found, amqp:precondition-failed or amqp:internal-error.
"""

_LASTS: Final = (
    ReceiverPhase.LIVE,
    ReceiverPhase.APART,
    SenderPhase.LIVE,
    SenderPhase.ENDING,
    SenderPhase.LEAVING,
)
"""The phases in which a link that the peer has ended may be replaced."""

_ATTACHING: Final = (ReceiverPhase.ATTACHING, SenderPhase.ATTACHING)
"""The phases in which an end has never been attached."""


class End:
    """An end of a link. It outlives a lost link, and goes on with the next one.

    Attributes:
        place: Returns the peer and its link as text, for messages. The text is empty unless the owner of the end sets
            it.
        attach_later: Attaches the end again later, for the reason that the peer gave, or because it gave no answer;
            None: its connection does not return.
        follows: Whether another end was attached before in the place of this one, on a connection that was lost. Then
            it is tried again also if it has never been attached itself.
        beyond: Names its link, and asks the peer; None: nobody does.
        outlives_detach: Whether it is attached again if the peer detaches its link, also when the connection stays.
            Without it, that is done only if the peer refuses the link that follows a lost one, or does not answer it.
        counted: Gets the numbers of this end when it is gone; None: nobody counts them.
    """

    counted: TallySum | None = None

    def __init__(self, pack_items: int) -> None:
        """Start without a link; a delivery may carry `pack_items` items if the peer knows packs."""
        self.place: Callable[[], str] = str
        self.attach_later: Callable[[PeerClosed | AnswerTimeout], None] | None = None
        self.beyond: Beyond | None = None
        self.follows = False
        self.outlives_detach = False
        self._answered = False  # the peer has attached the present link
        self._has_lost = False  # there was a link before, and nothing has come on the present one
        self._pack_items = pack_items
        self._link: Link | None = None
        self._life: Life[Any, Any]

    def __del__(self) -> None:
        """Leave the numbers behind: outcomes may have come until now."""
        if self.counted is not None:
            self.counted.add(self.tally(), self.blocked_spell.total_s)

    @abstractmethod
    def tally(self) -> Tally:
        """Return the numbers of its items."""

    @property
    @abstractmethod
    def blocked_spell(self) -> Spell:
        """While it is blocked: it cannot send an item that it has, or grants no credit."""

    def _survives(self, error: PeerClosed | AnswerTimeout) -> bool:
        """Return whether it is attached again although the connection stays: it was attached, and is wanted."""
        follows = self.follows and self._life.phase in _ATTACHING
        if self.attach_later is None or not (follows or self._life.phase in _LASTS):
            return False
        has_lost = follows or self._has_lost
        if isinstance(error, AnswerTimeout):
            return has_lost
        if has_lost and (not self._answered or isinstance(error, SessionEnded)):
            return self._may_pass(error.condition)
        return self.outlives_detach and error.condition not in _FINAL

    def _may_pass(self, condition: str) -> bool:
        """Return whether a peer that has come back may have this condition for a while only."""
        return condition not in _FINAL_AFTER_LOSS

    def _survived(self, frame: Lost) -> PeerClosed | AnswerTimeout | None:
        """Return the reason if the connection stays, and the end is attached again."""
        error = frame.error
        if frame.returns or frame.final or not isinstance(error, SessionEnded | AnswerTimeout):
            return None
        return error if self._survives(error) else None

    def _return_after(self, error: BaseException | None) -> None:
        """Have the end attached again later, if it still wants a link, and the connection of the last one stays."""
        if isinstance(error, PeerClosed | AnswerTimeout) and self.wants_link and self.attach_later is not None:
            self.attach_later(error)

    @property
    @abstractmethod
    def wants_link(self) -> bool:
        """Whether a lost link should be replaced."""
        ...

    def properties(self, asked: Attach | None = None) -> dict[str, Any]:
        """Return the properties about packs in this side's attach, which answers `asked`, unless that is None.

        An answer mentions packs only to a peer that knows them.
        """
        return {} if asked is not None and PACK_ITEMS not in asked.properties else offer(self._pack_items)

    def _agreed_items(self, theirs: Attach) -> int:
        """Return how many items a delivery may carry, by both attaches."""
        return agreed_items(self._pack_items, theirs.properties)

    def next_attach(self, frame: Attach) -> Attach:
        """Return this side's attach for its next link, made from the one it began with."""
        return frame

    @property
    def credit(self) -> int:
        """The deliveries that the sender may send now."""
        link = self._link
        return max(0, link.driver.credit()) if link is not None and link.state is State.ATTACHED else 0

    @property
    def state(self) -> State:
        """The state of the link that the end has now."""
        return State.UNATTACHED if self._link is None else self._link.state

    @property
    def _driver(self) -> Driver:
        assert self._link is not None, "bind comes first"
        return self._link.driver

    def _send(self, frame: Frame) -> None:
        assert self._link is not None, "bind comes first"
        self._link.send(frame)


def sides_of(end: End, asked: Asked) -> Sides:
    """Return the names of the link of an end, and of its sides."""
    if end.beyond is not None:
        return end.beyond.sides(end)
    return Sides(end.place() or "a link", asked.who, "the peer")


def not_attached(end: End, sides: Sides, asked: Asked) -> Culprit:
    """Return the culprit of a link that waits for its peer's attach, or for a connection."""
    if end.state is State.ATTACH_SENT:
        return asked.blame("silent", f"{sides.peer!r:.120} has not answered the attach of {sides.link}", sides.peer)
    return asked.blame("away", f"{sides.peer!r:.120} is away: {sides.link} is not attached", sides.peer)
