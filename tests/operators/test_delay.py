from rstreams._core.demand import UNBOUNDED
from rstreams.operators.delay import delay
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import TimedItemsContract


class TestDelay(TimedItemsContract):
    timed = staticmethod(delay)
    option = ("delay", "delay_s")
    build = staticmethod(lambda source: delay(source, 1.0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))

    def settle(self) -> None:
        self.scheduler.advance(20_000.0)


def test_items_are_held_and_given_back_on_a_cancel() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
        delay(source, 4.0).subscribe(probe)
        source.next(1)
        scheduler.advance(2.0)
        source.next(2)
        scheduler.advance(2.0)
        assert probe.items == [1]
        assert source.outcomes == ["done", None]
        probe.cancel()
        assert source.outcomes == ["done", "released"]
        assert scheduler.timers == 0


def test_an_error_comes_behind_the_last_item() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
        delay(source, 4.0).subscribe(probe)
        source.next(1, 2)
        source.error(LookupError())
        assert not probe.ended
        scheduler.advance(4.0)

    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_error"]
    assert source.outcomes == ["done", "done"]
    assert scheduler.timers == 0


def test_a_cancel_out_of_on_next_gives_back_the_rest() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5, on_item=lambda _: probe.cancel())
        delay(source, 4.0).subscribe(probe)
        source.next(1, 2)
        scheduler.advance(4.0)

    assert probe.items == [1]
    assert source.outcomes == ["done", "released"]
    assert scheduler.timers == 0


def test_completion_comes_behind_the_last_item_and_at_once_without_items() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
        delay(source, 4.0).subscribe(probe)
        source.next(1)
        source.complete()
        assert not probe.ended
        scheduler.advance(4.0)
        assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


def test_a_burst_leaves_the_others_their_turns() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        seen: list[int] = []
        delay(source, 1.0).subscribe(probe)
        source.next(*range(3_000))
        scheduler.call_later(1.0, lambda: seen.append(len(probe.items)))
        scheduler.advance(1.0)

    assert seen == [1024]
    assert len(probe.items) == 3_000
