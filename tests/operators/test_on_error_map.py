import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.on_error_map import on_error_map
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestOnErrorMap(OperatorContract):
    build = staticmethod(lambda source: on_error_map(source, lambda error: error))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_function_makes_another_error_of_it_that_names_its_cause() -> None:
    error, other = ValueError("a"), LookupError("b")
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_map(source, lambda _: other).subscribe(probe)

    source.error(error)

    assert probe.error is other
    assert other.__cause__ is error


def test_a_cause_that_is_there_stays() -> None:
    cause, other = OSError(), LookupError("b")
    other.__cause__ = cause
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_map(source, lambda _: other).subscribe(probe)

    source.error(ValueError())

    assert other.__cause__ is cause


def test_what_the_function_raises_takes_the_place_of_the_error() -> None:
    error = ValueError("a")
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_map(source, lambda _: 1 / 0).subscribe(probe)  # type: ignore[arg-type, return-value]

    source.error(error)

    assert isinstance(probe.error, ZeroDivisionError)
    assert probe.error.__context__ is error


@pytest.mark.parametrize("result", [None, "text", ValueError])
def test_a_result_that_is_no_exception(result: object) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_map(source, lambda _: result).subscribe(probe)  # type: ignore[arg-type, return-value]

    source.error(ValueError())

    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == f"on_error_map(function): function must return an exception, not {result!r}"


def test_a_function_that_cancels_silences_the_error() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def cancels(error: Exception) -> Exception:
        probe.cancel()
        return error

    on_error_map(source, cancels).subscribe(probe)
    source.error(ValueError())

    assert probe.signals == ["on_subscribe"]


def test_what_is_no_exception_passes_through() -> None:
    error = KeyboardInterrupt()
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_map(source, lambda _: ValueError()).subscribe(probe)

    source.error(error)

    assert probe.error is error
