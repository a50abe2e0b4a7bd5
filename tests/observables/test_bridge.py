"""Observables as streams and streams as observables; what `rx` does beyond its operators."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reactivex
import trio
from reactivex import Observable, operators
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.errors import BufferOverflow, ConfigError, DemandError, SpecViolation
from rstreams.observables import from_observable, rx, to_observable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.observables.rx_operators import table
from tests.operators.contract import FunctionContract, OperatorContract
from tests.operators.paced import Slow

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "reactivex.md").read_text(encoding="utf-8")


# rx as an operator like any other


class TestRx(FunctionContract):
    build = staticmethod(lambda source: rx(source, operators.map(lambda x: x * 10)))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))
    failing = staticmethod(lambda source, function: rx(source, operators.map(lambda _: function())))

    def test_what_a_user_function_raises_ends_the_stream(self) -> None:
        """The operator tells the stream of it, and not which item it was: the item is done."""
        error = ZeroDivisionError("by the user")

        def fail() -> None:
            raise error

        source, probe = self._subscribe_with(fail)
        source.next(1)

        assert probe.error is error
        assert source.cancelled
        assert source.outcomes == ["done"]

    def test_stop_iteration_is_an_error_like_any_other(self) -> None:
        error = StopIteration("by the user")

        def fail() -> None:
            raise error

        source, probe = self._subscribe_with(fail)
        source.next(1)

        assert probe.error is error


class TestRxOfMany(OperatorContract):
    build = staticmethod(lambda source: rx(source, operators.flat_map(lambda x: reactivex.of(x, x))))
    model = staticmethod(lambda items: [x for x in items for _ in range(2)])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))


def test_an_item_is_held_until_all_that_came_of_it_is_handled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2, hold=True)
    rx(source, operators.flat_map(lambda x: reactivex.of(x, x))).subscribe(probe)
    source.next(1)
    probe.holds[0].done()
    assert source.outcomes == [None]
    probe.holds[1].fail(ValueError())
    assert source.outcomes == ["failed"]


def test_what_waits_is_given_back_on_a_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    rx(source, operators.flat_map(lambda x: reactivex.of(x, x))).subscribe(probe)
    source.next(1)
    assert (probe.items, source.outcomes, source.requests) == ([1], [None], [1])
    probe.cancel()
    assert source.outcomes == ["released"]


def test_an_error_comes_behind_the_items_that_came_before_it() -> None:
    failing = operators.flat_map(lambda x: reactivex.of(x, x).pipe(operators.concat(reactivex.throw(LookupError()))))
    probe = ProbeSubscriber[int](1)
    rx(Stream.of(1), failing).subscribe(probe)
    assert (probe.items, probe.error) == ([1], None)
    probe.request(1)
    assert probe.items == [1, 1]
    assert isinstance(probe.error, LookupError)


def test_too_many_items_of_one_are_an_overflow() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    rx(source, operators.flat_map(lambda _: reactivex.range(0, 100)), max_expansion=10).subscribe(probe)
    source.next(1)
    assert isinstance(probe.error, BufferOverflow)
    assert "rx(max_expansion=10)" in str(probe.error)
    assert source.cancelled
    assert source.outcomes == ["released"]


@pytest.mark.parametrize("bad", [0, -1, 1.5, None])
def test_the_expansion_is_a_number_of_items(bad: Any) -> None:  # noqa: ANN401 - anything but that
    with pytest.raises(ConfigError, match=rf"rx\(max_expansion={bad!r}\): max_expansion must be 1 or more items"):
        Stream.of(1).rx(operators.pairwise(), max_expansion=bad)


async def test_an_operator_that_lets_nothing_through_keeps_nobody_out() -> None:
    with trio.move_on_after(0.05) as waiting:
        await Stream.generate(0, lambda x: (x, x + 1)).rx(operators.filter(lambda _: False)).to_list()
    assert waiting.cancelled_caught


async def test_an_operator_that_sends_from_another_thread_fails_the_stream() -> None:
    with pytest.raises(SpecViolation, match="from another thread"):
        await Stream.of(1).rx(lambda source: source.pipe(_quietly_elsewhere())).to_list()


def _quietly_elsewhere() -> Callable[[Observable[int]], Observable[int]]:
    """Send each item from another thread, and keep what that raises there."""

    def operator(source: Observable[int]) -> Observable[int]:
        def subscribe(observer: Any, _: object = None) -> Any:  # noqa: ANN401 - as reactivex has it
            def elsewhere(item: int) -> None:
                def send() -> None:
                    with pytest.raises(SpecViolation, match=r"1\.3"):
                        observer.on_next(item)

                thread = threading.Thread(target=send)
                thread.start()
                thread.join()

            return source.subscribe(elsewhere, observer.on_error, observer.on_completed)

        return Observable(subscribe)

    return operator


# observable in


def test_nothing_is_subscribed_to_before_it_is_requested() -> None:
    subscribed: list[None] = []
    observable = reactivex.defer(lambda _: subscribed.append(None) or reactivex.of(1, 2))  # type: ignore[func-returns-value]
    probe = ProbeSubscriber[int]()
    from_observable(observable).subscribe(probe)
    assert not subscribed
    probe.request(5)
    assert probe.items == [1, 2]
    assert probe.completed


@pytest.mark.parametrize(
    ("overflow", "items"),
    [("drop_oldest", [0, 4, 5]), ("drop_newest", [0, 1, 2]), ("latest", [0, 5]), ("drop", [0])],
)
def test_what_becomes_of_items_that_nobody_asked_for(overflow: Any, items: list[int]) -> None:  # noqa: ANN401 - a literal
    subject, probe = Subject[int](), ProbeSubscriber[int](1)
    from_observable(subject, overflow=overflow, size=2).subscribe(probe)
    for item in range(6):
        subject.on_next(item)
    subject.on_completed()
    probe.request(9)
    assert probe.items == items
    assert probe.completed


def test_an_overflow_is_an_error_unless_something_else_is_said() -> None:
    subject, probe = Subject[int](), ProbeSubscriber[int](1)
    from_observable(subject, size=2).subscribe(probe)
    for item in range(4):
        subject.on_next(item)
    assert isinstance(probe.error, BufferOverflow)
    assert not subject.observers


def test_its_error_and_its_cancel() -> None:
    subject, probe = Subject[int](), ProbeSubscriber[int](1)
    from_observable(subject).subscribe(probe)
    error = LookupError()
    subject.on_error(error)
    assert probe.error is error

    subject, probe = Subject[int](), ProbeSubscriber[int](1)
    from_observable(subject).subscribe(probe)
    probe.cancel()
    assert not subject.observers


def test_a_wrong_demand() -> None:
    probe = ProbeSubscriber[int](-1)
    from_observable(reactivex.of(1)).subscribe(probe)
    assert isinstance(probe.error, DemandError)


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match=r"overflow='wait'\): overflow must be 'error', 'drop_oldest'"):
        from_observable(reactivex.of(1), overflow="wait")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"from_observable\(size=0\): size must be 1 or more items"):
        from_observable(reactivex.of(1), size=0)
    with pytest.raises(TypeError, match="must be a reactivex Observable, not 7"):
        from_observable(7)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_items_from_another_thread_come_in_order_and_in_the_streams_own() -> None:
    here = threading.get_ident()
    threads: set[int] = set()
    observable = reactivex.range(0, 2_000, scheduler=NewThreadScheduler())
    stream = Stream.from_observable(observable, size=2_000).do_on_next(lambda _: threads.add(threading.get_ident()))
    assert await stream.to_list() == [*range(2_000)]
    assert threads == {here}


def test_items_from_another_thread_need_a_scope() -> None:
    raised: list[BaseException] = []
    subject, probe = Subject[int](), ProbeSubscriber[int](1)
    from_observable(subject).subscribe(probe)

    def send() -> None:
        try:
            subject.on_next(1)
        except ConfigError as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    assert "there is no scope" in str(raised[0])
    assert probe.items == []


def test_a_source_that_is_there_late_is_asked_for_an_item() -> None:
    source, probe = Slow[int](), ProbeSubscriber[int](1)
    rx(source, operators.map(lambda x: x + 1)).subscribe(probe)
    source.answer().next(1)
    assert probe.items == [2]


def test_a_source_that_is_there_after_a_cancel_is_cancelled() -> None:
    source, probe = Slow[int](), ProbeSubscriber[int](1)
    rx(source, operators.map(lambda x: x + 1)).subscribe(probe)
    probe.cancel()
    assert source.answer().cancelled


# observable out


def test_a_stream_as_an_observable() -> None:
    assert to_observable(Stream.range(3)).pipe(operators.to_list()).run() == [0, 1, 2]


def test_a_streams_error_reaches_the_observer() -> None:
    errors: list[Exception] = []
    Stream.fail(LookupError()).to_observable().subscribe(on_error=errors.append)
    assert [type(error) for error in errors] == [LookupError]


def test_an_observer_that_goes_cancels_the_stream() -> None:
    source = ManualPublisher[int]()
    to_observable(source).subscribe(print).dispose()
    assert source.cancelled


def test_no_more_is_drawn_of_a_quick_stream_than_its_observers_take() -> None:
    drawn, seen = list[int](), list[int]()
    to_observable(Stream.range(1000).do_on_next(drawn.append)).pipe(operators.take(3)).subscribe(seen.append)
    assert seen == drawn == [0, 1, 2]


def test_an_observer_that_goes_before_its_stream_is_there_cancels_it() -> None:
    source = Slow[int]()
    to_observable(source).subscribe(print).dispose()
    assert source.answer().cancelled


def test_a_stream_that_is_there_late_is_asked_for_its_items() -> None:
    source, seen = Slow[int](), list[int]()
    to_observable(source).subscribe(seen.append)
    source.answer().next(1)
    assert seen == [1]


def test_an_observable_through_a_stream_and_back() -> None:
    subject, seen = Subject[int](), list[int]()
    Stream.from_observable(subject).map(lambda x: x + 1).to_observable().subscribe(seen.append)
    subject.on_next(1)
    subject.on_next(2)
    assert seen == [2, 3]


# the guide


def test_the_guide_has_the_table() -> None:
    assert GUIDE.endswith("\n\n" + table() + "\n"), "write it anew: python -m tests.observables.rx_operators"


def test_the_guides_code_runs() -> None:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(code, names)  # noqa: S102 - our own guide
    probe = ProbeSubscriber[Any](9)
    names["pairs"].subscribe(probe)
    assert names["total"] == 10
    assert probe.items == [(0, 1), (1, 2), (2, 3)]
