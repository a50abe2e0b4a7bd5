"""The state of the receiving end of a link, for its owner, for `explain` and for the operators behind it."""

from __future__ import annotations

from functools import partial
from typing import Final, Generic, TypeVar

from rstreams._core.beyond import Open
from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import ASK, FAULTS, ITEMS, OUTCOMES, ROOM, SEND, Asked, Counts, Scannable, Waits, Want, Way
from rstreams._core.spell import Spell
from rstreams._core.waits import LINK, circle, why_no_room
from rstreams.abc import Subscriber
from rstreams.culprits import WaitTree
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.driver import IntakeLimits
from rstreams.protocol.end import End, not_attached, sides_of
from rstreams.protocol.incoming_items import IncomingItems
from rstreams.protocol.incoming_outcomes import IncomingOutcomes
from rstreams.protocol.life import ReceiverLife, ReceiverPhase
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.states import State
from rstreams.protocol.tally import Tally

T = TypeVar("T")

SILENT: Final[ReceiverPhase] = ReceiverPhase.SILENT

ENDS: Final = (ReceiverPhase.ENDING, ReceiverPhase.LEFT)
"""The phases in which the publisher has ended, and the subscriber has not got the end yet."""


class ReceiverState(End, Scannable, Generic[T]):
    """The base of `LinkSubscription`: the questions that others ask it. No answer changes anything.

    Attributes:
        ledger: Its demand, and the credit granted for it.
        streams: Whether deliveries are handed over in parts, as they come.
        window_bytes: The most bytes expected, buffered and unsettled together; 0 for any number.
        full: While it grants no credit because of the items in hand; also because its subscriber has no room for more,
            if it asks for as many as it has room for. It ends with the link.
    """

    _options: ReceivingOptions[T]
    _life: ReceiverLife
    _subscriber: Subscriber[T]
    _items: IncomingItems[T]
    _outcomes: IncomingOutcomes
    _settled: bool
    _requested: int
    ledger: CreditLedger
    full: Spell
    streams = False
    window_bytes: int

    @property
    def intake(self) -> IntakeLimits:
        """The limits for incoming deliveries: this end itself."""
        return self

    def room_bytes(self) -> int:
        """Return how many bytes of deliveries are taken now: any number if none are on hand, or after the end."""
        bound = self.ledger.bound
        return UNBOUNDED if bound is None or self.ended else bound.room()

    @property
    def ended(self) -> bool:
        """Return whether the subscriber gets no more signals."""
        return self._life.phase is SILENT

    @property
    def wants_link(self) -> bool:
        """Whether a lost link should be replaced: neither side has ended the subscription."""
        return self._life.phase not in (*ENDS, SILENT)

    @property
    def window(self) -> int:
        """Return how many items can be held at once before no further one comes; any number if they come settled."""
        return UNBOUNDED if self._settled else self.ledger.window - self.ledger.pack + 1  # room for a whole pack

    @property
    def comes_settled(self) -> bool:
        """Whether the items are settled before they come, and cannot be given back."""
        return self._settled

    @property
    def losses(self) -> int:
        """The number of losses of the link, with or without a return."""
        return self._outcomes.losses

    @property
    def last_kept(self) -> bytes | None:
        """The last message that has come and was not handed over; None if there is none."""
        return self._items.buffer.last

    @property
    def late(self) -> int:
        """The number of outcomes that came after the link of their delivery was lost."""
        return self._outcomes.late

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._subscriber

    def counts(self) -> Counts:
        """Return how many items were requested, handed over, and received ahead of demand."""
        return Counts(self._requested, self._items.delivered, len(self._items.buffer))

    @property
    def label(self) -> str:
        """Its name in `explain`."""
        return self._options.label

    def waits_when_quiet(self, way: Way) -> Waits:
        """Return that its subscriber must ask before it sends something, unless items are still to come."""
        counts = self.counts()
        if way != SEND or counts.outstanding or counts.buffered:
            return None
        return [(ASK, self._subscriber)]

    @property
    def at_rest(self) -> bool:
        """Whether no items are on their way: no credit is left, and no items wait to be handed over."""
        return not self._items.buffer and (self.state is not State.ATTACHED or self._driver.credit() <= 0)

    @property
    def in_hand(self) -> int:
        """The number of items that have come and are not settled."""
        return self.ledger.buffered + self.ledger.unsettled

    def _note_full(self, credit: int) -> None:
        """Note whether it grants no credit because of the items in hand, or because its subscriber has no room."""
        has_no_room = self._options.asks_for_room and not self.ledger.demand
        full = credit <= 0 and self.ledger.may_grant and (self.in_hand > 0 or has_no_room)
        if full is not self.full.lasts:
            self.full.note(lasts=full)

    @property
    def blocked_spell(self) -> Spell:
        """See `End`."""
        return self.full

    def tally(self) -> Tally:
        """Return the numbers of its items."""
        items, others, unsettled = self._items.delivered, self._outcomes.not_taken, self.ledger.unsettled
        return Tally(
            waiting=self.ledger.buffered,
            unsettled=unsettled,
            items=items,
            accepted=max(0, items - unsettled - others.total() - self.late),
            rejected=others["rejected"],
            released=others["released"],
            modified=others["modified"],
        )

    @property
    def full_of(self) -> str:
        """What fills it while it grants no credit: "items in hand", or "no room behind it"; else ""."""
        if not self.full.lasts:
            return ""
        return "items in hand" if self.in_hand else "no room behind it"

    @property
    def waits_for(self) -> str:
        """The reason for waiting that `explain` shows: the outcomes of the items in hand, or its peer."""
        in_hand, window = self.in_hand, self.ledger.window
        if in_hand >= window and not (self.state is State.ATTACHED and self._driver.credit() > 0):
            oldest = self._options.oldest()
            return f"it waits for the outcomes of {in_hand} items in hand, as many as its window allows{oldest}"
        peer = self.place().partition(", ")[0] or "the peer"
        if self.state is State.ATTACH_SENT:
            return f"{peer} has not answered the attach"
        if self.state is not State.ATTACHED:
            return "it waits to be attached"
        if self.ledger.demand == 0:
            return "its subscriber asks for no items"
        credit = self.credit
        text = f"{peer} has credit for {credit} {'delivery' if credit == 1 else 'deliveries'}"
        if in_hand and self._outcomes.loose.wanted:  # it has said so, and may have found room or run out of items since
            text += f", and may keep no more items unsettled than the {in_hand} in hand{self._options.oldest()}"
        return text

    # who waits for whom; see `rstreams._core.waits`

    def part(self, want: Want | None, asked: Asked) -> WaitTree:  # noqa: PLR0911 - a table of states
        """Return the link, with what it waits for.

        Args:
            want: What is wanted of it: "items" by its subscriber, "room" by its peer; None: nobody asks but a user.
            asked: The question.
        """
        sides = sides_of(self, asked)
        here = f"{LINK}{sides.link} at {sides.own}"
        before = circle(here, asked)
        if before is not None:
            return before
        asked = asked.through(here)
        link = partial(WaitTree, "link", sides.link)
        if self.state is not State.ATTACHED:
            return link("it is not attached", not_attached(self, sides, asked))
        if want == FAULTS:
            return link("", None, (why_no_room(self._subscriber, asked, FAULTS),))
        in_hand, window, demand = self.in_hand, self.ledger.window, self.ledger.demand
        granted = max(self._driver.credit(), 0)
        state = f"{in_hand} in hand, window {window}, credit {granted}"
        is_full = in_hand >= window or bool(in_hand and self._outcomes.loose.wanted)
        if (not granted and (is_full or not demand or self.ledger.suspended)) or (want == OUTCOMES and in_hand):
            why = f"does not settle the {in_hand} items that it has" if in_hand else "asks for no items"
            slow = asked.blame("slow_consumer", f"{asked.consumer} {why}", for_s=self.full.present_s or None)
            # What has come may be a message that fails again and again, which only a node knows.
            beyond = Open(self, FAULTS, asked.trail) if want is None else None
            return link(state, slow, (why_no_room(self._subscriber, asked),), end=beyond)
        if want == OUTCOMES:
            return link(state)
        if want == ROOM:
            told = f"the window of {asked.consumer}, {window} items, is too small for the network: it has {in_hand}"
            return link(state, asked.blame("small_window", told))
        idle = asked.blame("publisher_idle", f"nothing comes from {sides.peer!r:.120} on {sides.link}", sides.peer)
        return link(state, idle, end=Open(self, ITEMS, asked.trail))

    @property
    def through(self) -> bool:
        """Whether it has ended, and all received items are settled."""
        return self.ended and not self.in_hand
