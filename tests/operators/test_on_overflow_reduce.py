import operator
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, Scannable
from rstreams.errors import ConfigError
from rstreams.operators.on_overflow_reduce import on_overflow_reduce
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestOnOverflowReduce(OperatorContract):
    holds_what_it_keeps = False  # what waits is one item, whatever was folded into it
    build = staticmethod(lambda source: on_overflow_reduce(source, operator.add))
    model = staticmethod(lambda items: items)
    slowly = staticmethod(lambda items: [items[0], sum(items[1:])])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        """The source does not wait: what is not requested at once is folded into one item."""
        probe = ProbeSubscriber[int](step)

        type(self).build(from_iterable(ITEMS)).subscribe(probe)
        assert probe.items == ITEMS[:step]
        assert not probe.completed
        probe.request(1)

        assert probe.items == [*ITEMS[:step], sum(ITEMS[step:])]
        assert probe.completed


class TestOnOverflowReduceOnResult(TestOnOverflowReduce):
    build = staticmethod(lambda source: on_overflow_reduce(source, operator.add, ack="on_result"))


def subscribed(function: Any = operator.add, **options: Any) -> tuple[ManualPublisher[Any], ProbeSubscriber[Any]]:  # noqa: ANN401
    source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](1, hold=True)
    on_overflow_reduce(source, function, **options).subscribe(probe)
    return source, probe


def test_another_ack_is_named() -> None:
    with pytest.raises(ConfigError, match=r"on_overflow_reduce\(ack='never'\): ack must be 'within_window'"):
        on_overflow_reduce(ManualPublisher[int](), max, ack="never")  # type: ignore[arg-type]


def test_what_waits_is_folded_in_order_and_done() -> None:
    source, probe = subscribed(ack="on_receipt")

    source.next("a", "b", "c", "d")
    assert source.outcomes == [None, "done", "done", "done"]
    probe.request(1)
    source.next("e", "f")
    probe.request(1)

    assert probe.items == ["a", "bcd", "ef"]


@pytest.mark.parametrize("ack", ["on_result", "within_window"])
def test_all_share_the_outcome_of_what_they_were_folded_into(ack: str) -> None:
    source, probe = subscribed(ack=ack)

    source.next("a", "b", "c")
    assert source.outcomes == [None, None, None]
    probe.request(1)
    source.next("d", "e")
    probe.holds[1].fail(ValueError())

    assert probe.items == ["a", "bc"]
    assert source.outcomes == [None, "failed", "failed", None, None]
    probe.cancel()
    assert source.outcomes == [None, "failed", "failed", "released", "released"]


def test_what_the_function_raises_ends_the_stream() -> None:
    error = ZeroDivisionError("by the user")

    def fail(_waiting: object, _item: object) -> None:
        raise error

    source, probe = subscribed(fail, ack="on_result")
    source.next("a", "b", "c")

    assert probe.error is error
    assert probe.items == ["a"]
    assert source.cancelled
    assert source.outcomes == [None, "released", "failed"]


def test_a_request_from_the_function_gets_what_it_returns() -> None:
    def ask(waiting: str, item: str) -> str:
        probe.request(1)
        return waiting + item

    source, probe = subscribed(ask)
    source.next("a", "b", "c")

    assert probe.items == ["a", "bc"]


def test_the_function_may_cancel() -> None:
    def cancel(waiting: str, item: str) -> str:
        probe.cancel()
        return waiting + item

    source, probe = subscribed(cancel, ack="on_result")
    source.next("a", "b", "c")

    assert source.cancelled
    assert probe.signals == ["on_subscribe", "on_next"]
    assert source.outcomes == [None, "released", "done"]


def test_an_item_folded_in_while_another_is_emitted_waits_for_the_next_request() -> None:
    source, probe = subscribed()
    source.next("a", "b")

    def more(item: str) -> None:
        if item == "b":
            source.next("c", "d")

    probe.on_item = more
    probe.request(1)
    assert probe.items == ["a", "b"]
    probe.request(1)

    assert probe.items == ["a", "b", "cd"]


def test_what_was_folded_in_counts_as_one() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_reduce(source, operator.add).subscribe(probe)
    source.next(1, 2, 3, 4)

    assert isinstance(probe.subscription, Scannable)
    assert probe.subscription.counts() == Counts(1, 1, 1)
