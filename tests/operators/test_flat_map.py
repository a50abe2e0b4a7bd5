from collections.abc import Callable

import pytest
import trio

from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.concat import concat
from rstreams.operators.flat_map import flat_map
from rstreams.operators.map import map as map_
from rstreams.runtime.scope import Scope
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.generate import generate
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.paced import Slow


class TestFlatMap(FunctionContract):
    holds_what_it_keeps = False  # the outer items are held whose streams are running
    build = staticmethod(lambda source: flat_map(source, lambda x: of(x, -x)))
    model = staticmethod(lambda items: [y for x in items for y in (x, -x)])
    slowly = staticmethod(lambda items: [*items, *(-x for x in items)])  # then the inner streams take turns
    requests = ((1, [16]), (5, [16]), (UNBOUNDED, [16]))
    failing = staticmethod(lambda source, function: flat_map(source, lambda _: function()))


class TestFlatMapToOne(FunctionContract):
    holds_what_it_keeps = False  # the outer items are held whose streams are running
    build = staticmethod(lambda source: flat_map(source, lambda x: of(x * 10), concurrency=3, prefetch=1))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [3]), (5, [3]), (UNBOUNDED, [3]))
    failing = staticmethod(lambda source, function: flat_map(source, lambda _: function()))


class TestFlatMapOneByOne(FunctionContract):
    holds_what_it_keeps = False  # the outer items are held whose streams are running
    build = staticmethod(lambda source: flat_map(source, lambda x: range_(x % 3), concurrency=1, prefetch=2))
    model = staticmethod(lambda items: [y for x in items for y in range(x % 3)])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))
    failing = staticmethod(lambda source, function: flat_map(source, lambda _: function()))


class Inners:
    """A function for flat_map that hands out publishers played by the test, each under its item."""

    def __init__(self) -> None:
        self.of: dict[int, ManualPublisher[str]] = {}

    def __call__(self, item: int) -> Publisher[str]:
        return self.of.setdefault(item, ManualPublisher[str]())


def _mapped(
    request: int = UNBOUNDED, *, hold: bool = False, concurrency: int = 16, prefetch: int = 32
) -> tuple[ManualPublisher[int], Inners, ProbeSubscriber[str]]:
    source, inners, probe = ManualPublisher[int](), Inners(), ProbeSubscriber[str](request, hold=hold)
    flat_map(source, inners, concurrency=concurrency, prefetch=prefetch).subscribe(probe)
    return source, inners, probe


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
@pytest.mark.parametrize("option", ["concurrency", "prefetch"])
def test_a_wrong_option_is_named(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"flat_map\({option}={value!r}\): {option} must be 1 or more"):
        flat_map(of(1), of, **{option: value})  # type: ignore[arg-type]


def test_a_function_that_returns_no_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    flat_map(source, lambda x: x).subscribe(probe)  # type: ignore[arg-type, return-value]

    source.next(7)

    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == (
        "flat_map(function): function must return a Publisher, an iterable or an async iterable, not 7"
    )
    assert source.outcomes == ["failed"]


def test_inner_items_are_emitted_as_they_come() -> None:
    source, inners, probe = _mapped()

    source.next(1, 2)
    inners.of[2].next("2a")
    inners.of[1].next("1a")
    inners.of[2].next("2b")

    assert probe.items == ["2a", "1a", "2b"]


def test_completes_when_the_source_and_all_inner_streams_have() -> None:
    source, inners, probe = _mapped()
    source.next(1, 2)

    inners.of[1].complete()
    source.complete()
    assert not probe.completed
    inners.of[2].complete()

    assert probe.completed
    assert not source.cancelled


def test_completes_when_the_last_inner_stream_has_and_then_the_source() -> None:
    source, inners, probe = _mapped()
    source.next(1)

    inners.of[1].complete()
    assert not probe.completed
    source.complete()

    assert probe.completed


def test_a_source_that_is_complete_is_left_alone() -> None:
    source, inners, probe = _mapped(1)
    source.next(1)
    source.complete()

    inners.of[1].complete()
    probe.cancel()

    assert source.requests == [16]
    assert not source.cancelled  # 2.4


def test_a_cancel_after_the_source_is_complete_reaches_the_inner_streams_alone() -> None:
    source, inners, probe = _mapped(1)
    source.next(1)
    source.complete()

    probe.cancel()

    assert inners.of[1].cancelled
    assert not source.cancelled  # 2.4


def test_never_more_inner_streams_than_the_concurrency() -> None:
    source, inners, _ = _mapped(concurrency=2)
    source.next(1, 2)
    assert source.outstanding == 0

    inners.of[1].complete()

    assert source.requests == [2, 1]


def test_an_inner_stream_that_completes_while_its_item_is_emitted_makes_room_for_the_next() -> None:
    source, inners = ManualPublisher[int](), Inners()
    probe = ProbeSubscriber[str](UNBOUNDED, on_item=lambda _: inners.of[1].complete())
    flat_map(source, inners, concurrency=1).subscribe(probe)
    source.next(1)

    inners.of[1].next("a")

    assert source.requests == [1, 1]


def test_an_inner_stream_counts_until_its_last_item_has_left() -> None:
    source, inners, probe = _mapped(1, concurrency=1)
    source.next(1)

    inners.of[1].next("a", "b")
    inners.of[1].complete()
    assert source.requests == [1]
    probe.request(1)

    assert source.requests == [1, 1]


def test_inner_items_wait_for_demand_and_take_turns() -> None:
    source, inners, probe = _mapped(1)
    source.next(1, 2)
    inners.of[1].next("1a", "1b", "1c")
    inners.of[2].next("2a", "2b")
    assert probe.items == ["1a"]

    probe.request(4)

    assert probe.items == ["1a", "1b", "2a", "1c", "2b"]


def test_no_more_than_the_prefetch_is_drawn_ahead_of_each() -> None:
    source, inners, probe = _mapped(1, prefetch=4)
    source.next(1, 2)
    assert inners.of[1].requests == [4]

    inners.of[1].next("a", "b", "c", "d")
    assert inners.of[1].outstanding == 0
    probe.request(1)
    assert inners.of[1].requests == [4]
    probe.request(1)  # three have left

    assert inners.of[1].requests == [4, 3]
    assert inners.of[2].requests == [4]


@pytest.mark.slow
def test_ten_thousand_inner_streams_that_answer_at_once_need_no_stack() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)

    flat_map(range_(10_000), of).subscribe(probe)

    assert probe.items == list(range(10_000))
    assert probe.completed


def test_ten_thousand_empty_inner_streams_need_no_stack() -> None:
    probe = ProbeSubscriber[int](1)

    flat_map(range_(10_000), lambda _: empty()).subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_complete"]


@pytest.mark.slow
def test_one_more_requested_in_on_next_leaves_nothing_out() -> None:
    probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))

    flat_map(range_(10_000), lambda x: of(x, x + 10_000), concurrency=4).subscribe(probe)

    assert sorted(probe.items) == list(range(20_000))
    assert probe.completed


# holds


def test_an_outer_item_is_done_when_its_inner_stream_is_complete() -> None:
    source, inners, _ = _mapped()
    source.next(1, 2)

    inners.of[1].next("a")
    assert source.outcomes == [None, None]
    inners.of[1].complete()

    assert source.outcomes == ["done", None]
    assert inners.of[1].outcomes == ["done"]


def test_an_outer_item_is_done_when_all_who_hold_its_items_have_let_go() -> None:
    source, inners, probe = _mapped(hold=True)
    source.next(1)
    inners.of[1].next("a", "b")
    inners.of[1].complete()

    probe.holds[0].done()
    assert source.outcomes == [None]
    probe.holds[1].done()

    assert source.outcomes == ["done"]
    assert inners.of[1].outcomes == ["done", "done"]


def test_an_outer_item_whose_items_waited_is_done_when_they_have_been_let_go() -> None:
    source, inners, probe = _mapped(1, hold=True)
    source.next(1)
    inners.of[1].next("a", "b")
    inners.of[1].complete()
    assert inners.of[1].outcomes == [None, None]
    probe.request(1)
    probe.holds[0].done()
    assert source.outcomes == [None]

    probe.holds[1].done()

    assert source.outcomes == ["done"]
    assert inners.of[1].outcomes == ["done", "done"]


def test_an_outer_item_whose_items_need_no_acknowledgement_waits_for_them_all_the_same() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1, hold=True)
    flat_map(source, lambda x: of(x, -x)).subscribe(probe)
    source.next(1)
    probe.request(1)

    probe.holds[0].done()
    assert source.outcomes == [None]
    probe.holds[1].fail(ValueError())

    assert source.outcomes == ["failed"]


def test_an_item_that_fails_downstream_fails_its_outer_item_and_gives_back_the_others() -> None:
    source, inners, probe = ManualPublisher[int](), Inners(), ProbeSubscriber[float](UNBOUNDED)
    map_(flat_map(source, inners), float).subscribe(probe)
    source.next(1, 2)

    inners.of[1].next("1.5", "no number")

    assert isinstance(probe.error, ValueError)
    assert source.outcomes == ["failed", "released"]
    assert inners.of[1].outcomes == ["done", "failed"]
    assert inners.of[1].cancelled
    assert inners.of[2].cancelled
    assert source.cancelled


def test_an_inner_stream_that_fails_fails_its_outer_item_and_gives_back_the_others() -> None:
    error = ValueError()
    source, inners, probe = _mapped(1)
    source.next(1, 2, 3)
    inners.of[1].next("a", "b")
    inners.of[2].next("c")
    inners.of[3].complete()

    inners.of[1].next("d")

    inners.of[2].error(error)
    assert not probe.ended
    probe.request(3)

    assert probe.items == ["a", "b", "c", "d"]
    assert probe.error is error
    assert source.cancelled
    assert source.outcomes == ["released", "failed", "done"]
    assert source.errors[1] is error
    assert inners.of[1].outcomes == ["done", "done", "done"]
    assert inners.of[2].outcomes == ["done"]
    assert inners.of[1].cancelled
    assert not inners.of[2].cancelled  # 2.3


@pytest.mark.parametrize("requests", [[5], [1, 1, 1]])
def test_no_further_stream_begins_before_a_failure_that_is_next(requests: list[int]) -> None:
    called: list[int] = []

    def inner(number: int) -> Publisher[int]:
        called.append(number)
        return concat(of(number), fail(LookupError()) if number == 1 else empty())

    probe = ProbeSubscriber[int](0)
    flat_map(range_(9), inner, concurrency=2).subscribe(probe)
    for request in requests:
        probe.request(request)

    assert isinstance(probe.error, LookupError)
    assert (probe.items, called) == ([0, 1, 2], [0, 1, 2])


def test_a_hold_that_outlives_the_failure_of_its_inner_stream_keeps_the_outer_item_open() -> None:
    source, inners, probe = _mapped(hold=True)
    source.next(1)
    inners.of[1].next("a")
    inners.of[1].error(ValueError())
    assert source.outcomes == [None]

    probe.holds[0].done()

    assert source.outcomes == ["failed"]
    assert inners.of[1].outcomes == ["done"]


def test_an_error_of_the_source_comes_behind_the_inner_streams() -> None:
    source, inners, probe = _mapped(1)
    source.next(1)
    inners.of[1].next("a", "b")

    source.error(ValueError())
    probe.request(2)
    inners.of[1].next("c")
    assert not probe.ended
    inners.of[1].complete()

    assert probe.items == ["a", "b", "c"]
    assert isinstance(probe.error, ValueError)
    assert source.outcomes == ["done"]
    assert not source.cancelled  # 2.3


@pytest.mark.parametrize("request_", [1, UNBOUNDED])
def test_a_cancel_gives_everything_back(request_: int) -> None:
    source, inners, probe = _mapped(request_)
    source.next(1)
    inners.of[1].next("a", "b")

    probe.cancel()
    inners.of[1].next("c")

    assert source.cancelled
    assert inners.of[1].cancelled
    assert source.outcomes == ["released"]
    assert None not in inners.of[1].outcomes


def test_a_hold_that_outlives_a_cancel_keeps_the_outer_item_open() -> None:
    source, inners, probe = _mapped(hold=True)
    source.next(1)
    inners.of[1].next("a")
    probe.cancel()
    assert source.outcomes == [None]

    probe.holds[0].done()

    assert source.outcomes == ["released"]  # its stream was not gone through to the end
    assert inners.of[1].outcomes == ["done"]


# re-entrance


def _ending(act: Callable[[], object]) -> Callable[[int], Publisher[str]]:
    def function(_: int) -> Publisher[str]:
        act()
        return of("x")

    return function


def test_a_function_that_cancels_and_returns_a_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[str](5)
    flat_map(source, _ending(probe.cancel)).subscribe(probe)

    source.next(1)

    assert probe.signals == ["on_subscribe"]
    assert source.cancelled
    assert None not in source.outcomes


def test_an_inner_stream_that_answers_after_a_cancel_is_cancelled() -> None:
    slow = Slow[str]()
    source, probe = ManualPublisher[int](), ProbeSubscriber[str](5)
    flat_map(source, lambda _: slow).subscribe(probe)
    source.next(1)
    probe.cancel()

    late = slow.answer()

    assert late.cancelled
    assert late.requests == []


async def test_endless_empty_inner_streams_let_other_tasks_run() -> None:
    probe, called = ProbeSubscriber[int](1), 0

    def function(_: int) -> Publisher[int]:
        nonlocal called
        called += 1
        return empty()

    async with Scope():
        flat_map(generate(0, lambda n: (n, n + 1)), function).subscribe(probe)
        while called < 4 * SLICE:
            await trio.lowlevel.checkpoint()
        probe.cancel()
        at_cancel = called
        await trio.lowlevel.checkpoint()
    assert called == at_cancel


# delayed errors


def test_delayed_errors_of_function_inner_streams_and_source_come_together_in_order() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    inners = {1: ManualPublisher[int](), 2: ManualPublisher[int]()}
    flat_map(source, inners.__getitem__, concurrency=3, delay_errors=True).subscribe(probe)
    source.next(7, 1, 2)
    assert source.requests == [3, 1]
    error, last = ValueError(), OSError()
    inners[1].error(error)
    source.error(last)
    inners[2].next(5)
    assert not probe.ended
    inners[2].complete()

    assert probe.items == [5]
    assert isinstance(probe.error, ExceptionGroup)
    assert [type(e) for e in probe.error.exceptions] == [KeyError, ValueError, OSError]
    assert source.outcomes == ["failed", "failed", "done"]


def test_an_outer_item_is_held_while_its_iterator_is_drawn_from() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    flat_map(source, lambda x: of(x, x)).subscribe(probe)
    source.next(1, 2)
    assert probe.items == [1, 1, 2]
    assert source.outcomes == ["done", None]

    probe.cancel()

    assert source.outcomes == ["done", "released"]
