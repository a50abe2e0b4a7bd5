"""The state of the sending end of a link, for its owner, and for the node and the connection behind it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rstreams._core.beyond import Open
from rstreams._core.sight import FAULTS, ITEMS, OUTCOMES, ROOM, Asked, Want
from rstreams._core.spell import Spell
from rstreams._core.waits import LINK, circle, why_no_items
from rstreams.culprits import WaitTree
from rstreams.protocol.ages import Ages
from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.driver import Driver
from rstreams.protocol.end import End, not_attached, sides_of
from rstreams.protocol.life import SenderLife, SenderPhase
from rstreams.protocol.local_publisher import LocalPublisher
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_deliveries import OutgoingDeliveries
from rstreams.protocol.outgoing_items import OutgoingItems
from rstreams.protocol.states import State
from rstreams.protocol.tally import Tally
from rstreams.protocol.unsettled import UnsettledBound


class SenderState(End):
    """The base of `LinkSubscriber`: the questions that others ask it. No answer changes anything.

    Attributes:
        outcome_unknown: Items sent and not settled when the link ended.
        left: Whether it has ended by `leave`, before the publisher ended.
        ledger: The items that are owed and held.
        blocked: While it has an item, and cannot send it: there is no credit, the window of the session is closed, its
            connection takes no more bytes, or too many items are unsettled. It ends with the link.
    """

    _life: SenderLife
    _options: SendingOptions
    _items: OutgoingItems
    _publisher: LocalPublisher[Any]
    _deliveries: OutgoingDeliveries
    _bound: UnsettledBound
    _ends_at_loss = True  # when all items are settled, and only the peer's answer to the detach is missing
    outcome_unknown: int
    left: bool
    ledger: SenderLedger
    blocked: Spell
    _lacks_room: bool  # the connection takes no more bytes
    _ages: Ages

    @property
    def intake(self) -> None:
        """None: no deliveries come to this end."""

    @property
    def wants_link(self) -> bool:
        """Whether a lost link should be replaced: it has not ended for good."""
        return self._life.phase is not SenderPhase.FINISHED

    @property
    def unsettled(self) -> int:
        """Items sent whose outcome has not come."""
        return self._bound.items + len(self._items.numbers.again)

    @property
    def oldest_s(self) -> float:
        """How long the oldest unsettled delivery of its link waits for the outcome, in seconds; 0 if there is none.

        It may be half a second too short.
        """
        if not self._bound.items or self.state is not State.ATTACHED:
            return 0.0
        driver = self._driver
        sent_at_s = self._deliveries.sent_at_s(self._ages, driver)
        return 0.0 if sent_at_s is None else max(0.0, driver.now_s() - sent_at_s)

    @property
    def held_back(self) -> bool:
        """Whether it has credit, and the limit of unsettled items is reached."""
        return self._bound.held_back

    @property
    def waits_for(self) -> str:
        """The reason for waiting although it has credit; empty unless the limit of unsettled items is reached."""
        return f"waits for settlement: {self._bound.items} unsettled" if self._bound.held_back else ""

    @property
    def is_shut(self) -> bool:
        """Whether the peer has closed the window of the link's session, or its window is used up by waiting items."""
        return self.state is State.ATTACHED and self._driver.is_shut(used_up=True)

    @property
    def blocked_by(self) -> str:
        """What it waits for while it is blocked: "credit", "session window", "settlement" or "connection"; else ""."""
        if not self.blocked.is_so:
            return ""
        if self.is_shut:
            return "session window"
        if self._driver.credit() <= 0:
            return "credit"
        return "settlement" if self._bound.held_back else "connection"

    def look_at_window(self) -> None:
        """Note whether the window of the session is used up: no frame tells that."""
        link = self._link
        if not self.blocked.lasts and link is not None and link.state is State.ATTACHED and link.driver.queued():
            self._note_blocked(link.driver, looks=True)

    def _note_blocked(self, driver: Driver, *, looks: bool = False) -> None:
        """Note whether it has an item and cannot send it; `looks`: look also for a window that is used up."""
        lasts, within = False, None
        shut = driver.is_shut(used_up=looks or self.blocked.lasts)
        if shut or driver.credit() <= 0 or self._bound.held_back or self._lacks_room:
            if self._items.payloads or self._deliveries.body is not None or (shut and driver.queued()):
                lasts = True
            elif not self._publisher.completed and self._publisher_waits():
                lasts, within = True, self._publisher.unasked
        if lasts is not self.blocked.lasts or within is not self.blocked.within:
            self.blocked.note(lasts=lasts, within=within)

    def _publisher_waits(self) -> bool:
        """Tell whether the publisher has an item, or may have one when it is asked."""
        return not self._options.made_on_demand

    def _unblock(self) -> None:
        """Note that the link has ended: it is not blocked by its peer."""
        if self.blocked.lasts:
            self.blocked.note(lasts=False)

    def stall(self) -> str:
        """Return why the link asks for no more; empty, unless a subclass knows a reason."""
        return ""

    # who waits for whom; see `rstreams._core.waits`

    @property
    def wants_credit(self) -> bool:
        """Whether there is something to send, or the publisher may have something."""
        return bool(self._items.payloads) or not self._publisher.completed

    def part(self, want: Want | None, asked: Asked) -> WaitTree:  # noqa: PLR0911 - a table of states
        """Return the link, with what it waits for.

        Args:
            want: What is wanted of it: "room" by its publisher, "items" by its peer; None: nobody asks but a user.
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
            return link("", None, tuple(why_no_items(each, asked, FAULTS) for each in self._publisher.upstreams()))
        peer, credit, unsettled = f"{sides.peer!r:.120}", max(self._driver.credit(), 0), self.unsettled
        state = f"credit {credit}, {unsettled} unsettled"
        blame = partial(asked.blame, name=sides.peer, for_s=self.blocked.present_s or None)
        if self.is_shut and self.wants_credit:
            return link(state, blame("window_closed", f"{peer} has closed the window of the session"))
        if not credit and self.wants_credit:
            if want == ITEMS:
                return link(state, blame("small_window", f"the window of {peer} is too small for the network"))
            return link(state, blame("no_credit", f"no credit from {peer}"), end=Open(self, ROOM, asked.trail))
        if self._bound.held_back:
            slow = blame("slow_consumer", f"no outcomes from {peer}")
            return link(state, slow, end=Open(self, OUTCOMES, asked.trail))
        if want == ROOM or self._publisher.completed:
            return link(state, end=Open(self, OUTCOMES, asked.trail) if unsettled else None)
        idle = asked.blame("publisher_idle", f"{asked.publisher} is idle: nothing is there for {sides.link}")
        above = tuple(why_no_items(each, asked) for each in self._publisher.upstreams())
        return link(state, idle, above, end=Open(self, FAULTS, asked.trail) if self._deliveries.refuses else None)

    @property
    def accepted(self) -> int:
        """Items that the receiver has accepted; at most once: items sent."""
        return self._deliveries.accepted

    @property
    def sent(self) -> int:
        """Items sent, each counted once, when the link has ended."""
        return self._deliveries.accepted + self._deliveries.refused + self.outcome_unknown

    @property
    def blocked_spell(self) -> Spell:
        """See `End`."""
        return self.blocked

    def tally(self) -> Tally:
        """Return the numbers of its items."""
        deliveries, unsettled = self._deliveries, self.unsettled
        others = deliveries.not_taken
        return Tally(
            waiting=len(self._items.payloads) - len(self._items.numbers.again),
            unsettled=unsettled,
            items=self.sent + unsettled,
            accepted=deliveries.accepted,
            rejected=others["rejected"],
            released=others["released"],
            modified=others["modified"],
        )

    @property
    def unsent(self) -> int:
        """Items that the publisher gave, and that were not sent when the link had ended."""
        return self._items.numbers.unsent

    @property
    def refused(self) -> Mapping[int, Outcome]:
        """The outcomes of items that were not accepted, by their numbers in the stream, counted from 0.

        They are kept only by an end that stops at the first of them.
        """
        return self._items.numbers.refused

    @property
    def unencodable(self) -> bool:
        """Whether it ends because an item of the publisher could not be encoded."""
        return self._publisher.unencodable

    @property
    def late(self) -> int:
        """Outcomes that came for items that were not waited for any more."""
        return self._deliveries.late

    @property
    def resent(self) -> int:
        """Items sent again after a loss."""
        return self._deliveries.resent

    @property
    def at_rest(self) -> bool:
        """Whether no items are held here, and none that were sent wait for their outcome."""
        return not self._items.payloads and self._deliveries.at_rest

    @property
    def _through(self) -> bool:
        """Whether the publisher has ended, and all its items are sent and settled."""
        return self._publisher.completed and self.at_rest

    @property
    def _needs_no_link(self) -> bool:
        """Whether at most the peer's answer to the last detach is missing: a lost link is not replaced for that."""
        return self._through and not self._options.settled and self._ends_at_loss

    @property
    def _awaits_outcomes(self) -> bool:
        """Whether the link is detached only when all sent items are settled."""
        return self._options.settle_before_detach and self._life.phase is not SenderPhase.ABORTED
