"""The base of every operator: the guards of the specification, demand passed up, holds passed up.

Theory of operation. An operator is a function from publisher to publisher. Subscribing to its result makes one stage.
Upstream the stage is a subscriber, downstream it is a subscription. `Stage` does everything that is the same in all
operators. An operator states only what it does with an item:

    on_subscribe   a second one is cancelled (2.5); the first is kept and passed on
    on_next        written by the operator; it returns at once when `self._ended`
    on_error, on_complete   passed on once; nothing follows the end (1.7)
    request, hold, suspend, resume   go upstream unless the operator changes them
    cancel         goes upstream; after it the stage is silent (3.5-3.7, 2.8)
    _let_go        written by an operator that keeps items: called once the stream ends in any way but completion

A stage that keeps an item past `on_next` takes `self._upstream.hold()` in `on_next`. It ends the hold later:

    done      the thing made of the item has been handled downstream
    fail      handling it failed
    release   the stream was cancelled

While the stage emits something made of kept items, `hold()` from downstream must claim those items: set
`self._emitting` to their `SharedHold` around the emission (`_emit` does both).

When a stream fails, only the cause counts as failed: the item a function raised for, or the outer item of an inner
stream that failed. All other kept items are given back (released), because nobody has tried them yet.

Signals are plain calls in one thread, so a stage needs no lock. But it must expect calls that come back: any call of
user code or downstream may call request or cancel before it returns. Look at `self._ended` again after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar

from rstreams._checks.publishers import require_subscriber, require_subscription
from rstreams._core.demand import UNBOUNDED, demand_error
from rstreams._core.fast_paths import OnNext
from rstreams._core.gathering import Gathering, Holds, gather
from rstreams._core.holds import SharedHold, loosen
from rstreams._core.sight import ASK, SEND, Counts, Scannable, Waits, Watched, Way, counts_of, keeper_of
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._core.threads import get_ident, refuse_thread
from rstreams._stages.emission import log_dropped
from rstreams.abc import Hold, Publisher, Subscriber, Subscription, Suspendable
from rstreams.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")

Ack: TypeAlias = Literal["on_receipt", "on_emit"]
"""When an item counts as processed that is kept without limit: as soon as it is kept, or when what is made of it is."""

GatherAck: TypeAlias = Literal["within_window", "on_result", "on_receipt"]
"""When an item counts as processed that a result is made of.

"within_window": with the result; but the oldest before, where more comes than the window of a link can hold.
"on_result": with the result, always; where the window cannot hold so many, the stream fails at once.
"on_receipt": as soon as it has been taken in.
"""


class Stage(Scannable, Generic[T, R]):
    """One operator in one subscription, with the guards every operator needs; see the module's text.

    Attributes:
        only_reacts: Whether the stage does nothing by itself: it asks its one source only when its one subscriber asks
            or an item has come, sends only when its source has sent, and cancels only on one of these. It has no
            timer, no task and no second source.
        passes_unseen: Whether it only reacts, and shows its items to nobody but its subscriber.
    """

    __slots__ = ("__weakref__", "_downstream", "_ended", "_requested", "_thread", "_upstream")

    only_reacts: ClassVar[bool] = False
    passes_unseen: ClassVar[bool] = False

    def __init__(self, downstream: Subscriber[R]) -> None:
        self._downstream = downstream
        self._upstream: Subscription = ENDED
        self._ended = False
        self._requested = 0  # by calls that `_accepts` has seen
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
            self._upstream.cancel()  # first: what is given back must not come again
            self._let_go()

    def hold(self) -> Hold:
        return self._upstream.hold()

    def gather(self, *, loose: bool) -> Gathering | None:
        """Return claims on the items of the source; a stage that overrides `hold` also overrides this."""
        return Holds(self, loose=loose) if self._upstream is ENDED else gather(self._upstream, loose=loose)

    @property
    def window(self) -> int:
        """The most items that can be held at once before no further one comes."""
        return window_of(self._upstream)

    @property
    def comes_settled(self) -> bool:
        """Whether the items are settled before they come, and cannot be given back."""
        return comes_settled(self._upstream)

    def suspend(self) -> None:
        suspend(self._upstream)

    def resume(self) -> None:
        resume(self._upstream)

    # what `explain` and the search for a deadlock ask, see `_core.sight`

    @property
    def ended(self) -> bool:
        """Whether the stream is over."""
        return self._ended

    @property
    def downstream(self) -> object:
        """The subscriber."""
        return self._downstream

    def counts(self) -> Counts | None:
        """Return what has gone through: what the source says, less what the operator has dropped."""
        source = counts_of(self._upstream)
        if source is None:
            return None
        return Counts(self._requested or source.requested, self._delivered(source.delivered))

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that the items come from."""
        return () if self._upstream is ENDED else (self._upstream,)

    def waits_to(self, way: Way) -> Waits:
        """Return what must happen first, if the stage only reacts."""
        if not self.only_reacts or self._moves():
            return None
        return [(SEND, self._upstream), (ASK, self)] if way == SEND else [(way, self._downstream)]

    def keeper_of(self, part: object) -> object | None:
        """Return the stage that keeps `part` behind this one, if it passes unseen here."""
        return keeper_of(part, self._downstream) if self.passes_unseen else None

    # the operator writes this, if it keeps items

    def _let_go(self) -> None:
        """Release what is kept, because it will not be emitted; called at most once."""

    # the operator writes this, if it only reacts but may be in the middle of something

    def _moves(self) -> bool:
        """Return whether the stage is doing something now, or will without a further signal."""
        return False

    # the operator writes this, if it does not pass on item for item

    def _delivered(self, received: int) -> int:
        """Return how many items have gone downstream when so many have come."""
        return received

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
        """End the stream because the item in `on_next` could not be processed: it is given back as failed."""
        if self._ended:  # what failed has cancelled before, or was called after a cancel
            log_dropped(error, "a function failed")
        else:
            self._upstream.hold().fail(error)
            self._fail(error)

    def _has_window(self, subscription: Subscription, need: int, what: str) -> bool:
        """Tell whether `need` items of `subscription` can be held at once; if not, end it with a `ConfigError`."""
        return self._accepts_source(subscription, too_small_window(subscription, need, what))

    def _accepts_source(self, subscription: Subscription, error: ConfigError | None) -> bool:
        """Tell whether `subscription` can begin; if there is an `error`, end it with that."""
        if self._ended or self._upstream is not ENDED or error is None:
            return True
        self._ended = True
        subscription.cancel()
        subscribe_failed(self._downstream, error)
        return False

    def _accepts(self, n: int) -> bool:
        """Tell whether `n` is a demand to do arithmetic with; if not, end the stream with `DemandError` (3.9)."""
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
    """A stage that does nothing to the items: they go straight to the next stage, and cost nothing here."""

    __slots__ = ("on_next",)

    on_next: OnNext[T]  # the next stage's own: a method here would cost each item a call

    @property
    def most(self) -> int:
        """How many items come at most."""
        return most_of(self._upstream)

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self.on_next = downstream.on_next

    def _let_go(self) -> None:
        self.on_next = _drop  # a source may send what was on its way (2.8)


def _drop(item: object) -> None:
    """Do nothing with an item that comes after the end."""


class KeepingStage(Stage[T, R]):
    """A stage that emits things made of items it has kept, whose holds travel with what it emits."""

    __slots__ = ("_emissions", "_emitting", "_room_known")

    def __init__(self, downstream: Subscriber[R]) -> None:
        super().__init__(downstream)
        self._room_known: bool | None = None  # whether it is known how many items can be held at once
        self._emissions = 0
        self._emitting: SharedHold | None = None

    def hold(self) -> Hold:
        emitting = self._emitting
        return self._upstream.hold() if emitting is None else emitting.hold()

    def gather(self, *, loose: bool) -> Gathering | None:
        return Holds(self, loose=loose)

    def counts(self) -> Counts | None:
        """Return what has been requested and emitted, and how much is kept."""
        source = counts_of(self._upstream)
        requested = self._requested or (0 if source is None else source.requested)
        return Counts(requested, self._emissions, self._kept_items())

    # the operator writes this

    def _kept_items(self) -> int:
        """Return how many items are kept, each of the source's counted once."""
        return 0

    # the operator calls this

    def _held(self, hold: Hold) -> Hold:
        """Return `hold`, for an item that a list is made of; made loose if it is not known how many can be held.

        Behind lists of any size it is not known whether a window has room for the next one: it must not stop there.
        """
        if self._room_known is None:
            self._room_known = window_of(self._upstream) < UNBOUNDED
        if not self._room_known:
            loosen(hold)
        return hold

    def _emit(self, item: R, kept: SharedHold) -> None:
        """Send `item` downstream; `kept`, the claim on what it was made of, ends when all who hold it let go."""
        before, self._emitting = self._emitting, kept
        self._emissions += 1
        try:
            self._downstream.on_next(item)
        except BaseException as error:
            kept.fail(error)
            self.cancel()  # 2.13: a subscriber that raises counts as having cancelled
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
            self._source.subscribe(stage)


class Joined(Watched, Generic[R]):
    """The publisher of an operator over several sources.

    Args:
        start: Makes a stage for a subscriber, subscribes it to the sources and returns it; None if it could not.
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
    """Return `raised`, which user code raised when it was told of `error`, with `error` as its context."""
    if raised is not error and raised.__context__ is None:
        raised.__context__ = error
    return raised


def window_of(subscription: Subscription) -> int:
    """Return how many items of `subscription` can be held at once: a link has a window, other sources no limit."""
    window: int = getattr(subscription, "window", UNBOUNDED)
    return window


def most_of(subscription: Subscription) -> int:
    """Return how many items `subscription` brings at most, as far as that is known before the first."""
    most: int = getattr(subscription, "most", UNBOUNDED)
    return most


def too_small_window(subscription: Subscription, need: int, what: str) -> ConfigError | None:
    """Return an error if `need` items of `subscription` cannot be held at once."""
    window = window_of(subscription)
    if window >= need:
        return None
    needed = f"{need} items at once" if need < UNBOUNDED else "room for items without limit"
    return ConfigError(
        f"{what} needs {needed}, but the link it reads lets {window} be held: its window, less pack_items - 1 if its "
        f"items come packed; open the link with a larger window"
    )


def comes_settled(subscription: Subscription) -> bool:
    """Return whether the items of `subscription` are settled before they come: a link may have it so."""
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
    """Have `subscription` send no further item for now, if it is one that can; see `rstreams.abc.Suspendable`."""
    if isinstance(subscription, Suspendable):
        subscription.suspend()


def resume(subscription: Subscription) -> None:
    """Let a suspended `subscription` go on."""
    if isinstance(subscription, Suspendable):
        subscription.resume()
