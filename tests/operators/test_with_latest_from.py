from rstreams._demand import UNBOUNDED
from rstreams.operators.with_latest_from import with_latest_from
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestWithLatestFrom(OperatorContract):
    build = staticmethod(lambda source: with_latest_from(source, of("a", "b")))
    model = staticmethod(lambda items: [(x, "b") for x in items])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_items_before_the_first_of_the_other_are_dropped_and_asked_for_again() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[tuple[int, str]](1)
    with_latest_from(one, two).subscribe(probe)
    one.next(1)
    two.next("a", "b")
    one.next(2)

    assert probe.items == [(2, "b")]
    assert one.requests == [1, 1]
    assert two.requests == [UNBOUNDED]
    one.complete()
    assert two.cancelled


def test_an_other_that_fails_or_never_sends_ends_it() -> None:
    for other, signal in ((empty(), "on_complete"), (fail(ValueError()), "on_error")):
        one, probe = ManualPublisher[int](), ProbeSubscriber[object](1)
        with_latest_from(one, other).subscribe(probe)
        assert probe.signals == ["on_subscribe", signal]
        assert one.cancelled
