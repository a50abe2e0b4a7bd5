"""The ends of a list or a window other than its count: time, or the items of another stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rstreams._checks.publishers import require_subscription
from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Ear
from rstreams._core.subscription import ENDED
from rstreams.abc import Cancellable, Scheduler, Subscription


class Span:
    """A span of time that can be started again and again.

    When a span is cut short, the timer runs on, and looks at the clock when it fires. Therefore lists that fill quickly
    need no timer each. A span that begins when the one before has run out begins at the exact end of that one: spans do
    not drift.
    """

    __slots__ = ("_due", "_ran_out", "_run_out", "_scheduler", "_span_s", "_timer")

    def __init__(self, scheduler: Scheduler, span_s: float, run_out: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._span_s = span_s
        self._run_out = run_out
        self._ran_out: float | None = None
        self._timer: Cancellable | None = None
        self._due = 0.0

    def begin(self) -> None:
        """Begin a span; this ends the current one."""
        now = self._scheduler.now()
        self._due = (now if self._ran_out is None else self._ran_out) + self._span_s
        self._due = max(self._due, now)  # the last span may have ended more than a span ago
        if self._timer is None:
            self._timer = self._scheduler.call_later(self._due - now, self._fire)

    @property
    def runs(self) -> bool:
        """Whether a timer is set."""
        return self._timer is not None

    def stop(self) -> None:
        """End the span without a call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        left = self._due - self._scheduler.now()
        if left > 0:
            self._timer = self._scheduler.call_later(left, self._fire)
            return
        self._ran_out = self._due
        try:
            self._run_out()
        finally:
            self._ran_out = None


class Boundary(Ear[object]):
    """The subscriber to a stream whose items end lists or windows; their values do not matter.

    It asks for all of them. While no list can be ended, several items count as one, and none has to be kept.
    """

    __slots__ = ("_complete", "_cut", "_ended", "_fail", "_subscription", "stage")

    def __init__(
        self,
        stage: object,
        cut: Callable[[], None],
        fail: Callable[[BaseException], None],
        complete: Callable[[], None],
    ) -> None:
        self.stage = stage
        self._cut = cut
        self._fail = fail
        self._complete = complete
        self._subscription: Subscription = ENDED
        self._ended = False

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._ended or self._subscription is not ENDED:
            subscription.cancel()  # 2.5
            return
        self._subscription = subscription
        subscription.request(UNBOUNDED)

    def on_next(self, item: object) -> None:  # noqa: ARG002 - only its coming counts
        if not self._ended:
            self._cut()

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            self._ended = True
            self._fail(error)

    def on_complete(self) -> None:
        if not self._ended:
            self._ended = True
            self._complete()

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscription, if there is one, for `explain`."""
        return () if self._ended or self._subscription is ENDED else (self._subscription,)

    @property
    def caller(self) -> Sequence[Subscription]:
        """The subscription, unless it has ended; `ENDED` if it is still to come."""
        return () if self._ended else (self._subscription,)

    def stop(self) -> None:
        """Cancel the stream of boundaries."""
        if not self._ended:
            self._ended = True
            self._subscription.cancel()
