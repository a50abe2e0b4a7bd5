from rstreams._core.demand import UNBOUNDED
from rstreams.operators.on_error_complete import on_error_complete
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestOnErrorComplete(OperatorContract):
    build = staticmethod(lambda source: on_error_complete(source, lambda _: False))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_an_error_becomes_the_end() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_complete(source).subscribe(probe)
    source.next(1)
    source.error(ValueError())

    assert probe.items == [1]
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
    assert not source.cancelled


def test_the_predicate_says_which_errors() -> None:
    for error, completes in ((ConnectionError(), True), (LookupError(), False)):
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        on_error_complete(source, lambda error: isinstance(error, OSError)).subscribe(probe)
        source.error(error)

        assert probe.completed is completes
        assert probe.error is (None if completes else error)


def test_what_the_predicate_raises_takes_the_place_of_the_error() -> None:
    error = ValueError("a")
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_complete(source, lambda _: 1 / 0).subscribe(probe)
    source.error(error)

    assert isinstance(probe.error, ZeroDivisionError)
    assert probe.error.__context__ is error


def test_a_predicate_that_cancels_silences_the_end() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_complete(source, lambda _: probe.cancel() or True).subscribe(probe)  # type: ignore[func-returns-value]
    source.error(ValueError())

    assert probe.signals == ["on_subscribe"]


def test_what_is_no_exception_passes_through() -> None:
    error = KeyboardInterrupt()
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_complete(source).subscribe(probe)
    source.error(error)

    assert probe.error is error


def test_a_predicates_answer_that_cannot_be_judged_takes_the_place_of_the_error() -> None:
    class Unclear:
        def __bool__(self) -> bool:
            raise ArithmeticError

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_complete(source, lambda _: Unclear()).subscribe(probe)
    source.error(ValueError())

    assert isinstance(probe.error, ArithmeticError)
