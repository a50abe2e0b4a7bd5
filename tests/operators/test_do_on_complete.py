from rstreams._core.demand import UNBOUNDED
from rstreams.operators.do_on_complete import do_on_complete
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDoOnComplete(OperatorContract):
    build = staticmethod(lambda source: do_on_complete(source, lambda: None))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_function_is_called_before_the_completion_is_passed_on() -> None:
    seen: list[bool] = []
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_complete(source, lambda: seen.append(probe.completed)).subscribe(probe)

    source.next(1)
    source.complete()
    source.complete()

    assert seen == [False]
    assert probe.completed


def test_the_function_is_called_neither_after_an_error_nor_after_a_cancel() -> None:
    seen: list[None] = []
    for end in ("error", "cancel"):
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
        do_on_complete(source, lambda: seen.append(None)).subscribe(probe)
        if end == "error":
            source.error(ValueError())
        else:
            probe.cancel()
        source.complete()

    assert seen == []


def test_what_the_function_raises_takes_the_place_of_the_completion() -> None:
    raised = RuntimeError("the function's")

    def fail() -> None:
        raise raised

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_complete(source, fail).subscribe(probe)

    source.complete()

    assert probe.error is raised
    assert probe.signals == ["on_subscribe", "on_error"]
    assert not source.cancelled  # 2.3


def test_a_function_that_cancels_silences_the_completion() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    do_on_complete(source, probe.cancel).subscribe(probe)

    source.complete()

    assert probe.signals == ["on_subscribe"]
