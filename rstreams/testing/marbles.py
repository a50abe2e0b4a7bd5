"""Marbles: streams drawn as strings, to be played into an operator and compared with its output.

    with VirtualScheduler():
        source = cold("--a--b--|", values={"a": 1, "b": 2})
        expect_marbles(delay(source, 1.0), "---a--b--|", values={"a": 1, "b": 2})

The grammar is that of reactivex, with items of one character. A character is one moment, `unit_s` seconds long (1 by
default). It stands for the events of that moment:

    -        nothing
    a 5 ...  an item: the value in `values` for that letter or digit, or the letter or number itself
    |        completion
    X  #     failure, with the given `error`, or a `MarbleError`
    (ab|)    several signals at one moment, that of the "("; commas may stand between them; as everywhere, each
             character moves the time on, the sign behind this group is five moments later
    ^        the moment of the subscription, in the marbles of `hot`: the signs before it happened earlier
    !        the moment at which `expect_marbles` cancels, in its `cancel` string
    space    not even a moment: for aligning strings

Demand is drawn in a string of its own, given as `requests`: a digit requests that many items at that moment, `*` all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rstreams._checks.publishers import require_publisher, require_subscriber
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED, demand_error
from rstreams._core.kept_errors import KeptError
from rstreams._core.scheduler import bound_scheduler, current_scheduler
from rstreams.abc import Cancellable, Hold, Publisher, Scheduler, Subscriber
from rstreams.errors import ConfigError
from rstreams.testing.probes import ProbeSubscriber
from rstreams.testing.virtual_scheduler import VirtualScheduler, advice_for, virtual_time

__all__ = ["MarbleError", "cold", "expect_marbles", "hot"]

T = TypeVar("T")

_NOTHING: Final[Mapping[str, Any]] = {}


class MarbleError(Exception):
    """The error of `X` and `#` if none is given."""


@dataclass(frozen=True)
class Moment:
    """The event at one time: "next" with the letter, "complete", "error", "subscribe" or "cancel"."""

    at: int
    what: str
    letter: str = ""


def parse(marbles: str) -> list[Moment]:
    """Return the moments of a string, in order.

    Errors: `ConfigError` with the string and the place for a sign that is not a marble.
    """
    moments: list[Moment] = []
    frame, group_at = 0, -1
    for place, letter in enumerate(marbles):
        if letter == " ":
            continue
        at = frame if group_at < 0 else group_at
        if letter == "(" and group_at < 0:
            group_at = frame
        elif letter == ")" and group_at >= 0:
            group_at = -1
        elif letter in _SIGNALS:
            moments.append(Moment(at, _SIGNALS[letter]))
        elif letter.isalnum() or letter == "*":
            moments.append(Moment(at, "next", letter))
        elif letter != ("-" if group_at < 0 else ","):
            msg = f"marbles {marbles!r}: {letter!r} at {place} has no meaning there; see rstreams.testing.marbles"
            raise ConfigError(msg)
        frame += 1
    if group_at >= 0:
        msg = f"marbles {marbles!r}: a '(' is not closed"
        raise ConfigError(msg)
    return moments


def _drawn(function: str, marbles: str, allowed: str = "") -> list[Moment]:
    """Return the moments of a stream's string, if it can be the drawing of one.

    Args:
        function: The name of the function that got it.
        marbles: The string.
        allowed: "^" if the moment of the subscription may be drawn in it.

    Errors: `ConfigError` for an empty string, one that goes on after its end, or a sign of another kind of string.
    """
    moments = parse(marbles)
    problem = ""
    if not marbles.strip():
        problem = "there is nothing in it; a stream without signals is drawn as '-'"
    for sign, what in (("^", "subscribe"), ("!", "cancel")):
        if sign not in allowed and any(moment.what == what for moment in moments):
            problem = f"{sign!r} has no meaning here: '^' is for hot, and '!' for `cancel` of expect_marbles"
    if any(moment.what in ("complete", "error") for moment in moments[:-1]):
        problem = "a stream ends once, and nothing follows its end"
    if problem:
        msg = f"{function}({marbles!r}): {problem}"
        raise ConfigError(msg)
    return moments


def _item(letter: str, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever is drawn
    return values.get(letter, int(letter) if letter.isdigit() else letter)


_SIGNALS: Final = {"|": "complete", "X": "error", "#": "error", "^": "subscribe", "!": "cancel"}


def cold(
    marbles: str,
    values: Mapping[str, Any] = _NOTHING,
    *,
    error: BaseException | None = None,
    unit_s: float = 1.0,
) -> Publisher[Any]:
    """Return a publisher that plays `marbles` to each subscriber, from the moment it subscribes.

    Demand: Items come when they are drawn, and no item without demand: one that is not requested yet fails the test,
        because a real source would have to wait or to drop it. Use an operator that asks in time, or `requests`.
    """
    moments = _drawn("cold", marbles)
    return _Drawn(moments, values, error, unit_s, lambda: 0.0)


def hot(
    marbles: str,
    values: Mapping[str, Any] = _NOTHING,
    *,
    error: BaseException | None = None,
    unit_s: float = 1.0,
) -> Publisher[Any]:
    """Return a publisher that plays `marbles` once, from now on, to its current subscribers.

    A subscriber that comes later has missed the signals before. Signals before `^`, if there is one, have happened
    before now. Call it inside the block of a `VirtualScheduler`.
    """
    moments = _drawn("hot", marbles, "^")
    begin = next((moment.at for moment in moments if moment.what == "subscribe"), 0)
    scheduler = current_scheduler.get(None)
    if scheduler is None:
        msg = f"hot({marbles!r}) plays from now on, in virtual time: call it inside `with VirtualScheduler():`"
        raise ConfigError(msg)
    began = scheduler.now() - begin * unit_s
    kept = [moment for moment in moments if moment.what != "subscribe"]
    return _Drawn(kept, values, error, unit_s, lambda: scheduler.now() - began)


def expect_marbles(
    publisher: Publisher[Any],
    expected: str,
    values: Mapping[str, Any] = _NOTHING,
    *,
    error: type[BaseException] | BaseException = BaseException,
    unit_s: float = 1.0,
    requests: str = "",
    cancel: str = "",
) -> None:
    """Subscribe to `publisher`, and assert that it plays `expected`.

    Args:
        publisher: The publisher to verify.
        expected: The signals, each at its moment after the subscription.
        values: The item for each letter.
        error: The error for `X`: that very exception, or one of that type.
        unit_s: The seconds of one character.
        requests: The requests, at their moments; everything at once by default.
        cancel: The moment to cancel, as `!`; never by default.

    Errors: `AssertionError` that shows both pictures, and the items that differ.
    Context: Virtual time: that of the `VirtualScheduler` in whose block it is called, or of a new one.
    """
    wanted = _drawn("expect_marbles", expected)
    with virtual_time() as scheduler:
        require_publisher("expect_marbles", "publisher", publisher)
        probe = _subscribed(scheduler, publisher, unit_s, requests=requests, cancel=cancel)
        scheduler.advance(max(map(_length, (expected, requests, cancel))) * unit_s)
    came = probe.came
    problem = _compare(wanted, came, values, error)
    if problem:
        picture = "\n".join(
            f"  {at:g}: {what}{f' {value!r}' if what != 'complete' else ''}" for at, what, value in came
        )
        msg = f"{problem}\nexpected {expected!r}\ncame, at which moment:\n{picture or '  nothing'}"
        raise AssertionError(msg)


def _length(marbles: str) -> int:
    """Return a number of moments that is more than a string has, to see signals that come too much."""
    return len(marbles) + 2


def _subscribed(
    scheduler: VirtualScheduler, publisher: Publisher[Any], unit_s: float, *, requests: str, cancel: str
) -> _Timed:
    began = scheduler.now()
    probe = _Timed(lambda: (scheduler.now() - began) / unit_s, 0 if requests else UNBOUNDED)
    for moment in parse(requests):
        if moment.what != "next" or not (moment.letter == "*" or moment.letter.isdigit()):
            msg = f"requests={requests!r}: it takes '-', digits and '*'"
            raise ConfigError(msg)
        n = UNBOUNDED if moment.letter == "*" else int(moment.letter)
        scheduler.call_later(moment.at * unit_s, lambda n=n: probe.request(n))  # type: ignore[misc]
    for moment in parse(cancel):
        if moment.what == "cancel":
            scheduler.call_later(moment.at * unit_s, probe.cancel)
    publisher.subscribe(probe)
    return probe


def _compare(
    wanted: Sequence[Moment],
    came: Sequence[tuple[float, str, Any]],
    values: Mapping[str, Any],
    error: type[BaseException] | BaseException,
) -> str:
    """Return the first difference, or ""."""
    for moment, (at, what, value) in zip(wanted, came, strict=False):
        expected = _item(moment.letter, values) if moment.what == "next" else error
        same = moment.what == what
        if what == "next":
            same = same and value == expected
        elif what == "error":
            same = same and (isinstance(value, error) if isinstance(error, type) else value is error)
        if not same or abs(moment.at - at) > 1e-6:
            what_expected = moment.what if moment.what == "complete" else f"{moment.what} {expected!r}"
            return f"{what_expected} was expected at {moment.at}; {what} {value!r} came at {at:g}{advice_for(value)}"
    if len(wanted) > len(came):
        return f"at {wanted[len(came)].at} {wanted[len(came)].what} was expected, and nothing came"
    if len(came) > len(wanted):
        at, what, value = came[len(wanted)]
        return f"nothing more was expected, and {what} {value!r} came at {at:g}"
    return ""


class _Timed(ProbeSubscriber[Any]):
    """A probe that also notes when each signal came, in moments."""

    def __init__(self, moment: Callable[[], float], request: int) -> None:
        super().__init__(request)
        self.came: list[tuple[float, str, Any]] = []
        self._moment = moment

    def on_next(self, item: Any) -> None:  # noqa: ANN401 - whatever is drawn
        self.came.append((self._moment(), "next", item))
        super().on_next(item)

    def on_error(self, error: BaseException) -> None:
        self.came.append((self._moment(), "error", error))
        super().on_error(error)

    def on_complete(self) -> None:
        self.came.append((self._moment(), "complete", None))
        super().on_complete()


class _Drawn(Generic[T]):
    """A publisher of a drawing; `elapsed` tells how much of it is over at a subscription."""

    def __init__(
        self,
        moments: Sequence[Moment],
        values: Mapping[str, Any],
        error: BaseException | None,
        unit_s: float,
        elapsed: Callable[[], float],
    ) -> None:
        self._moments = moments
        self._values = values
        self._error = None if error is None else KeptError(error)
        self._unit_s = unit_s
        self._elapsed = elapsed

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        require_subscriber(subscriber)
        subscription = _Playing(subscriber, bound_scheduler("marbles"))
        subscriber.on_subscribe(subscription)
        elapsed = self._elapsed()
        for moment in self._moments:
            delay_s = moment.at * self._unit_s - elapsed
            if delay_s >= 0:
                subscription.play_later(delay_s, self._signal(moment))

    def _signal(self, moment: Moment) -> Callable[[_Playing], None]:
        if moment.what == "next":
            item = _item(moment.letter, self._values)
            return lambda playing: playing.next(item)
        if moment.what == "complete":
            return lambda playing: playing.end(playing.subscriber.on_complete)
        error = MarbleError() if self._error is None else self._error.again()
        return lambda playing: playing.end(lambda: playing.subscriber.on_error(error))


class _Playing:
    """One subscription to a drawing."""

    def __init__(self, subscriber: Subscriber[Any], scheduler: Scheduler) -> None:
        self.subscriber = subscriber
        self._scheduler = scheduler
        self._demand = 0
        self._ended = False
        self._timers: list[Cancellable] = []

    def play_later(self, delay_s: float, signal: Callable[[_Playing], None]) -> None:
        if not self._ended:
            self._timers.append(self._scheduler.call_later(delay_s, lambda: signal(self)))

    def next(self, item: Any) -> None:  # noqa: ANN401 - whatever is drawn
        if self._ended:
            return
        if self._demand < 1:
            msg = f"the drawing has {item!r} at a moment when nothing is requested (Reactive Streams rule 1.1)"
            raise AssertionError(msg)
        self._demand -= 1
        self.subscriber.on_next(item)

    def end(self, signal: Callable[[], None]) -> None:
        if not self._ended:
            self.cancel()
            signal()

    def request(self, n: int) -> None:
        if self._ended:
            return
        error = demand_error(n)
        if error is not None:
            self.end(lambda: self.subscriber.on_error(error))
        else:
            self._demand += n

    def cancel(self) -> None:
        self._ended = True
        for timer in self._timers:
            timer.cancel()

    def hold(self) -> Hold:
        return NO_HOLD
