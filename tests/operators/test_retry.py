import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.retry import retry
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.again_contract import AgainContract


class TestRetry(AgainContract):
    again = staticmethod(retry)
    operator = "retry"
    least = 0
    after_failure = True
    build = staticmethod(lambda source: retry(source, 0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_without_demand_it_tries_again_and_asks_for_nothing() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    retry(source, 1).subscribe(probe)
    source.next(1)
    source.error(ValueError())
    assert source.subscriptions == 2
    assert source.requests == [1]
    probe.request(2)
    assert source.requests == [1, 2]

    error = ValueError("the last")
    source.error(error)

    assert probe.error is error


@pytest.mark.parametrize("answer", [False, None, 0, "", []])
def test_a_predicate_that_says_no_lets_the_error_pass(answer: object) -> None:
    source, probe, seen = ManualPublisher[int](), ProbeSubscriber[int](1), list[Exception]()

    def predicate(error: Exception) -> object:
        seen.append(error)
        return answer

    retry(source, predicate=predicate).subscribe(probe)
    error = ValueError()
    source.error(error)

    assert seen == [error]
    assert probe.error is error
    assert source.subscriptions == 1


@pytest.mark.parametrize("answer", [True, 1, "yes", [0]])
def test_whatever_is_true_is_a_yes(answer: object) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    retry(source, predicate=lambda _: answer).subscribe(probe)
    source.error(ValueError())

    assert source.subscriptions == 2


class Undecided:
    def __bool__(self) -> bool:
        raise RuntimeError


def test_an_answer_that_is_neither_true_nor_false_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    retry(source, predicate=lambda _: Undecided()).subscribe(probe)
    error = ValueError()
    source.error(error)

    assert isinstance(probe.error, RuntimeError)
    assert probe.error.__context__ is error


def test_what_a_predicate_raises_ends_the_stream() -> None:
    source, probe, raised = ManualPublisher[int](), ProbeSubscriber[int](1), ZeroDivisionError()

    def predicate(_: Exception) -> bool:
        raise raised

    retry(source, predicate=predicate).subscribe(probe)
    error = ValueError()
    source.error(error)

    assert probe.error is raised
    assert raised.__context__ is error
    assert source.subscriptions == 1


def test_what_a_predicate_raises_after_its_cancel_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def predicate(_: Exception) -> bool:
        probe.cancel()
        raise ZeroDivisionError

    retry(source, predicate=predicate).subscribe(probe)
    source.error(ValueError())

    assert probe.signals == ["on_subscribe"]
    assert caplog.messages == ["a predicate failed, after its subscription had ended"]


def test_a_predicate_may_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def predicate(_: Exception) -> bool:
        probe.cancel()
        return True

    retry(source, predicate=predicate).subscribe(probe)
    source.error(ValueError())

    assert source.subscriptions == 1
    assert probe.signals == ["on_subscribe"]


def test_what_is_no_exception_passes_through_without_a_predicate() -> None:
    source, probe, seen = ManualPublisher[int](), ProbeSubscriber[int](1), list[Exception]()
    retry(source, predicate=seen.append).subscribe(probe)
    source.error(KeyboardInterrupt())

    assert isinstance(probe.error, KeyboardInterrupt)
    assert seen == []
