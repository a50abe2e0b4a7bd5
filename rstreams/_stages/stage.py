"""The base of every operator: the rules of the specification, demand and holds passed up.

Theory of operation. An operator is a function from publisher to publisher. A subscription to its result makes one
stage. To the source the stage is a subscriber, to the subscriber it is a subscription. `Stage` does everything that is
the same in all operators. An operator states only its treatment of an item:

    on_subscribe   a second one is cancelled (2.5); the first is kept and passed on
    on_next        written by the operator; it returns at once when `self._ended`
    on_error, on_complete   passed on once; nothing follows the end (1.7); an error takes the place of the completion
    request, hold, suspend, resume   go upstream unless the operator changes them
    cancel         goes upstream; after it the stage is silent (3.5-3.7, 2.8)
    _let_go        written by an operator that keeps items: called once the stream ends in any way but completion

A stage that keeps an item after `on_next` takes `self._upstream.hold()` in `on_next`. It ends the hold later:

    done      the thing made of the item has been handled downstream
    fail      handling it failed
    release   the stream was cancelled

While the stage emits something made of kept items, a `hold()` from downstream must claim those items. To this end, set
`self._emitting` to their `Claims` during the emission (`_emit` does both).

An error of the source comes behind everything that the source sent before it, where the completion would have come:
kept items are emitted first, as they are requested (decision 32). When a stage fails by itself, only the cause counts
as failed: the item for which a function raised, or the outer item of an inner stream that failed. All other items that
are still kept are given back (released), because they were not processed yet.

Signals are plain calls in one thread; a stage needs no lock. But it must expect calls that come back: any call of user
code or downstream may call request or cancel before it returns. Look at `self._ended` again after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar

from rstreams._checks.publishers import require_error, require_subscriber, require_subscription
from rstreams._core.claims import NO_HOLD, Claims, claims_on, loosen
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.demand import UNBOUNDED, demand_error
from rstreams._core.fast_paths import OnNext, signals_later
from rstreams._core.run import Run, runs_of
from rstreams._core.sight import ASK, CANCEL, SEND, Counts, Scannable, Waits, Watched, Way, counts_of
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._stages.emission import log_dropped
from rstreams.abc import Hold, Publisher, Subscriber, Subscription, Suspendable
from rstreams.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")

Ack: TypeAlias = Literal["on_receipt", "on_emit"]
"""When an item that is kept without limit counts as processed: when it is kept, or when its emission is handled."""

GatherAck: TypeAlias = Literal["within_window", "on_result", "on_receipt"]
"""When an item that goes into a result counts as processed.

"within_window": with the result; the oldest items earlier, if more come than the window of a link can hold.
"on_result": always with the result; if the window cannot hold so many, the stream fails at once.
"on_receipt": as soon as it has been received.
"""


class Stage(Scannable, Generic[T, R]):
    """One operator in one subscription, with the checks that every operator needs; see the text of this module.

    Attributes:
        only_reacts: Whether the stage does nothing by itself: it asks, sends and cancels only inside of a call from one
            of its sources or its subscriber. A timer, a task or a user's call may make it do something only while
            `moves` is true.
    """

    __slots__ = ("__weakref__", "_downstream", "_ended", "_requested", "_thread", "_upstream", "_withheld")

    only_reacts: ClassVar[bool] = False

    def __init__(self, downstream: Subscriber[R]) -> None:
        self._downstream = downstream
        self._upstream: Subscription = ENDED
        self._ended = False
        self._requested = 0  # in calls that `_accepts` has seen
        self._withheld = 0  # items that have come, for which none has gone on
        self._thread = get_ident()

    # upstream calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._upstream = subscription
        self._downstream.on_subscribe(self)

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._ended = True
            self._let_go()
            self._downstream.on_error(error)

    def on_complete(self) -> None:
        if not self._ended:
            self._ended = True
            self._downstream.on_complete()

    # downstream calls these

    def request(self, n: int) -> None:
        self._upstream.request(n)

    def cancel(self) -> None:
        if get_ident() != self._thread:
            refuse_thread("cancel()", self._thread)
        if not self._ended:
            self._ended = True
            self._upstream.cancel()  # first: items that are given back must not come again
            self._let_go()

    def hold(self) -> Hold:
        return self._upstream.hold()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        """Return claims on the items of the source; a stage that overrides `hold` also overrides this."""
        return ClaimsInOrder(self.hold, loose=loose) if self._upstream is ENDED else gather(self._upstream, loose=loose)

    @property
    def window(self) -> int:
        """The most items that can be held at once before no further one comes."""
        return window_of(self._upstream)

    @property
    def comes_settled(self) -> bool:
        """Whether the items are settled before they come, and cannot be given back."""
        return comes_settled(self._upstream)

    @property
    def failure(self) -> BaseException | None:
        """The error that a stage above has got, and that waits behind items."""
        return failure_of(self._upstream)

    def suspend(self) -> None:
        suspend(self._upstream)

    def resume(self) -> None:
        resume(self._upstream)

    # called by `explain` and the search for a deadlock, see `_core.sight`

    @property
    def ended(self) -> bool:
        """Whether the stream is over."""
        return self._ended

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._downstream

    def counts(self) -> Counts | None:
        """Return the numbers of items that have passed: those of the source, without those that were withheld."""
        source = counts_of(self._upstream)
        if source is None:
            return None
        return Counts(self._requested or source.requested, source.delivered - self._withheld)

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that the items come from."""
        return () if self._upstream is ENDED else (self._upstream,)

    def waits_to(self, way: Way) -> Waits:
        """Return the calls of others that must come first, if the stage only reacts."""
        if not self.only_reacts or self.moves:
            return None
        counts = self.counts()
        served = counts is None or not counts.outstanding  # otherwise a request changes nothing
        return [
            *((SEND, each) for each in self._callers()),
            (ASK if served and way != CANCEL else CANCEL, self._downstream),
        ]

    # written by an operator that does more than react, or has several sources

    @property
    def moves(self) -> bool:
        """Whether it is doing something now, or may do something although nobody calls it."""
        return False

    def _callers(self) -> Sequence[Subscription]:
        """Return the subscriptions that may still send something; `ENDED` for one that is still to come."""
        over = self._upstream is ENDED and self._requested  # what was asked was there
        return () if over else (self._upstream,)

    # written by an operator that keeps items

    def _let_go(self) -> None:
        """Release kept items, because they will not be emitted; called at most once."""

    # the operator calls these

    def _complete(self) -> None:
        """End the stream early and successfully: the source is cancelled."""
        if not self._ended:
            self._ended = True
            self._upstream.cancel()
            self._downstream.on_complete()

    def _fail(self, error: BaseException) -> None:
        """End the stream with `error`: the source is cancelled."""
        if not self._ended:
            self._ended = True
            self._upstream.cancel()
            self._let_go()
            self._downstream.on_error(error)

    def _fail_item(self, error: BaseException) -> None:
        """End the stream because the item in `on_next` could not be processed; it counts as failed."""
        if self._ended:  # the function has cancelled before it failed, or was called after a cancel
            log_dropped(error, "a function failed")
        else:
            self._upstream.hold().fail(error)
            self._fail(error)

    def _accepts(self, n: int) -> bool:
        """Tell whether `n` is a valid demand, and count it; if not, end the stream with `DemandError` (3.9)."""
        if get_ident() != self._thread:
            refuse_thread(f"request({n})", self._thread)
        if self._ended:
            return False
        error = demand_error(n)
        if error is not None:
            self._fail(error)
            return False
        self._requested += n
        return True


class PassingStage(Stage[T, T]):
    """A stage that does not touch the items: they go straight to the next stage, and cost nothing here."""

    __slots__ = ("on_next",)

    on_next: OnNext[T]  # that of the next stage: a method here would cost each item a call

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self.on_next = downstream.on_next

    @property
    def on_run(self) -> Callable[[Run[T]], None] | None:
        """The function that takes a run, see `_core.run`: the next stage's own."""
        return runs_of(self._downstream)

    @property
    def signals_later(self) -> bool:
        """Whether items never come inside `request`, see `SignalsLater`; the source decides."""
        return signals_later(self._upstream)

    @property
    def most(self) -> int:
        """The most items that come."""
        return most_of(self._upstream)

    def _let_go(self) -> None:
        self.on_next = _drop  # a source may still send items that were on their way (2.8)


def _drop(item: object) -> None:
    """Do nothing with an item that comes after the end."""


class KeepingStage(Stage[T, R]):
    """A stage that emits results of items it has kept; the holds go with the results.

    Attributes:
        keeps_unfinished: Whether what it keeps becomes an item only with the completion. Then an error comes at once.
            In all other stages it waits, as the completion does, until what came before it has been emitted.
    """

    __slots__ = ("_emissions", "_emitting", "_failure", "_gathered", "_room_known")

    keeps_unfinished: ClassVar[bool] = False

    def __init__(self, downstream: Subscriber[R]) -> None:
        super().__init__(downstream)
        self._room_known: bool | None = None  # whether the number of items that can be held at once is known
        self._emissions = 0
        self._emitting: Claims | None = None
        self._gathered: ClaimsInOrder | None = None  # the claims on the items of a list
        self._failure: BaseException | None = None  # the error that takes the place of the completion

    def on_error(self, error: BaseException) -> None:
        if self.keeps_unfinished:
            super().on_error(error)
        elif not self._ended and self._failure is None:
            self._failure = require_error(error)
            self.on_complete()

    def on_complete(self) -> None:
        """End the stream; the operator calls this when nothing of what came is left."""
        if self._failure is None:
            super().on_complete()
        else:
            super().on_error(self._failure)

    @property
    def failure(self) -> BaseException | None:
        return super().failure if self._failure is None else self._failure

    def hold(self) -> Hold:
        emitting = self._emitting
        return self._upstream.hold() if emitting is None else emitting.hold()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        return ClaimsInOrder(self.hold, loose=loose)

    def counts(self) -> Counts | None:
        """Return the numbers of items requested, emitted and kept."""
        source = counts_of(self._upstream)
        requested = self._requested or (0 if source is None else source.requested)
        return Counts(requested, self._emissions, self._kept_items())

    # the operator writes this

    def _kept_items(self) -> int:
        """Return the number of kept items, each item of the source counted once."""
        return 0

    # the operator calls these

    def _accepts_source(self, subscription: Subscription, error: ConfigError | None) -> bool:
        """Tell whether `subscription` can begin; if there is an `error`, end it with that."""
        if self._ended or self._upstream is not ENDED or error is None:
            return True
        self._ended = True
        subscription.cancel()
        subscribe_failed(self._downstream, error)
        return False

    def _held(self, hold: Hold) -> Hold:
        """Return `hold`, for an item of a list; made loose if the number of items that can be held is unknown.

        Behind lists of any size it is unknown whether a window has room for the next item: the stream must not stop
        there.
        """
        if not self._knows_room():
            loosen(hold)
        return hold

    def _knows_room(self) -> bool:
        if self._room_known is None:
            self._room_known = window_of(self._upstream) < UNBOUNDED
        return self._room_known

    def _gather(self) -> None:
        """Claim the item in `on_next` for the list that it goes into; loosely, as `_held` says."""
        gathered = self._gathered
        if gathered is None:
            gathered = gather(self._upstream, loose=not self._knows_room())
            if gathered is None:
                return
            self._gathered = gathered
        gathered.keep()

    def _take_gathered(self) -> Claims:
        """Return the claim on all items of a list; the next item begins another one."""
        gathered, self._gathered = self._gathered, None
        return NO_HOLD if gathered is None else claims_on(gathered)

    def _emit(self, item: R, kept: Claims) -> None:
        """Send `item` downstream; `kept`, the claim on its parts, ends when all holders have released it."""
        before, self._emitting = self._emitting, kept
        self._emissions += 1
        try:
            self._downstream.on_next(item)
        except BaseException as error:
            kept.fail(error)
            self.cancel()  # 2.13: a subscriber that raises counts as cancelled
            raise
        finally:
            self._emitting = before
        kept.done()


class Lifted(Watched, Generic[T, R]):
    """The publisher an operator returns: each subscriber gets a stage of its own on top of the source."""

    __slots__ = ("_make_stage", "_source")

    def __init__(self, source: Publisher[T], make_stage: Callable[[Subscriber[R]], Subscriber[T]]) -> None:
        super().__init__()
        self._source = source
        self._make_stage = make_stage

    def subscribe(self, subscriber: Subscriber[R]) -> None:
        require_subscriber(subscriber)
        try:
            stage = self._make_stage(subscriber)
        except ConfigError as error:  # a stage that found no scheduler
            subscribe_failed(subscriber, error)
        else:
            self._begins(stage)
            self._subscribe(stage)

    def _subscribe(self, stage: Subscriber[T]) -> None:
        self._source.subscribe(stage)


class Joined(Watched, Generic[R]):
    """The publisher of an operator over several sources.

    Args:
        start: Makes a stage for a subscriber, subscribes it to the sources and returns it; None if that failed.
    """

    __slots__ = ("_start",)

    def __init__(self, start: Callable[[Subscriber[R]], Subscription | None]) -> None:
        super().__init__()
        self._start = start

    def subscribe(self, subscriber: Subscriber[R]) -> None:
        require_subscriber(subscriber)
        stage = self._start(subscriber)
        if stage is not None:
            self._begins(stage)


def raised_during(raised: Exception, error: BaseException) -> Exception:
    """Return `raised`, which user code raised when it handled `error`, with `error` as its context."""
    if raised is not error and raised.__context__ is None:
        raised.__context__ = error
    return raised


def failure_of(subscription: Subscription) -> BaseException | None:
    """Return the error that is on its way in `subscription`, if one waits there behind items."""
    failure: BaseException | None = getattr(subscription, "failure", None)
    return failure


def window_of(subscription: Subscription) -> int:
    """Return the number of items of `subscription` that can be held at once: a link has a window, others no limit."""
    window: int = getattr(subscription, "window", UNBOUNDED)
    return window


def most_of(subscription: Subscription) -> int:
    """Return the most items that `subscription` can bring, as far as this is known before the first."""
    most: int = getattr(subscription, "most", UNBOUNDED)
    return most


def too_small_window(subscription: Subscription, need: int, what: str) -> ConfigError | None:
    """Return an error if `need` items of `subscription` cannot be held at once."""
    window = window_of(subscription)
    if window >= need:
        return None
    needed = f"{need} items at once" if need < UNBOUNDED else "room for items without limit"
    return ConfigError(
        f"{what} needs {needed}, but of the link it reads only {window} can be held: its window, minus "
        f"pack_items - 1 if its items come packed; open the link with a larger window"
    )


def comes_settled(subscription: Subscription) -> bool:
    """Return whether the items of `subscription` are settled before they come, as on some links."""
    settled: bool = getattr(subscription, "comes_settled", False)
    return settled


def cannot_hold_all(subscription: Subscription, what: str) -> ConfigError | None:
    """Return an error if the items of `subscription` cannot all be held until `what` has its result."""
    return cannot_hold(subscription, what) or too_small_window(subscription, most_of(subscription), what)


def cannot_hold(subscription: Subscription, what: str) -> ConfigError | None:
    """Return an error if no item of `subscription` can be held until `what` has its result."""
    if not comes_settled(subscription):
        return None
    return ConfigError(
        f"{what} holds the items until there is a result, but the items of the link it reads come settled, as with "
        f"settlement='at_most_once', and cannot be given back"
    )


def suspend(subscription: Subscription) -> None:
    """Make `subscription` send no further item for now, if it can; see `rstreams.abc.Suspendable`."""
    if isinstance(subscription, Suspendable):
        subscription.suspend()


def resume(subscription: Subscription) -> None:
    """Let a suspended `subscription` go on."""
    if isinstance(subscription, Suspendable):
        subscription.resume()
