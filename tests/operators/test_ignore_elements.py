from rstreams._core.demand import UNBOUNDED
from rstreams.operators.ignore_elements import ignore_elements
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestIgnoreElements(OperatorContract):
    build = staticmethod(ignore_elements)
    model = staticmethod(lambda _: list[int]())
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))
    forwards_holds = False

    def test_a_subscriber_that_raises_counts_as_having_cancelled(self) -> None:
        """It has nothing to raise at: no item reaches it."""
        source, probe = self.subscribe(on_item=lambda _: 1 // 0)
        self.play(source, [1, 2])
        assert probe.completed

    def test_requesting_one_more_in_on_next_does_not_recurse(self) -> None:
        """It is told of no item, so it cannot."""
        source, probe = self.subscribe(1)
        self.play(source, range(10_000))
        assert probe.signals == ["on_subscribe", "on_complete"]

    def test_cancel_midway(self) -> None:
        """No item can make it cancel; it may do so by itself."""
        source, probe = self.subscribe()
        self.feed(source, [1, 2])
        probe.cancel()
        assert source.cancelled
        assert probe.signals == ["on_subscribe"]


def test_a_further_request_asks_for_nothing_more() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    ignore_elements(source).subscribe(probe)
    probe.request(5)
    assert source.requests == [UNBOUNDED]
