"""Several sources read side by side, each with its own queue: shared by zip, combine_latest and merge_sorted.

Theory of operation. Each source has an `Input`. It asks for `prefetch` items ahead, and for more in batches as items
are taken out. Items kept and asked for are together at most `prefetch`. Kept items are held. A source over a plain
iterator hands its items over and is not asked ahead: one item is drawn when the operator looks for one.

An input shows at any time the state that the operator waits for:

    empty       it waits for its source
    full        it asks for no more before items have been taken out
    exhausted   its source has completed, and its queue is empty
    is_to_fail  its source has failed, and its queue is empty: an error comes behind the items before it
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from rstreams._checks.publishers import require_error, require_subscription
from rstreams._core.claims import NO_HOLD
from rstreams._core.fast_paths import handed_over, not_known
from rstreams._core.sight import Ear, Scannable, counts_of
from rstreams._core.subscription import ENDED
from rstreams._stages.deadlock import comes_from
from rstreams._stages.delayed_errors import Errors, all_of, first_of, note_error
from rstreams._stages.stage import failure_of, suspend
from rstreams._stages.turns import TurningStage
from rstreams.abc import Hold, Publisher, Subscriber, Subscription
from rstreams.errors import DemandDeadlock

T = TypeVar("T")
R = TypeVar("R")


class Input(Ear["Inputs[Any]"], Generic[T]):
    """The subscriber to one of the sources."""

    __slots__ = (
        "_asked",
        "_left",
        "_refill",
        "_taken",
        "complete",
        "drawn",
        "failure",
        "items",
        "queue",
        "stage",
        "upstream",
    )

    def __init__(self, stage: Inputs[Any], prefetch: int) -> None:
        self.queue: deque[tuple[T, Hold]] = deque()
        self.complete = False
        self.failure: BaseException | None = None  # it waits for its turn
        self.drawn = False
        self.items: Iterator[T] = iter(())
        self.upstream: Subscription = ENDED
        self._left: Callable[[], int] = not_known
        self.stage = stage
        self._asked = prefetch
        self._refill = prefetch - prefetch // 4
        self._taken = 0  # since the last request

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self.upstream is not ENDED or self.complete or self.stage.ended:
            subscription.cancel()
            return
        self.upstream = subscription
        if self.stage.suspended:
            suspend(subscription)
        handed = handed_over(subscription)
        if handed is not None:
            self.items, self._left = handed
            self.drawn = True
        elif self.stage.started:
            subscription.request(self._asked)

    def on_next(self, item: T) -> None:
        if not self.stage.ended:
            self.queue.append((item, self.upstream.hold()))
            self.stage.arrived()

    def on_error(self, error: BaseException) -> None:
        if not self.complete:
            self._end()
            self.stage.failed(self, require_error(error))

    def on_complete(self) -> None:
        self._end()
        self.stage.arrived()

    def _end(self) -> None:
        self.complete = True
        self.upstream = ENDED  # 2.3, 2.4

    # the stage calls these

    @property
    def empty(self) -> bool:
        """Whether it waits for its source."""
        return not self.queue and not self.complete and not self.drawn

    @property
    def full(self) -> bool:
        """Whether it requests no more before items have been taken out."""
        return len(self.queue) + self._taken >= self._asked

    @property
    def exhausted(self) -> bool:
        """Whether no items are left and none will come."""
        return not self.queue and (
            (self.complete and self.failure is None) or (self.drawn and not self.complete and not self._left())
        )

    @property
    def is_to_fail(self) -> bool:
        """Whether the next thing to come of it is its error."""
        return self.failure is not None and not self.queue

    @property
    def waiting_failure(self) -> BaseException | None:
        """The error that waits behind its items, here or further up."""
        return failure_of(self.upstream) if self.failure is None else self.failure

    @property
    def drawn_items(self) -> int:
        """How many items of an iterator have been drawn."""
        counts = counts_of(self.upstream)
        return 0 if counts is None else counts.delivered

    def ask_ahead(self) -> None:
        """Ask for the first items."""
        if not self.drawn and not self.complete:
            self.upstream.request(self._asked)

    def has_item(self) -> bool:
        """Tell whether there is an item, and draw one if it can be drawn."""
        if self.queue:
            return True
        if not self.drawn or self.complete:
            return False
        try:
            item = next(self.items)
        except StopIteration:
            self._end()
            return False
        except Exception as error:  # the user's
            self._end()
            self.stage.failed(self, error)
            return False
        if self.stage.ended:  # the iterator has cancelled
            self.upstream.cancel()
            return False
        self.queue.append((item, NO_HOLD))
        return True

    def take(self) -> tuple[T, Hold]:
        """Take the first item out."""
        return self.queue.popleft()

    def taken(self) -> None:
        """Note that an item has been taken out, and request more when enough have been."""
        if self.drawn or self.complete:
            return
        self._taken += 1
        if self._taken == self._refill:
            self._taken = 0
            self.upstream.request(self._refill)

    def let_go(self) -> None:
        """Give kept items back, and end the source."""
        queue, self.queue = self.queue, deque()
        for _, hold in queue:
            hold.release()
        self.upstream.cancel()


class Inputs(TurningStage[Any, R]):
    """A stage over several sources.

    Attributes:
        joins_parts: Whether an error of several sources, which are parts of one, waits for the items of all.
    """

    only_reacts = True
    joins_parts: ClassVar[bool] = True

    __slots__ = ("_delay_errors", "_errors", "_failing", "_prefetch", "inputs")

    def __init__(self, downstream: Subscriber[R], count: int, prefetch: int, *, delay_errors: bool = False) -> None:
        super().__init__(downstream)
        self.inputs: list[Input[Any]] = [Input(self, prefetch) for _ in range(count)]
        self._prefetch = prefetch
        self._delay_errors = delay_errors
        self._errors: Errors = {}
        self._failing = False  # an input has failed, and its error waits for its turn

    def start(self, sources: Sequence[Publisher[Any]]) -> Self:
        """Subscribe to all sources; return itself."""
        self._downstream.on_subscribe(self)
        self._draining = True  # until all are subscribed to
        try:
            for source, an_input in zip(sources, self.inputs, strict=True):
                if not self._ended:
                    source.subscribe(an_input)
        finally:
            self._draining = False
        self._drain()
        return self

    def hold(self) -> Hold:
        return NO_HOLD if self._emitting is None else self._emitting.hold()

    def upstreams(self) -> Sequence[Subscription]:
        return [i.upstream for i in self.inputs if i.upstream is not ENDED]

    @property
    def failure(self) -> BaseException | None:
        return first_of((*self._errors.values(), *(i.waiting_failure for i in self.inputs)))

    def _begin(self) -> None:
        for an_input in self.inputs:
            an_input.ask_ahead()

    # called by `explain` and the search for a deadlock, see `_core.sight`

    def _callers(self) -> Sequence[Subscription]:
        return [i.upstream for i in self.inputs if not i.complete]

    def takes(self, blocked: Scannable) -> tuple[str, int] | None:
        """Return the items it has, and those it waits for, if several of its sources come from `blocked`."""
        if sum(comes_from(i.upstream, blocked) for i in self.inputs) < 2:
            return None
        kept = " and ".join(str(len(i.queue)) for i in self.inputs)
        text = (
            f"{self.label}(prefetch={self._prefetch}) keeps {kept} items of its {len(self.inputs)} sources, and "
            f"the items it lacks must come from that {blocked.label}: one of the two must be able to keep more"
        )
        return text, len(self.inputs)

    # inside

    def _kept_items(self) -> int:
        return sum(len(i.queue) for i in self.inputs)

    def _finish(self) -> None:
        """End the stream: items that are still kept have no partners, and are given back."""
        if self._errors:
            self._fail(all_of(self.label, self._errors))
        elif not self._ended:
            self._ended = True
            self._let_go()
            self._downstream.on_complete()

    def _failed_input(self) -> BaseException | None:
        """Return the error of the first input of which only that is left, if the stream fails now."""
        return first_of(self._error_in_turn(i) for i in self.inputs) if self._failing else None

    def _error_in_turn(self, an_input: Input[Any]) -> BaseException | None:
        """Return the error of an input if only that is left of it; None also if others fail by the same cause."""
        error = an_input.failure
        if error is None or an_input.queue:
            return None
        if self._is_of_several(an_input, error):  # some may have come since it failed
            an_input.failure = None
            note_error(self._errors, error)
            return None
        return error

    def _let_go(self) -> None:
        super()._let_go()
        for an_input in self.inputs:
            an_input.let_go()

    def _is_of_several(self, an_input: Input[Any], error: BaseException) -> bool:
        """Tell whether other inputs have failed with this error, or will: they are parts of one source."""
        if not self.joins_parts or isinstance(error, DemandDeadlock):  # it comes at once
            return False
        others = (each for each in self.inputs if each is not an_input)
        return id(error) in self._errors or any(each.waiting_failure is error for each in others)

    # inputs call these

    def arrived(self) -> None:
        """Use a new item, or the end of a source."""
        if not self._ended:
            self._drain()

    def failed(self, an_input: Input[Any], error: BaseException) -> None:
        """Note that a source has failed: the stream fails at once, when its turn has come, or at the end."""
        if self._delay_errors or self._is_of_several(an_input, error):
            note_error(self._errors, error)
            self.arrived()
        elif self.started:
            an_input.failure = error
            self._failing = True
            self.arrived()
        else:
            self._fail(error)


def claims(holds: Sequence[Hold]) -> list[Hold]:
    """Return those of `holds` that must be ended."""
    return [hold for hold in holds if hold is not NO_HOLD]
