"""What all sources over plain items do alike, and what is special about each."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams import sources
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription
from rstreams.errors import ConfigError, DemandError
from rstreams.testing import ProbeSubscriber


def count_up_to(end: int) -> Publisher[int]:
    return sources.generate(0, lambda n: (n, n + 1) if n < end else None)


def iterated(end: int) -> Iterator[int]:
    yield from range(end)


# Each takes a number and emits the numbers from 0 up to it.
COUNTING: dict[str, Callable[[int], Publisher[int]]] = {
    "of": lambda end: sources.of(*range(end)),
    "from_iterable(list)": lambda end: sources.from_iterable(list(range(end))),
    "from_iterable(dict)": lambda end: sources.from_iterable(dict.fromkeys(range(end))),
    "from_iterable(generator)": lambda end: sources.defer(lambda: sources.from_iterable(iterated(end))),
    "range": sources.range,
    "generate": count_up_to,
    "defer": lambda end: sources.defer(lambda: sources.range(end)),
}
KNOWS_ITS_END = {"of", "from_iterable(list)", "range", "defer"}

counting = pytest.mark.parametrize("make", COUNTING.values(), ids=COUNTING.keys())


@counting
def test_items_in_order_then_the_end(make: Callable[[int], Publisher[int]]) -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)

    make(5).subscribe(probe)

    assert probe.items == [0, 1, 2, 3, 4]
    assert probe.signals == ["on_subscribe", *["on_next"] * 5, "on_complete"]


@counting
def test_required_1_01_no_more_items_than_requested(make: Callable[[int], Publisher[int]]) -> None:
    probe = ProbeSubscriber[int]()
    make(5).subscribe(probe)
    assert probe.items == []

    probe.request(1)
    assert probe.items == [0]
    probe.request(2)
    assert probe.items == [0, 1, 2]
    probe.request(10)
    assert probe.items == [0, 1, 2, 3, 4]
    assert probe.completed


@pytest.mark.parametrize("name", COUNTING)
def test_required_1_05_completion_comes_as_soon_as_it_is_known(name: str) -> None:
    probe = ProbeSubscriber[int](5)
    COUNTING[name](5).subscribe(probe)

    assert probe.completed == (name in KNOWS_ITS_END)
    probe.request(1)

    assert probe.signals == ["on_subscribe", *["on_next"] * 5, "on_complete"]


@pytest.mark.parametrize("name", COUNTING)
def test_no_items_at_all(name: str) -> None:
    probe = ProbeSubscriber[int]()
    COUNTING[name](0).subscribe(probe)

    assert probe.completed == (name in KNOWS_ITS_END)
    probe.request(1)

    assert probe.signals == ["on_subscribe", "on_complete"]


@counting
def test_required_1_10_each_subscriber_has_its_own_run(make: Callable[[int], Publisher[int]]) -> None:
    publisher = make(3)
    first, second = ProbeSubscriber[int](2), ProbeSubscriber[int](UNBOUNDED)

    publisher.subscribe(first)
    publisher.subscribe(second)
    first.request(5)

    assert first.items == second.items == [0, 1, 2]


@counting
def test_required_1_09_a_subscriber_of_none_is_refused(make: Callable[[int], Publisher[int]]) -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"rule 1\.9"):
        make(3).subscribe(nobody)


class RequestsEagerly(ProbeSubscriber[int]):
    """Requests inside `on_subscribe` and notes whether anything came before that returned."""

    def on_subscribe(self, subscription: Subscription) -> None:
        super().on_subscribe(subscription)
        subscription.request(2)
        assert self.items == []


@counting
def test_required_1_03_nothing_comes_inside_on_subscribe(make: Callable[[int], Publisher[int]]) -> None:
    probe = RequestsEagerly()

    make(5).subscribe(probe)

    assert probe.items == [0, 1]


@pytest.mark.slow
@counting
def test_required_3_03_requests_inside_on_next_do_not_recurse(make: Callable[[int], Publisher[int]]) -> None:
    probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))

    make(100_000).subscribe(probe)  # at a frame each this would overflow the stack long before the end

    assert len(probe.items) == 100_000
    assert probe.completed


@counting
@pytest.mark.parametrize("when", ["on_subscribe", "on_next", "later"])
def test_required_3_05_cancel_is_silent_at_once(make: Callable[[int], Publisher[int]], when: str) -> None:
    probe = ProbeSubscriber[int](on_item=lambda item: probe.cancel() if item == 1 and when == "on_next" else None)
    if when == "on_subscribe":
        probe = CancelsAtOnce()
    make(5).subscribe(probe)
    if when == "on_next":
        probe.request(UNBOUNDED)
        assert probe.items == [0, 1]
    elif when == "later":
        probe.request(2)
        probe.cancel()
        assert probe.items == [0, 1]

    received = list(probe.items)
    probe.request(5)
    probe.request(0)
    probe.cancel()

    assert probe.items == received
    assert not probe.ended


class CancelsAtOnce(ProbeSubscriber[Any]):
    def on_subscribe(self, subscription: Subscription) -> None:
        super().on_subscribe(subscription)
        subscription.request(1)
        subscription.cancel()


@counting
@pytest.mark.parametrize("n", [0, -1, True, 1.5, None])
def test_required_3_09_a_bad_request_fails(make: Callable[[int], Publisher[int]], n: int) -> None:
    probe = ProbeSubscriber[int]()
    make(5).subscribe(probe)

    probe.request(n)
    probe.request(1)

    assert isinstance(probe.error, DemandError)
    assert repr(n) in str(probe.error)
    assert probe.signals == ["on_subscribe", "on_error"]


@counting
def test_a_bad_request_inside_on_next_stops_the_items(make: Callable[[int], Publisher[int]]) -> None:
    probe = ProbeSubscriber[int](UNBOUNDED, on_item=lambda _: probe.request(0))

    make(5).subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_next", "on_error"]


@counting
def test_required_3_17_demand_saturates(make: Callable[[int], Publisher[int]]) -> None:
    def more(_: int) -> None:
        probe.request(UNBOUNDED)
        probe.request(UNBOUNDED - 1)

    probe = ProbeSubscriber[int](1, on_item=more)

    make(3).subscribe(probe)

    assert probe.items == [0, 1, 2]
    assert probe.completed


@counting
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_required_2_13_what_on_next_raises_reaches_who_requested(
    make: Callable[[int], Publisher[int]], error: BaseException
) -> None:
    def refuse(item: int) -> None:
        if item == 1:
            raise error

    probe = ProbeSubscriber[int](on_item=refuse)
    make(5).subscribe(probe)

    with pytest.raises(type(error)) as raised:
        probe.request(3)
    probe.request(3)

    assert raised.value is error
    assert probe.signals == ["on_subscribe", "on_next", "on_next"]


class RefusesSubscription(ProbeSubscriber[Any]):
    def on_subscribe(self, subscription: Subscription) -> None:
        super().on_subscribe(subscription)
        raise ValueError


@counting
def test_what_on_subscribe_raises_reaches_who_subscribed(make: Callable[[int], Publisher[int]]) -> None:
    probe = RefusesSubscription()
    with pytest.raises(ValueError):  # noqa: PT011 - the very one raised above
        make(5).subscribe(probe)

    probe.request(1)

    assert probe.items == []


@counting
def test_items_need_no_acknowledgement(make: Callable[[int], Publisher[int]]) -> None:
    probe = ProbeSubscriber[int](1, hold=True)
    make(2).subscribe(probe)
    assert probe.holds == [NO_HOLD]


@given(st.lists(st.integers()), st.lists(st.integers(min_value=1, max_value=7), max_size=20))
def test_what_is_received_is_what_was_requested(items: list[int], requests: list[int]) -> None:
    for iterable in (items, tuple(items), iter(items)):
        probe = ProbeSubscriber[int]()
        sources.from_iterable(iterable).subscribe(probe)
        for n in requests:
            probe.request(n)
        assert probe.items == items[: sum(requests)]


# range


@pytest.mark.parametrize("bounds", [(3,), (2, 5), (0, 10, 3), (5, 0, -2), (3, 3), (2**70, 2**70 + 2)])
def test_range_is_pythons(bounds: tuple[int, ...]) -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    sources.range(*bounds).subscribe(probe)
    assert probe.items == list(range(*bounds))
    assert probe.completed


def test_a_step_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"range\(step=0\): step must be"):
        sources.range(1, 2, 0)


# generate


def test_generate_calls_step_once_an_item_requested() -> None:
    calls = []

    def step(n: int) -> tuple[str, int]:
        calls.append(n)
        return str(n), n + 1

    probe = ProbeSubscriber[str](3)
    sources.generate(7, step).subscribe(probe)

    assert probe.items == ["7", "8", "9"]
    assert calls == [7, 8, 9]


def test_what_step_raises_is_the_error() -> None:
    probe = ProbeSubscriber[float](UNBOUNDED)
    sources.generate(2, lambda n: (1 / n, n - 1)).subscribe(probe)
    assert probe.items == [0.5, 1.0]
    assert isinstance(probe.error, ZeroDivisionError)


# defer


def test_defer_makes_a_publisher_for_each_subscriber() -> None:
    made = iter([sources.of(1), sources.of(2)])
    publisher = sources.defer(lambda: next(made))
    first, second = ProbeSubscriber[int](1), ProbeSubscriber[int](1)

    publisher.subscribe(first)
    publisher.subscribe(second)

    assert first.items == [1]
    assert second.items == [2]


def test_what_make_raises_is_the_error() -> None:
    def fail() -> Publisher[int]:
        raise ZeroDivisionError

    probe = ProbeSubscriber[int]()
    sources.defer(fail).subscribe(probe)
    assert isinstance(probe.error, ZeroDivisionError)
    assert probe.signals == ["on_subscribe", "on_error"]


def test_make_must_return_a_stream() -> None:
    no_stream: Any = lambda: 12  # noqa: E731 - the point is that it is none
    probe = ProbeSubscriber[Any]()
    sources.defer(no_stream).subscribe(probe)
    assert "defer(make): make must return a Publisher, an iterable or an async iterable, not 12" in str(probe.error)


# empty, never, fail


def test_empty_completes_without_demand() -> None:
    probe = ProbeSubscriber[Any]()
    sources.empty().subscribe(probe)
    probe.request(1)
    assert probe.signals == ["on_subscribe", "on_complete"]


def test_fail_fails_without_demand() -> None:
    error = ValueError()
    probe = ProbeSubscriber[Any](1)
    sources.fail(error).subscribe(probe)
    assert probe.error is error
    assert probe.signals == ["on_subscribe", "on_error"]


def test_never_does_nothing() -> None:
    probe = ProbeSubscriber[Any](UNBOUNDED)
    sources.never().subscribe(probe)
    assert probe.signals == ["on_subscribe"]
    assert probe.subscription is not None
    assert probe.subscription.hold() is NO_HOLD


ITEMLESS = {"empty": sources.empty, "never": sources.never, "fail": lambda: sources.fail(ValueError())}
itemless = pytest.mark.parametrize("make", ITEMLESS.values(), ids=ITEMLESS.keys())


@itemless
def test_a_cancel_inside_on_subscribe_keeps_the_end_away(make: Callable[[], Publisher[Any]]) -> None:
    probe = CancelsAtOnce()
    make().subscribe(probe)
    probe.request(0)
    assert probe.signals == ["on_subscribe"]


@itemless
def test_an_itemless_source_refuses_a_subscriber_of_none(make: Callable[[], Publisher[Any]]) -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"rule 1\.9"):
        make().subscribe(nobody)


def test_never_fails_on_a_bad_request() -> None:
    probe = ProbeSubscriber[Any]()
    sources.never().subscribe(probe)
    probe.request(0)
    probe.request(0)
    assert probe.signals == ["on_subscribe", "on_error"]
    assert isinstance(probe.error, DemandError)


@itemless
def test_a_bad_request_after_the_end_is_nothing(make: Callable[[], Publisher[Any]]) -> None:
    probe = ProbeSubscriber[Any]()
    make().subscribe(probe)
    probe.request(0)
    assert probe.signals[1:] in (["on_complete"], ["on_error"])
