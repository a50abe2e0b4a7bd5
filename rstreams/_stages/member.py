"""The subscription of one of several subscribers that share a run; the run is in `shared_run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from rstreams._core.claims import Claims
from rstreams._core.demand import add_demand, demand_error
from rstreams._core.scheduler import current_scheduler
from rstreams._core.sight import ASK, SEND, Scannable, Waits, Way
from rstreams._core.threads import get_ident, refuse_thread
from rstreams.abc import Hold, Scheduler, Subscriber, Subscription

T = TypeVar("T")


class MembersRun(Protocol):
    """What a member uses of its run."""

    @property
    def label(self) -> str:
        """The operator's name."""
        ...

    @property
    def window(self) -> int:
        """The most items that can be held at once."""
        ...

    @property
    def failure(self) -> BaseException | None:
        """The error of the source, also if it waits further up."""
        ...

    @property
    def waits_for(self) -> str:
        """The reason for waiting, besides the source."""
        ...

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that the items come from."""
        ...

    def rests(self) -> bool:
        """Tell whether the source is being read, and nothing is being done now or in the next turn."""
        ...

    def hold(self) -> Hold:
        """Claim the item that is being passed on."""
        ...

    def update(self) -> None:
        """Serve the members."""
        ...

    def leave(self, *members: Any) -> None:  # noqa: ANN401 - likewise
        """Take out members that have cancelled."""
        ...

    def refuse(self, member: Any, error: BaseException) -> None:  # noqa: ANN401 - likewise
        """Handle an exception raised by a member's subscriber."""
        ...


def require_thread_of(members: Sequence[Member[Any]], call: str) -> None:
    """Refuse a call from another thread than that of the subscribers, because they would be called in it."""
    if members and get_ident() != members[0].thread:
        refuse_thread(call, members[0].thread)


class Member(Scannable, Generic[T]):
    """The subscription of one of several subscribers.

    Attributes:
        subscriber: The subscriber.
        scheduler: The scheduler of the scope it subscribed in, if there is one.
        thread: The thread it subscribed in, which alone may call it.
        requested: The number of items requested in all.
        limit: The items requested and not yet received, or the number of the last requested item in the run's count.
        ended: Whether it has cancelled or got the end.
    """

    __slots__ = (
        "__weakref__",
        "_emitting",
        "_run",
        "ended",
        "limit",
        "requested",
        "scheduler",
        "subscriber",
        "thread",
    )

    def __init__(self, run: MembersRun, subscriber: Subscriber[T]) -> None:
        self._run = run
        self._emitting: Claims | None = None
        self.thread = get_ident()
        self.scheduler: Scheduler | None = current_scheduler.get(None)
        self.subscriber = subscriber
        self.requested = 0
        self.limit = 0
        self.ended = False

    def request(self, n: int) -> None:
        if get_ident() != self.thread:
            refuse_thread(f"request({n})", self.thread)
        if self.ended:
            return
        error = demand_error(n)
        if error is not None:
            self.cancel()
            self.subscriber.on_error(error)  # 3.9
            return
        self.requested += n
        self.limit = add_demand(self.limit, n)
        self._run.update()

    def cancel(self) -> None:
        if get_ident() != self.thread:
            refuse_thread("cancel()", self.thread)
        if not self.ended:
            self.ended = True
            self._run.leave(self)

    def hold(self) -> Hold:
        emitting = self._emitting
        return self._run.hold() if emitting is None else emitting.hold()

    @property
    def window(self) -> int:
        """The most items that can be held at once before no further one comes."""
        return self._run.window

    @property
    def failure(self) -> BaseException | None:
        """The error that the source has sent, and that waits behind items."""
        return self._run.failure

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self.subscriber

    @property
    def label(self) -> str:
        """The operator's name."""
        return self._run.label

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that the items come from."""
        return self._run.upstreams()

    @property
    def waits_for(self) -> str:
        """The reason for waiting, besides the source."""
        return self._run.waits_for

    def waits_to(self, way: Way) -> Waits:
        """Return the events that must happen before it sends its subscriber something."""
        run = self._run
        if way != SEND or self.ended or not run.rests():
            return None
        return [*((SEND, each) for each in run.upstreams()), (ASK, run if self.wants else self.subscriber)]

    # the run calls these

    @property
    def wants(self) -> bool:
        """Tell whether it has requested something that it has not got."""
        return self.limit > 0

    def emit(self, item: T, kept: Claims) -> None:
        """Send a kept item; the caller owns `kept`, the claim on it."""
        claim = kept.hold()
        self._emitting = kept
        try:
            self.subscriber.on_next(item)
        except BaseException as error:
            claim.fail(error)
            self._run.refuse(self, error)
        finally:
            self._emitting = None
            claim.done()
