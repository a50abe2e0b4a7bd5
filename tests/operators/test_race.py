from rstreams._core.demand import UNBOUNDED
from rstreams.operators.race import race
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestRace(OperatorContract):
    build = staticmethod(lambda source: race(never(), source))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_first_to_send_wins_and_alone_is_asked_further() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](2)
    race(one, two).subscribe(probe)
    two.next(10)
    one.next(1)
    probe.request(3)

    assert probe.items == [10]
    assert one.cancelled
    assert (one.requests, two.requests) == ([2], [2, 3])
    assert one.outcomes == ["done"]


def test_the_first_to_end_wins() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int]()
    race(one, two, empty(), fail(ValueError())).subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_complete"]
    assert one.cancelled
    assert two.cancelled


def test_a_cancel_reaches_all() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](1)
    race(one, two).subscribe(probe)

    probe.cancel()

    assert one.cancelled
    assert two.cancelled
