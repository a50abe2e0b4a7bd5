"""One run of a source, shared by several subscribers: the base of publish, broadcast, distribute and similar operators.

Theory of operation. A `Sharing` is the one subscriber of the source (`run_of_source`). It has a `Member` for every
subscriber, which is the subscription of that subscriber. The subclass decides which member gets an item, and how much
the source is asked for (`dispatching`): `log` gives each item to every member, `router` gives each item to one member.

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

from typing import Any, Final, Generic, TypeVar
from weakref import ref

from rstreams._checks.publishers import require_subscriber
from rstreams._core.kept_errors import KeptError
from rstreams._core.nesting import is_deep, too_deep
from rstreams._core.scheduler import call_in
from rstreams._core.sight import ASK, CANCEL, SEND, Waits, Way, counts_of
from rstreams._core.subscription import ENDED
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._core.turn import Turn
from rstreams._events.table import STREAM_SUBSCRIBER_RAISED
from rstreams._stages.dispatching import Dispatching
from rstreams._stages.lookout import LOOK_AGAIN_S, Lookout
from rstreams._stages.member import Member
from rstreams._stages.run_of_source import Phase, RunOfSource
from rstreams._stages.run_tasks import RunTasks
from rstreams.abc import Cancellable, Publisher, Scheduler, Subscriber
from rstreams.errors import RStreamsError

T = TypeVar("T")
M = TypeVar("M", bound="Member[Any]")

NOBODY: Final = -1
"""The value of `needs` for a run that begins by `connect()`, with any number of subscribers."""


class Sharing(RunOfSource[T], Dispatching[T, M], Generic[T, M]):
    """One run of a source and its subscribers; see the text of this module.

    Attributes:
        joining: The number of subscribers that are in `on_subscribe`, and not yet members.
        needs: The number of subscribers that begins the run, or NOBODY.
        publisher: A reference to its publisher. When that is gone, nobody else can subscribe.
        stops_when_deserted: Whether it stops when the last member has left, because no other one will come.
    """

    __slots__ = (
        "_busy",
        "_due",
        "_lookout",
        "_next_turn",
        "_tasks",
        "_turn",
        "joining",
        "members",
        "needs",
        "publisher",
        "stops_when_deserted",
    )

    part_name = "subscriber"
    stands = (
        "has {live} {part}s, keeps {kept} items that one of them has not asked for (window={most}), and reads no "
        "further until that one asks for them"
    )

    def __init__(self, label: str) -> None:
        """Start without members; `label` is the operator's name."""
        super().__init__(label)
        self._lookout = Lookout(self)
        self._tasks = RunTasks(self)
        self._turn = Turn(None)
        self._busy = False
        self._due = False  # something has changed since the last time members were served
        self._next_turn: Cancellable | None = None
        self.members: list[M] = []
        self.joining = 0
        self.needs = 0
        self.publisher: ref[Any] | None = None
        self.stops_when_deserted = False

    # publishers call these

    def connect(self, source: Publisher[T]) -> None:
        """Start the run, unless it has been started."""
        if self.phase is Phase.WAITING:
            self.phase = Phase.RUNNING
            if not self.members:
                self._open_tasks()
            if is_deep(_CONNECT):  # a `RecursionError` later, in a signal, would look like one of a subscriber
                self.on_error(too_deep(self.label))
                return
            self._call(call_in, self._tasks.scheduler, source.subscribe, self)

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
            if member.ended and self.phase is Phase.RUNNING:  # the others may have left in the meantime
                if not self.members:
                    self._tasks.forget(member.scheduler)
                self._stop_if_deserted()
        if not member.ended:
            self._place(member)
            self.members.append(member)
            self._tasks.watch(member.scheduler)
            self.update()

    def stop(self) -> None:
        super().stop()
        self._end_tasks()

    def disconnect(self, error: BaseException) -> None:
        """Stop the run early; present and later members end with `error`."""
        if not self.over:
            self.stop()
            self.kept_error = KeptError(error)
            self.update()

    def forsake(self) -> None:
        """Note that nobody can subscribe any more: a run without subscribers ends. May come from any thread."""
        scheduler = self._tasks.scheduler
        if scheduler is not None and self.phase is Phase.RUNNING:
            scheduler.post(self._end_with_last)

    def refuse_other_threads(self, call: str) -> None:
        """Refuse a `call` in another thread than that of the run: that of its subscribers, and of its event loop."""
        if self.members and get_ident() != self.members[0].thread:
            refuse_thread(call, self.members[0].thread, "the shared run")
        if self.phase is Phase.RUNNING:
            self._tasks.refuse_other_threads(call)

    # members call these

    def leave(self, *members: M) -> None:
        """Take out members that have cancelled, before any other one gets something because of it."""
        present = [member for member in members if member in self.members]
        for member in present:
            member.ended = True
            self._take_out(member)
        if present:
            self._lookout.stop()
            self._stop_if_deserted()
            self.update()

    def _end_with_last(self) -> None:
        self.stops_when_deserted = True
        self._stop_if_deserted()

    def _stop_if_deserted(self) -> None:
        if self.stops_when_deserted and not self.members and not self.joining:
            self.stop()

    def refuse(self, member: M, error: BaseException) -> None:
        """Handle an exception raised by a member's subscriber; called while it is being handled."""
        member.cancel()
        if not isinstance(error, Exception):
            self.disconnect(error)
            raise error
        if not self.members and self.phase is not Phase.RUNNING:
            raise error
        STREAM_SUBSCRIBER_RAISED.tell(raised=error)

    def update(self) -> None:
        """Serve the members now or, if they are being served, after the current step."""
        self._due = True
        if not self._busy and self._next_turn is None:
            self._take_turn()

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def waits_for(self) -> str:
        """The reason for waiting of the members that `explain` shows, besides the source."""
        there = len(self.members)
        if self.phase is Phase.WAITING:
            if self.needs == NOBODY:
                return "it waits for connect()"
            return f"it waits for subscriber {there + 1} of {self.needs}" if self.needs > there else ""
        counts = [counts_of(member) for member in self.members]
        full = [str(number) for number, each in enumerate(counts, 1) if each is not None and not each.outstanding]
        which = f"subscriber {' and '.join(full)} of {there}, which asked for no more"
        return f"it waits for {which}" if full and there > 1 else ""

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen first."""
        if not self.rests():
            return None
        if way == SEND:
            return [(SEND, self._upstream), *((ASK, member.subscriber) for member in self.members)]
        if way == CANCEL:
            return [(CANCEL, member.subscriber) for member in self.members]
        holding_up = self.holding_up()
        if holding_up is None:
            return None
        return [(SEND, self._upstream), *((ASK, member.subscriber) for member in holding_up)]

    @property
    def others_may_come(self) -> bool:
        return self.publisher is not None and self.publisher() is not None

    def rests(self) -> bool:
        """Tell whether the source is being read, and nothing is being done now or in the next turn."""
        if not self.members or self.joining or self._upstream is ENDED or self.over:
            return False
        return not self._busy and not self._due and self._next_turn is None

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
        if self._upstream is not ENDED or self.phase is not Phase.STOPPED:
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
        if self._upstream is ENDED and self.over:
            self._lookout.stop()
            for each in tuple(self.members):
                if not each.ended and self._is_through(each):
                    self._end(each)
        return True

    def _end(self, member: M) -> None:
        member.ended = True
        self._take_out(member)
        if self.kept_error is None:
            member.subscriber.on_complete()
        else:
            member.subscriber.on_error(self.kept_error.again())

    def _take_out(self, member: M) -> None:
        self._left(member)
        self.members.remove(member)
        if not any(other.scheduler is member.scheduler for other in self.members):
            self._tasks.forget(member.scheduler)
        if self.over and not self.members:
            self._end_tasks()

    # the tasks of the run call these

    def leave_with(self, scope: Scheduler) -> None:
        """Take out all members of a scope that ends."""
        self.leave(*(member for member in self.members if member.scheduler is scope))

    def task_failed(self, error: BaseException) -> bool:
        """End the run with the error of a task; return whether a subscriber has been told."""
        heard = bool(self.members)
        if self.phase is not Phase.WAITING:
            self.disconnect(error)
        self.update()
        return heard

    def _open_tasks(self) -> None:
        """Have a scheduler, if this is a scope; called while there are no members."""
        if self._tasks.lost and self.phase is Phase.RUNNING:
            self._upstream = ENDED  # nobody can call it any more
            self.phase = Phase.ENDED
            over = f"{self.label}: the event loop that the shared run began in has ended"
            self.kept_error = KeptError(RStreamsError(over))
        self._tasks.open()
        self._turn = Turn(self._tasks.scheduler)

    def _end_tasks(self) -> None:
        self._lookout.stop()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        self._tasks.end()


_CONNECT: Final = Sharing.connect.__code__
