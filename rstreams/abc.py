"""The Reactive Streams interfaces: publisher, subscriber, subscription, processor, and the scheduler of stages.

The four interfaces are those of the Reactive Streams specification 1.0.4 for the JVM, written as protocols: any object
with the right methods takes part. Two things are added, because a signal may be an AMQP frame. A subscription can be
asked to *hold* the item that it is delivering: then the acknowledgement of the item waits for the hold. Stages that
need time or tasks get them from a small `Scheduler`.

Signals are plain calls that never block and are never awaited. All objects of one pipeline belong to one trio run and
its thread; other threads go through `rstreams.blocking` or the portal (Reactive Streams 3.5).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, runtime_checkable

from rstreams._core.claims import DONE, NO_HOLD, RELEASED, Claims, Ending, Hold, Settles
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.run import Run, runs_of

__all__ = [
    "DONE",
    "NO_HOLD",
    "RELEASED",
    "Cancellable",
    "Claims",
    "ClaimsInOrder",
    "Ending",
    "Event",
    "Hold",
    "Processor",
    "Publisher",
    "Run",
    "RunScheduler",
    "Scheduler",
    "Settles",
    "Subscriber",
    "Subscription",
    "Suspendable",
    "gather",
    "runs_of",
]

R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@runtime_checkable
class Subscription(Protocol):
    """The link between one publisher and one subscriber: demand goes up through it.

    All three methods are needed: a stage refuses a subscription without `hold`. A subscription whose items need no
    acknowledgement answers `hold` with `rstreams.abc.NO_HOLD`.
    """

    def request(self, n: int) -> None:
        """Ask for `n` more items; demand adds up and saturates at 2^63-1, which means unbounded.

        Errors: `n < 1` ends the subscription with `on_error(DemandError)` (3.9); nothing is raised.
        Context: may be called inside `on_next`, where it never recurses (3.3).
        Spec: Reactive Streams 3.1-3.4, 3.8, 3.9, 3.17.
        """
        ...

    def cancel(self) -> None:
        """End the subscription: no signal reaches the subscriber after this call.

        Calling it again, or after the end, does nothing.
        Spec: Reactive Streams 3.5-3.7, 3.12, 3.13.
        """
        ...

    def hold(self) -> Hold:
        """Take a hold on the item being delivered; only valid inside the subscriber's `on_next`.

        A stage that keeps an item after the return of `on_next` takes a hold, and lets go of it when it is done with
        the item. A source whose items need no acknowledgement returns `NO_HOLD`, which does nothing.
        """
        ...


@runtime_checkable
class Suspendable(Protocol):
    """An optional ability of a subscription: to be silent for a while, although there is demand.

    Demand is kept, only not served; further requests add up as always. Items that are already on their way still come,
    but never more than were requested. A link withdraws the credit that its sender has not used. A subscription without
    these methods goes on. Stages pass both calls on to their source.
    """

    def suspend(self) -> None:
        """Send nothing that is not on its way already; calling it again does nothing."""
        ...

    def resume(self) -> None:
        """Serve the demand again; does nothing if not suspended."""
        ...


@runtime_checkable
class Subscriber(Protocol[T_contra]):
    """The receiving side: `on_subscribe on_next* (on_error | on_complete)?`."""

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription, before any other signal (1.9); request from it to start the flow."""
        ...

    def on_next(self, item: T_contra) -> None:
        """Receive one item; never called more often than items were requested (1.1)."""
        ...

    def on_error(self, error: BaseException) -> None:
        """Receive the failure that ended the stream; no signal follows (1.4, 1.7)."""
        ...

    def on_complete(self) -> None:
        """Receive the successful end of the stream; no signal follows (1.5, 1.7)."""
        ...


@runtime_checkable
class Publisher(Protocol[T_co]):
    """A source of items, sent to each subscriber as fast as that subscriber requests them."""

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Start a new subscription for `subscriber`.

        Errors: `TypeError` if `subscriber` is None (1.9); every other failure reaches it as `on_error`, after
        `on_subscribe`.
        Spec: Reactive Streams 1.9-1.11.
        """
        ...


class Processor(Subscriber[T_contra], Publisher[T_co], Protocol[T_contra, T_co]):
    """A stage that is both: a subscriber of `T_contra` and a publisher of `T_co` (bound by the rules of both)."""


class Cancellable(Protocol):
    """Something started by a `Scheduler` that can be stopped."""

    def cancel(self) -> None:
        """Stop it; does nothing once it has ended. The task sees the cancellation at its next checkpoint."""
        ...


class Event(Protocol):
    """An event that happens once, and that tasks can wait for."""

    def set(self) -> None:
        """Let it happen: all waiting tasks go on, and later calls of `wait` return at once."""
        ...

    async def wait(self) -> None:
        """Wait until it has happened."""
        ...


class Scheduler(Protocol):
    """Time and tasks for a stage; bound when the stage is subscribed, from the scope that subscribes it."""

    def now(self) -> float:
        """Return the scheduler's clock, in seconds from an arbitrary start; virtual under a virtual clock."""
        ...

    def event(self) -> Event:
        """Return a new event, for a task of this scheduler to wait for."""
        ...

    def start(self, function: Callable[[], Awaitable[None]]) -> Cancellable:
        """Run `function` as a task of the scope; it must handle its errors: an error that leaves it ends the scope."""
        ...

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call `function` after `delay_s` seconds (0: at the scope's next turn), unless cancelled before."""
        ...

    def post(self, function: Callable[[], None]) -> None:
        """Call `function` soon in the scheduler's thread: the one method that any thread may call."""
        ...

    def random(self) -> float:
        """Return a random number from 0 up to 1, for jitter; a virtual clock gives the same ones in every run."""
        ...

    async def in_thread(self, function: Callable[[], R]) -> R:
        """Call a function that blocks in a worker thread; a cancelled call goes on there, and its result is dropped."""
        ...

    def at_end(self, function: Callable[[], None]) -> Cancellable:
        """Call `function` when the scope ends, before its tasks are cancelled, unless cancelled before."""
        ...

    def for_run(self, failed: Callable[[BaseException], None]) -> RunScheduler:
        """Return a scheduler for a run that subscribers of several scopes share: its tasks belong to no scope.

        They live as long as the event loop, until `RunScheduler.end` is called.

        Args:
            failed: Called with an error that leaves a task or a timer, in place of the end of a scope.
        """
        ...


class RunScheduler(Scheduler, Protocol):
    """Time and tasks for a run that subscribers of several scopes share; made by `Scheduler.for_run`."""

    @property
    def over(self) -> bool:
        """Whether its event loop has ended, and all tasks and timers with it."""
        ...

    def end(self, last: Scheduler | None) -> None:
        """Cancel all tasks and timers, because the run has ended. New ones can be started afterwards.

        Args:
            last: The scope of the subscriber that was there last. Its end waits for the end of the tasks.
        """
        ...


def __dir__() -> list[str]:
    return __all__
