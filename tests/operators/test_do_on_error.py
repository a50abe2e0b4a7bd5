from rstreams._core.demand import UNBOUNDED
from rstreams.operators.do_on_error import do_on_error
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDoOnError(OperatorContract):
    build = staticmethod(lambda source: do_on_error(source, lambda _: None))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_function_sees_the_error_before_it_is_passed_on() -> None:
    seen: list[tuple[BaseException, BaseException | None]] = []
    error = ValueError()
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_error(source, lambda e: seen.append((e, probe.error))).subscribe(probe)

    source.next(1)
    source.error(error)
    source.error(ValueError("again"))

    assert seen == [(error, None)]
    assert probe.error is error


def test_the_function_is_called_neither_at_the_end_nor_after_a_cancel() -> None:
    seen: list[BaseException] = []
    for end in ("complete", "cancel"):
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
        do_on_error(source, seen.append).subscribe(probe)
        if end == "complete":
            source.complete()
        else:
            probe.cancel()
        source.error(ValueError())

    assert seen == []


def test_what_the_function_raises_takes_the_place_of_the_error_and_names_it() -> None:
    error, raised = ValueError("the source's"), RuntimeError("the function's")

    def fail(_: BaseException) -> None:
        raise raised

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_error(source, fail).subscribe(probe)

    source.error(error)

    assert probe.error is raised
    assert raised.__context__ is error
    assert probe.signals == ["on_subscribe", "on_error"]


def test_a_function_that_raises_what_it_was_given_changes_nothing() -> None:
    error = ValueError("the source's")

    def raise_again(given: BaseException) -> None:
        raise given

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_error(source, raise_again).subscribe(probe)

    source.error(error)

    assert probe.error is error
    assert error.__context__ is None


def test_a_function_that_cancels_silences_the_error() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_error(source, lambda _: probe.cancel()).subscribe(probe)

    source.error(ValueError())

    assert probe.signals == ["on_subscribe"]
