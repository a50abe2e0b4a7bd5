from rstreams._core.demand import UNBOUNDED
from rstreams.operators.do_on_subscribe import do_on_subscribe
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDoOnSubscribe(OperatorContract):
    build = staticmethod(lambda source: do_on_subscribe(source, lambda: None))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_function_is_called_once_a_subscription_before_the_first_request() -> None:
    seen: list[list[int]] = []
    source = ManualPublisher[int]()
    publisher = do_on_subscribe(source, lambda: seen.append(list(source.requests)))
    assert seen == []

    publisher.subscribe(ProbeSubscriber[int](1))
    publisher.subscribe(ProbeSubscriber[int](1))

    assert seen == [[], [1]]


def test_a_second_subscription_does_not_call_it() -> None:
    called: list[None] = []
    source = ManualPublisher[int]()
    do_on_subscribe(source, lambda: called.append(None)).subscribe(ProbeSubscriber[int](1))

    ManualPublisher[int]().subscribe(source._subscribed())

    assert called == [None]


def test_what_the_function_raises_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    do_on_subscribe(source, lambda: 1 / 0).subscribe(probe)

    assert isinstance(probe.error, ZeroDivisionError)
    assert probe.signals == ["on_subscribe", "on_error"]
    assert source.cancelled
    assert source.requests == []

    source.error(ValueError("late"))
    assert probe.signals == ["on_subscribe", "on_error"]
