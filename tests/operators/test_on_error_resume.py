from collections.abc import Callable

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.operators.map import map as map_
from rstreams.operators.on_error_resume import on_error_resume
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract
from tests.operators.paced import Slow


def _raise_again(error: Exception) -> Publisher[int]:
    raise error


class TestOnErrorResume(OperatorContract):
    build = staticmethod(lambda source: on_error_resume(source, _raise_again))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def _resumed(
    handler: Callable[[Exception], Publisher[int]], request: int = 5
) -> tuple[ManualPublisher[int], ProbeSubscriber[int]]:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](request)
    on_error_resume(source, handler).subscribe(probe)
    return source, probe


def test_the_fallback_goes_on_with_the_demand_left() -> None:
    error, seen, fallback = ValueError(), list[Exception](), ManualPublisher[int]()

    def handler(error: Exception) -> Publisher[int]:
        seen.append(error)
        return fallback

    source, probe = _resumed(handler)
    source.next(1, 2)
    source.error(error)
    fallback.next(3)
    fallback.complete()

    assert seen == [error]
    assert fallback.requests == [3]
    assert probe.items == [1, 2, 3]
    assert probe.signals[-1] == "on_complete"
    assert not source.cancelled  # 2.3


def test_an_error_of_the_fallback_is_not_resumed_again() -> None:
    error, fallback = ValueError("the fallback's"), ManualPublisher[int]()
    source, probe = _resumed(lambda _: fallback)

    source.error(ValueError("the source's"))
    fallback.error(error)

    assert probe.error is error
    assert fallback.subscriptions == 1


def test_what_the_handler_raises_names_the_error_it_was_called_with() -> None:
    error, raised = ValueError("the source's"), RuntimeError("the handler's")

    def fail(_: Exception) -> Publisher[int]:
        raise raised

    source, probe = _resumed(fail)
    source.error(error)

    assert probe.error is raised
    assert raised.__context__ is error


def test_a_handler_that_returns_no_stream() -> None:
    source, probe = _resumed(lambda _: 1)  # type: ignore[arg-type, return-value]

    source.error(ValueError())

    assert isinstance(probe.error, TypeError)
    told = "on_error_resume(handler): handler must return a Publisher, an iterable or an async iterable, not 1"
    assert str(probe.error) == told


def test_what_is_no_exception_passes_through() -> None:
    source, probe = _resumed(lambda _: of(1))
    interrupt = KeyboardInterrupt()

    source.error(interrupt)

    assert probe.error is interrupt


def test_a_handler_that_cancels() -> None:
    fallback = ManualPublisher[int]()

    def cancel(_: Exception) -> Publisher[int]:
        probe.cancel()
        return fallback

    source, probe = _resumed(cancel)
    source.error(ValueError())

    assert fallback.subscriptions == 0
    assert probe.signals == ["on_subscribe"]


def test_a_cancel_after_the_switch_reaches_the_fallback() -> None:
    fallback = ManualPublisher[int]()
    source, probe = _resumed(lambda _: fallback)
    source.error(ValueError())

    probe.cancel()

    assert fallback.cancelled
    assert not source.cancelled


def test_until_the_fallback_answers_the_source_that_failed_is_left_alone() -> None:
    slow = Slow[int]()
    source, probe = _resumed(lambda _: slow)
    source.error(ValueError())

    probe.request(2)
    probe.cancel()

    assert source.requests == [5]
    assert not source.cancelled  # 2.3, 2.4


def test_the_item_that_failed_counts_as_failed_and_the_fallback_s_items_are_held_there() -> None:
    source, fallback, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](5, hold=True)
    on_error_resume(map_(source, lambda x: 1 // x), lambda _: fallback).subscribe(probe)

    source.next(0)
    fallback.next(7)
    probe.holds[0].release()

    assert source.outcomes == ["failed"]
    assert fallback.outcomes == ["released"]
