"""StreamVerifier: a script of the expected signals of a stream, step by step, in virtual time.

    (
        StreamVerifier(interval(1.0), request=1)
        .expect_subscription()
        .expect_no_event(0.5)
        .then_await(0.5)
        .expect_next(0)
        .then_request(2)
        .then_await(2.0)
        .expect_next(1, 2)
        .then_cancel()
        .verify()
    )

Nothing happens before `verify`, which subscribes and goes through the steps. A step that finds something else fails
with an `AssertionError` that names the step, the expected signal and the signal that came.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from rstreams._checks.publishers import require_publisher
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription
from rstreams.testing.virtual_scheduler import VirtualScheduler, advice_for, virtual_time

__all__ = ["StreamVerifier"]

T = TypeVar("T")


@dataclass(frozen=True)
class _Signal:
    """A signal that came, and when."""

    name: str
    at: float
    value: object = None

    def __str__(self) -> str:
        what = {"on_next": f"on_next({self.value!r})", "on_error": f"on_error({self.value!r})"}
        return f"{what.get(self.name, self.name + '()')} at {self.at:g} s"


class StreamVerifier(Generic[T]):
    """A script for one subscription; each method adds a step and returns the verifier.

    Time is virtual. A step that finds no signal runs the work that is due; only `then_await` and `expect_no_event` move
    the clock. Inside another `VirtualScheduler`'s block that scheduler is used.

    Args:
        publisher: The publisher to verify.
        request: Items requested in `on_subscribe`; all by default, 0 for none.
    """

    def __init__(self, publisher: Publisher[T], request: int = UNBOUNDED) -> None:
        self._publisher = require_publisher("StreamVerifier", "publisher", publisher)
        self._request = request
        self._steps: list[tuple[str, Callable[[_VerifiedRun[T]], None]]] = []
        self._expects_end = False

    # expectations

    def expect_subscription(self) -> Self:
        """Expect `on_subscribe` as the next signal; without this step the verifier expects it by itself."""

        def step(run: _VerifiedRun[T]) -> None:
            run.position = 0
            run.expect("on_subscribe")

        return self._add("expect_subscription()", step)

    def expect_next(self, *items: T) -> Self:
        """Expect these items, in this order."""

        def step(run: _VerifiedRun[T]) -> None:
            for item in items:
                came = run.expect("on_next", f"on_next({item!r})")
                if came.value != item:
                    run.fail(f"on_next({item!r})", came)

        return self._add(f"expect_next({', '.join(map(repr, items))})", step)

    def expect_next_count(self, count: int) -> Self:
        """Expect `count` items of any value."""

        def step(run: _VerifiedRun[T]) -> None:
            for number in range(1, count + 1):
                run.expect("on_next", f"item {number} of {count}")

        return self._add(f"expect_next_count({count})", step)

    def expect_next_matches(self, predicate: Callable[[T], object]) -> Self:
        """Expect an item for which `predicate` is true."""

        def step(run: _VerifiedRun[T]) -> None:
            expected = f"an item that {getattr(predicate, '__name__', 'the predicate')} accepts"
            came = run.expect("on_next", expected)
            if not predicate(came.value):  # type: ignore[arg-type]
                run.fail(expected, came)

        return self._add("expect_next_matches(...)", step)

    def expect_no_event(self, seconds: float) -> Self:
        """Expect no signal while `seconds` pass."""

        def step(run: _VerifiedRun[T]) -> None:
            run.advance(seconds)
            came = run.peek()
            if came is not None:
                run.fail(f"no signal for {seconds:g} s", came)

        return self._add(f"expect_no_event({seconds:g})", step)

    def expect_error(self, kind: type[BaseException] = BaseException, *, match: str | None = None) -> Self:
        """Expect the stream to fail with an error of `kind`, in whose text the pattern `match` is found."""
        self._expects_end = True
        expected = f"on_error({kind.__name__}{'' if match is None else f' matching {match!r}'})"

        def step(run: _VerifiedRun[T]) -> None:
            came = run.expect("on_error", expected)
            if not isinstance(came.value, kind) or (match is not None and not re.search(match, str(came.value))):
                run.fail(expected, came)

        return self._add(f"expect_error({kind.__name__})", step)

    def expect_complete(self) -> Self:
        """Expect the stream to complete."""
        self._expects_end = True

        def step(run: _VerifiedRun[T]) -> None:
            run.expect("on_complete")

        return self._add("expect_complete()", step)

    # actions

    def then_request(self, n: int) -> Self:
        """Request `n` more items."""
        return self._add(f"then_request({n})", lambda run: run.act(lambda subscription: subscription.request(n)))

    def then_await(self, seconds: float) -> Self:
        """Let `seconds` pass; signals that come in that time are for the next steps."""
        return self._add(f"then_await({seconds:g})", lambda run: run.advance(seconds))

    def then_cancel(self) -> Self:
        """Cancel; nothing may come after it."""
        self._expects_end = True
        return self._add("then_cancel()", lambda run: run.act(lambda subscription: subscription.cancel()))

    def then(self, function: Callable[[], object]) -> Self:
        """Call a function, which may act on another part of the test."""
        return self._add("then(...)", lambda run: run.call(function))

    def verify(self) -> None:
        """Subscribe, and go through the steps.

        Errors: `AssertionError` for the first step that does not hold, for a signal no step expected, or for an end
            that breaks the rules; `ValueError` for a script without an end: the last step must expect completion or
            an error, or cancel.
        """
        if not self._expects_end:
            msg = "a script ends with expect_complete(), expect_error() or then_cancel()"
            raise ValueError(msg)
        with virtual_time() as scheduler:
            run = _VerifiedRun[T](scheduler, self._request)
            self._publisher.subscribe(run)
            scheduler.run()
            for number, (name, step) in enumerate(self._steps, 1):
                run.step = f"step {number}, {name}"
                step(run)
            run.step = "the end of the script"
            scheduler.run()
            came = run.peek()
            if came is not None:
                run.fail("no further signal", came)

    def _add(self, name: str, step: Callable[[_VerifiedRun[T]], None]) -> Self:
        self._steps.append((name, step))
        return self


class _VerifiedRun(Generic[T]):
    """One subscription: the signals that came, and how far the steps have got with them."""

    def __init__(self, scheduler: VirtualScheduler, request: int) -> None:
        self.position = 1  # the subscription is skipped, unless a step expects it
        self.step = ""
        self._scheduler = scheduler
        self._first_request = request
        self._subscription: Subscription | None = None
        self._signals: list[_Signal] = []

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not None:
            subscription.cancel()
            return
        self._subscription = subscription
        self._note("on_subscribe")
        if self._first_request:
            subscription.request(self._first_request)

    def on_next(self, item: T) -> None:
        self._note("on_next", item)

    def on_error(self, error: BaseException) -> None:
        self._note("on_error", error)

    def on_complete(self) -> None:
        self._note("on_complete")

    def _note(self, name: str, value: object = None) -> None:
        self._signals.append(_Signal(name, self._scheduler.now(), value))

    # the steps call these

    def expect(self, name: str, expected: str = "") -> _Signal:
        """Return the next signal, which must have this name."""
        came = self.peek()
        if came is None:
            self._scheduler.run()
            came = self.peek()
        if came is None or came.name != name:
            self.fail(expected or f"{name}()", came)
        assert came is not None
        self.position += 1
        return came

    def peek(self) -> _Signal | None:
        return self._signals[self.position] if self.position < len(self._signals) else None

    def act(self, act: Callable[[Subscription], object]) -> None:
        subscription = self._subscription
        if subscription is None:
            self.fail("on_subscribe()", None)
        else:
            self.call(lambda: act(subscription))

    def call(self, function: Callable[[], object]) -> None:
        function()
        self._scheduler.run()

    def advance(self, seconds: float) -> None:
        self._scheduler.advance(seconds)

    def fail(self, expected: str, came: _Signal | None) -> None:
        before = [signal for signal in self._signals[: self.position] if signal is not came]
        so_far = ", ".join(map(str, before)) or "nothing"
        what = "nothing" if came is None else str(came)
        msg = f"{self.step}: expected {expected}, and {what} came; before that came {so_far}{self._advice(came)}"
        raise AssertionError(msg)

    def _advice(self, came: _Signal | None) -> str:
        if came is not None:
            return advice_for(came.value)
        next_s = self._scheduler.next_timer_s
        if next_s is None:
            return ""
        return f"; this step moves no clock: put then_await({next_s:g}) before it, for the next timer"
