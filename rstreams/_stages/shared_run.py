"""One run of a source, shared by several subscribers: the base of publish, broadcast, distribute and similar operators.

Theory of operation. A `Sharing` is the one subscriber of the source. It has a `Member` for every subscriber, which is
the subscription of that subscriber. The subclass decides which member gets an item, and how much the source is asked
for: `log` gives each item to every member, `router` gives each item to one member.

There is one rule about order. Every change (a request, a cancel, a new member, an item, the end) is noted, and `update`
serves the members. `_busy` is set while members are served or an item is passed on. A change that comes during that
time, from inside some subscriber's `on_next`, is only noted. Therefore nothing recurses (3.3), signals come one after
the other (1.3), and a member may cancel, request or add another one at any time. The loop works in turns (see `Turn`).

A subscriber that raises in `on_next`, against rule 2.13, counts as cancelled, and its item as failed. If it was the
last subscriber and the run ends with it, its error is raised to the source. Otherwise the error is logged, because
raising it would end the run of all others.

The tasks and timers of the source, and the turns of the loop, belong to the run (`run_tasks`), and to no subscriber's
scope. They end with the run: when it was stopped, or when its source has ended and the last subscriber has left. The
scope of that subscriber waits for their end. A scope that ends takes its members out.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import ref

from rstreams._checks.publishers import require_subscriber, require_subscription
from rstreams._core.scheduler import call_in
from rstreams._core.sight import ASK, CANCEL, SEND, Scannable, Waits, Way, counts_of
from rstreams._core.subscription import ENDED, checked_error
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._core.turn import Turn
from rstreams._stages.lookout import LOOK_AGAIN_S, Lookout
from rstreams._stages.member import Member
from rstreams._stages.run_tasks import RunTasks
from rstreams._stages.stage import failure_of, window_of
from rstreams.abc import Cancellable, Hold, Publisher, Scheduler, Subscriber, Subscription
from rstreams.errors import DemandDeadlock, RStreamsError

T = TypeVar("T")
M = TypeVar("M", bound="Member[Any]")

NOBODY: Final = -1
"""The value of `needs` for a run that begins by `connect()`, with any number of subscribers."""

_logger = logging.getLogger("rstreams")


class Sharing(Scannable, ABC, Generic[T, M]):
    """One run of a source and its subscribers; see the text of this module.

    Attributes:
        members: The present subscribers, in the order in which they came.
        joining: The number of subscribers that are in `on_subscribe`, and not yet members.
        connected: Whether the source has been subscribed to.
        finished: Whether the source has ended; `error` is its error, if any.
        stopped: Whether the run was stopped early.
        on_deserted: Called when the last member has left.
    """

    __slots__ = (
        "_busy",
        "_due",
        "_label",
        "_last_scope",
        "_lookout",
        "_next_turn",
        "_tasks",
        "_turn",
        "_upstream",
        "connected",
        "error",
        "finished",
        "joining",
        "members",
        "needs",
        "on_deserted",
        "stopped",
    )

    part_name = "subscriber"

    def __init__(self, label: str) -> None:
        """Start without members; `label` is the operator's name."""
        self._label = label
        self._lookout = Lookout(self)
        self._tasks = RunTasks(self._task_failed, self._leave_with, self._a_scope)
        self._turn: Turn[Scheduler] = Turn(None)
        self._last_scope: ref[Scheduler] | None = None  # of the member that has left last
        self._upstream: Subscription = ENDED
        self._busy = False
        self._due = False  # something has changed since the last time members were served
        self._next_turn: Cancellable | None = None
        self.members: list[M] = []
        self.joining = 0
        self.connected = False
        self.finished = False
        self.stopped = False
        self.error: BaseException | None = None
        self.on_deserted: Callable[[], None] | None = None
        self.needs = 0  # the number of subscribers that begins the run, or NOBODY

    # publishers call these

    def connect(self, source: Publisher[T]) -> None:
        """Start the run, unless it has been started."""
        if not self.connected:
            self.connected = True
            if not self.members:
                self._open_tasks()
            call_in(self._tasks.scheduler, source.subscribe, self)

    def join(self, subscriber: Subscriber[T]) -> M:
        """Add a subscriber, and return its subscription."""
        require_subscriber(subscriber)
        member = self._member(subscriber)
        self.admit(member)
        return member

    def admit(self, member: M) -> None:
        """Add the member of a subscriber, unless it cancels at once; refuse it in another thread than the run's."""
        self.refuse_other_threads("subscribe()")
        if not self.members:
            self._open_tasks()
        self.joining += 1
        try:
            member.subscriber.on_subscribe(member)
        except BaseException:
            member.ended = True  # 2.13
            raise
        finally:
            self.joining -= 1
            if member.ended and self.connected and not self.finished:  # the others may have left in the meantime
                self._note_last(member)
                self._see_if_deserted()
        if not member.ended:
            self._place(member)
            self.members.append(member)
            self._tasks.watch(member.scheduler)
            self.update()

    def stop(self) -> None:
        """Stop the run early: cancel the source, and give kept items back."""
        if not self.stopped:
            self.stopped = True
            upstream, self._upstream = self._upstream, ENDED
            upstream.cancel()  # first: items that are given back must not come again
            self._let_go()
            self._end_tasks(self._a_scope())

    def disconnect(self, error: BaseException) -> None:
        """Stop the run early; present and later members end with `error`."""
        if not self.finished and not self.stopped:
            self.stop()
            self.finished = True
            self.error = error
            self.update()

    def forsake(self) -> None:
        """Note that nobody can subscribe any more: a run without subscribers ends. May come from any thread."""
        scheduler = self._tasks.scheduler
        if scheduler is not None and self.connected and not self.finished and not self.stopped:
            scheduler.post(self._end_with_last)

    def refuse_other_threads(self, call: str) -> None:
        """Refuse a `call` in another thread than that of the run: that of its subscribers, and of its event loop."""
        if self.members and get_ident() != self.members[0].thread:
            refuse_thread(call, self.members[0].thread, "the shared run")
        if self.connected and not self.finished and not self.stopped:
            self._tasks.refuse_other_threads(call)

    # the source calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self.finished or self.stopped:
            subscription.cancel()  # 2.5
            return
        self._upstream = subscription
        self.update()

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Receive an item of the source."""

    def on_error(self, error: BaseException) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        if not self.finished and not self.stopped:
            self.finished = True
            self.error = checked_error(error)
            self._lookout.stop()
            self.update()

    def on_complete(self) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        if not self.finished and not self.stopped:
            self.finished = True
            self._lookout.stop()
            self.update()

    # members call these

    def leave(self, member: M) -> None:
        """Take out a member that has cancelled; its `ended` is set."""
        if member in self.members:
            self._take_out(member)
            self._members_left()

    def _members_left(self) -> None:
        self._lookout.stop()
        self._see_if_deserted()
        self.update()

    def _end_with_last(self) -> None:
        self.on_deserted = self.stop
        self._see_if_deserted()

    def _see_if_deserted(self) -> None:
        """Call `on_deserted` if there are no members, and none is being added."""
        if not self.members and not self.joining and self.on_deserted is not None:
            self.on_deserted()

    def refuse(self, member: M, error: BaseException) -> None:
        """Handle an exception raised by a member's subscriber; called while it is being handled."""
        member.cancel()
        if not isinstance(error, Exception):
            self.disconnect(error)
            raise error
        if not self.members and self._is_over():
            raise error
        _logger.error("a subscriber of a shared stream raised; it counts as cancelled", exc_info=error)

    def hold(self) -> Hold:
        """Claim the item that is being passed on."""
        return self._upstream.hold()

    @property
    def window(self) -> int:
        """The most items of the source that can be held at once."""
        return window_of(self._upstream)

    @property
    def failure(self) -> BaseException | None:
        """The error of the source, also if it waits further up."""
        return failure_of(self._upstream) if self.error is None else self.error

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscription of the run."""
        return () if self._upstream is ENDED else (self._upstream,)

    @property
    def waits_for(self) -> str:
        """The reason for waiting of the members that `explain` shows, besides the source."""
        there = len(self.members)
        if not self.connected:
            if self.needs == NOBODY:
                return "it waits for connect()"
            return f"it waits for subscriber {there + 1} of {self.needs}" if self.needs > there else ""
        counts = [counts_of(member) for member in self.members]
        full = [str(number) for number, each in enumerate(counts, 1) if each is not None and not each.outstanding]
        which = f"subscriber {' and '.join(full)} of {there}, which asked for no more"
        return f"it waits for {which}" if full and there > 1 else ""

    def require_own_thread(self, call: str) -> None:
        """Refuse a call from another thread than that of the subscribers, because they would be called in it."""
        if self.members and get_ident() != self.members[0].thread:
            refuse_thread(call, self.members[0].thread)

    def update(self) -> None:
        """Serve the members now or, if they are being served, after the current step."""
        self._due = True
        if not self._busy and self._next_turn is None:
            self._take_turn()

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def label(self) -> str:
        """The operator's name."""
        return self._label

    @property
    def describes(self) -> str:
        """The operator's name."""
        return self.label

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, int, int]:
        """The number of subscribers, the most items kept for one of them, and the limit for these."""

    @property
    def stands(self) -> str:
        """The numbers as text."""
        live, kept, window = self.numbers
        return (
            f"{self.label} has {live} subscribers, keeps {kept} items that one of them has not asked for "
            f"(window={window}), and reads no further until that one asks for them"
        )

    @property
    def blocked(self) -> bool:
        """Tell whether a member wants more, and another one prevents a request."""
        return False

    def is_dead(self, deadlock: DemandDeadlock) -> None:
        """End all of it."""
        self.disconnect(deadlock)

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen before the source is asked for more, or cancelled."""
        if way == SEND or not self._rests():
            return None
        if way == CANCEL:
            return [(CANCEL, member.subscriber) for member in self.members]
        holding_up = self._holding_up()
        if holding_up is None:
            return None
        return [(SEND, self._upstream), *((ASK, member.subscriber) for member in holding_up)]

    def waits_to_serve(self, member: M) -> Waits:
        """Return the events that must happen before a member gets something."""
        if member.ended or not self._rests():
            return None
        return [(SEND, self._upstream), (ASK, self if self._wants(member) else member.subscriber)]

    def _rests(self) -> bool:
        """Tell whether the source is being read, and nothing is being done now or in the next turn."""
        if not self.members or self.joining or self._upstream is ENDED or self._is_over():
            return False
        return not self._busy and not self._due and self._next_turn is None

    def _holding_up(self) -> Sequence[M] | None:
        """Return the members of which one must ask before the source is asked; None if others may come and ask."""
        return None

    def _wants(self, member: M) -> bool:
        """Tell whether a member has requested something that it has not got."""
        return member.limit > 0

    # the subclass writes these

    @abstractmethod
    def _member(self, subscriber: Subscriber[T]) -> M:
        """Return the subscription of a new subscriber."""

    def _place(self, member: M) -> None:
        """Give a new member its place among the others."""

    def _left(self, member: M) -> None:
        """Note that a member is about to be taken out."""

    @abstractmethod
    def _next(self) -> M | None:
        """Return a member that can get a kept item, None if there is none."""

    @abstractmethod
    def _serve_item(self, member: M) -> None:
        """Send `member` the next item kept for it."""

    @abstractmethod
    def _is_through(self, member: M) -> bool:
        """Tell whether no item is kept for `member`; it can then get the end."""

    def _settle(self) -> None:
        """Bring the kept items up to date, after all members have been served."""

    @abstractmethod
    def _ask(self) -> None:
        """Request items from the source."""

    def _let_go(self) -> None:
        """Give kept items back, because they will not be emitted."""

    def _is_over(self) -> bool:
        """Tell whether no more signals come for any member."""
        return self.stopped or self.finished

    # the loop

    def _take_turn(self) -> None:
        self._next_turn = None
        self._busy = True
        try:
            while self._due:
                self._due = False
                if not self._serve():
                    self._due = True
                    return
            self._settle()
        finally:
            self._busy = False
        if not self.stopped:
            self._ask()
            if self.blocked:
                self._lookout.begin(self._tasks.scheduler, after_s=LOOK_AGAIN_S)

    def _serve(self) -> bool:
        """Send kept items as far as there is demand, and the end; return False if the turn was over before."""
        turn, steps = self._turn.begin(), 0
        while (member := self._next()) is not None:
            if steps >= turn.look_at and turn.is_over(steps):
                self._next_turn = turn.go_on(self._take_turn)
                return False
            steps += 1
            self._serve_item(member)
        if self.finished:
            for each in tuple(self.members):
                if not each.ended and self._is_through(each):
                    self._end(each)
        return True

    def _end(self, member: M) -> None:
        member.ended = True
        self._take_out(member)
        if self.error is None:
            member.subscriber.on_complete()
        else:
            member.subscriber.on_error(self.error)

    def _take_out(self, member: M) -> None:
        self._left(member)
        self.members.remove(member)
        self._note_last(member)
        if not any(other.scheduler is member.scheduler for other in self.members):
            self._tasks.forget(member.scheduler)
        if self.finished and not self.members:
            self._end_tasks(member.scheduler)

    def _leave_with(self, scope: Scheduler) -> None:
        """Take out all members of a scope, before any other one gets something because of it."""
        for member in tuple(self.members):
            if member.scheduler is scope and not member.ended:
                member.ended = True
                self._take_out(member)
        self._members_left()

    # the tasks of the run

    def _open_tasks(self) -> None:
        """Have a scheduler, if this is a scope; called while there are no members."""
        if self._tasks.lost and self.connected and not self.finished and not self.stopped:
            self._upstream = ENDED  # nobody can call it any more
            self.finished = True
            self.error = RStreamsError(f"{self.label}: the event loop that the shared run began in has ended")
        self._tasks.open()
        self._turn = Turn(self._tasks.scheduler)

    def _note_last(self, member: M) -> None:
        self._last_scope = None if member.scheduler is None else ref(member.scheduler)

    def _a_scope(self) -> Scheduler | None:
        """Return the scope of a member, or of the one that has left last."""
        if self.members:
            return self.members[0].scheduler
        return None if self._last_scope is None else self._last_scope()

    def _end_tasks(self, last: Scheduler | None) -> None:
        self._lookout.stop()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        self._tasks.end(last)

    def _task_failed(self, error: BaseException) -> bool:
        heard = bool(self.members)
        if self.connected:
            self.disconnect(error)
        self.update()
        return heard
