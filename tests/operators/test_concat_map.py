import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.operators.concat_map import concat_map
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestConcatMap(FunctionContract):
    holds_what_it_keeps = False  # the outer item is held too whose stream is running
    build = staticmethod(lambda source: concat_map(source, lambda x: range_(x % 3)))
    model = staticmethod(lambda items: [y for x in items for y in range(x % 3)])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))
    failing = staticmethod(lambda source, function: concat_map(source, lambda _: function()))


def test_inner_streams_are_asked_for_exactly_the_demand() -> None:
    source, inner, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[str](3)
    concat_map(source, lambda _: inner, prefetch=2).subscribe(probe)
    source.next(1, 2)
    assert inner.requests == [3]
    inner.next("a")
    inner.complete()

    assert inner.requests == [3, 2]
    assert source.requests == [2]
    assert source.outcomes == ["done", None]
    probe.cancel()
    assert source.outcomes == ["done", "released"]


def test_ten_thousand_empty_inner_streams_need_no_stack() -> None:
    probe = ProbeSubscriber[int](1)
    concat_map(range_(10_000), lambda _: empty(), prefetch=3).subscribe(probe)
    assert probe.completed


def test_delayed_errors_wait_for_the_end() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    concat_map(of(0, 1, 2, 3), lambda x: of(x) if x % 2 else fail(ValueError(x)), delay_errors=True).subscribe(probe)

    assert probe.items == [1, 3]
    assert isinstance(probe.error, ExceptionGroup)
    assert [str(e) for e in probe.error.exceptions] == ["0", "2"]


def test_a_function_that_returns_no_stream() -> None:
    probe = ProbeSubscriber[int](1)
    concat_map(of(1), lambda _: None).subscribe(probe)  # type: ignore[arg-type, return-value]
    assert (
        str(probe.error)
        == "concat_map(function): function must return a Publisher, an iterable or an async iterable, not None"
    )


def test_an_interrupt_of_the_function_passes_and_leaves_no_item_unsettled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def interrupt(_item: int) -> Publisher[int]:
        raise KeyboardInterrupt

    concat_map(source, interrupt).subscribe(probe)
    with pytest.raises(KeyboardInterrupt):
        source.next(1)

    assert source.outcomes == ["failed"]
    assert source.cancelled
    assert probe.signals == ["on_subscribe"]
