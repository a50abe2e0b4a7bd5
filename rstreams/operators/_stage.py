"""What every operator shares: the guards of the specification, demand passed up, holds passed up.

Theory of operation. An operator is a function from publisher to publisher. Subscribing to its result makes one
stage: upstream of it, the stage is a subscriber; downstream of it, a subscription. `Stage` does the part that
is the same everywhere, so that an operator states only what it does with an item:

    on_subscribe   a second one is cancelled (2.5); the first is kept and passed on
    on_next        written by the operator; it returns at once when `self._ended`
    on_error, on_complete   passed on once; nothing follows the end (1.7)
    request, hold  go upstream unless the operator changes them
    cancel         goes upstream; after it the stage is silent (3.5-3.7, 2.8)

A stage that keeps an item past `on_next` takes `self._upstream.hold()` then and releases it when it is through with it:
`done` when what was made of it has been handled downstream, `fail` when that failed, `release` on cancel. While it emits
something made of kept items, `hold()` from downstream must claim those: set `self._emitting` to their
`SharedHold` around the emission (`_emit` does both).

Signals are plain calls in one thread, so a stage needs no lock; what it needs is care about re-entrance: any call
downstream may come back as request or cancel before it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rstreams._demand import demand_error
from rstreams._holds import SharedHold
from rstreams._subscription import ENDED, require_subscriber, subscribe_failed
from rstreams.abc import Hold, Publisher, Subscriber, Subscription
from rstreams.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")


class Stage(Generic[T, R]):
    """One operator in one subscription, with the guards every operator needs; see the module's text."""

    __slots__ = ("_downstream", "_ended", "_upstream")

    def __init__(self, downstream: Subscriber[R]) -> None:
        self._downstream = downstream
        self._upstream: Subscription = ENDED
        self._ended = False

    # upstream calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._upstream is not ENDED or self._ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._upstream = subscription
        self._downstream.on_subscribe(self)

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._ended = True
            self._downstream.on_error(error)

    def on_complete(self) -> None:
        if not self._ended:
            self._ended = True
            self._downstream.on_complete()

    # downstream calls these

    def request(self, n: int) -> None:
        self._upstream.request(n)

    def cancel(self) -> None:
        self._ended = True
        self._upstream.cancel()

    def hold(self) -> Hold:
        return self._upstream.hold()

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
            self._downstream.on_error(error)

    def _fail_item(self, error: BaseException) -> None:
        """End the stream because the item in `on_next` could not be processed: it is given back as failed."""
        if not self._ended:
            self._upstream.hold().fail(error)
            self._fail(error)

    def _accepts(self, n: int) -> bool:
        """Tell whether `n` is a demand to do arithmetic with; if not, end the stream with `DemandError` (3.9)."""
        if self._ended:
            return False
        error = demand_error(n)
        if error is not None:
            self._fail(error)
        return error is None


class KeepingStage(Stage[T, R]):
    """A stage that emits things made of items it has kept, whose holds travel with what it emits."""

    __slots__ = ("_emitting",)

    def __init__(self, downstream: Subscriber[R]) -> None:
        super().__init__(downstream)
        self._emitting: SharedHold | None = None

    def hold(self) -> Hold:
        emitting = self._emitting
        return self._upstream.hold() if emitting is None else emitting.hold()

    def _emit(self, item: R, kept: SharedHold) -> None:
        """Send `item` downstream; `kept`, the claim on what it was made of, ends when all who hold it let go."""
        before, self._emitting = self._emitting, kept
        try:
            self._downstream.on_next(item)
        except BaseException as error:
            kept.fail(error)
            raise
        finally:
            self._emitting = before
        kept.done()


class Lifted(Generic[T, R]):
    """The publisher an operator returns: each subscriber gets a stage of its own on top of the source."""

    __slots__ = ("_make_stage", "_source")

    def __init__(self, source: Publisher[T], make_stage: Callable[[Subscriber[R]], Subscriber[T]]) -> None:
        self._source = source
        self._make_stage = make_stage

    def subscribe(self, subscriber: Subscriber[R]) -> None:
        require_subscriber(subscriber)
        try:
            stage = self._make_stage(subscriber)
        except ConfigError as error:  # a stage that found no scheduler
            subscribe_failed(subscriber, error)
        else:
            self._source.subscribe(stage)
