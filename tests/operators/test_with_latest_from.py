import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
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


@pytest.mark.parametrize("end", ["complete", "error"])
def test_an_other_that_ends_when_it_is_asked_does_so_after_on_subscribe(end: str) -> None:
    told: list[list[str]] = []

    class Reader(ProbeSubscriber[object]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            told.append(list(self.signals))

    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), Reader(1)
    two.on_request = lambda _: two.complete() if end == "complete" else two.error(LookupError())
    with_latest_from(one, two).subscribe(probe)

    assert told == [["on_subscribe"]]
    assert probe.signals == ["on_subscribe", f"on_{end}"]
    assert one.cancelled


def test_an_other_that_fails_while_an_item_is_emitted_waits_until_that_is_through() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[object](9)
    with_latest_from(one, two).subscribe(probe)
    two.next("a")

    def on_item(_item: object) -> None:
        two.error(LookupError())
        assert not probe.ended

    probe.on_item = on_item
    one.next(1)

    assert probe.signals == ["on_subscribe", "on_next", "on_error"]
    assert one.cancelled


def test_a_subscriber_that_raises_ends_the_other_too() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[object](9)
    with_latest_from(one, two).subscribe(probe)
    two.next("a")

    def on_item(_item: object) -> None:
        raise ArithmeticError

    probe.on_item = on_item
    with pytest.raises(ArithmeticError):
        one.next(1)
    assert two.cancelled
