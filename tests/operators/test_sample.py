from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.sample import sample
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestSample(ScheduledContract):
    build = staticmethod(lambda source: sample(source, 1.0))
    model = staticmethod(lambda items: items[-1:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


def test_a_kept_item_without_demand_gives_way_to_a_newer_and_no_timer_is_left() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        sample(source, 1.0).subscribe(probe)
        for item in (1, 2, 3):
            source.next(item)
            scheduler.advance(1.0)
        assert probe.items == [1]
        assert source.outcomes == ["done", "done", None]
        probe.request(1)
        assert probe.items == [1, 3]
        probe.cancel()
        assert scheduler.timers == 0


@pytest.mark.parametrize("value", [0, 0.0, -1.0, float("nan"), float("inf"), float("-inf"), "1", True, None, 10**400])
def test_a_wrong_time_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        sample(ManualPublisher[int](), value)

    assert str(caught.value) == f"sample(period_s={value!r}): period_s must be a finite number of seconds, more than 0"


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[int](1)
    sample(ManualPublisher[int](), 1.0).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error).startswith("sample needs a scheduler and found none")


class Nested(ProbeSubscriber[int]):
    """Asserts that no signal comes while it handles another (1.3)."""

    busy = False

    def on_next(self, item: int) -> None:
        assert not self.busy
        self.busy = True
        super().on_next(item)
        self.busy = False

    def on_error(self, error: BaseException) -> None:
        assert not self.busy
        super().on_error(error)

    def on_complete(self) -> None:
        assert not self.busy
        super().on_complete()


@pytest.mark.parametrize("end", ["complete", "error"])
def test_what_the_source_sends_out_of_on_next_waits_its_turn(end: str) -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()

        def on_item(item: int) -> None:
            if item == 1:
                source.next(2)
                source.complete() if end == "complete" else source.error(LookupError())

        probe = Nested(UNBOUNDED, on_item=on_item)
        sample(source, 1.0).subscribe(probe)
        source.next(1)
        scheduler.advance(5.0)

    assert probe.items == ([1, 2] if end == "complete" else [1])
    assert probe.signals[-1] == ("on_complete" if end == "complete" else "on_error")
    assert source.outcomes == ["done", "done" if end == "complete" else "released"]
    assert scheduler.timers == 0


def test_an_item_at_the_very_end_of_a_period_waits_for_the_next() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        sample(source, 1.0).subscribe(probe)
        scheduler.advance(1.0)
        source.next(1)
        scheduler.advance(0.5)
        source.next(2)
        assert probe.items == []
        scheduler.advance(0.5)

    assert probe.items == [2]


def test_the_periods_do_not_drift() -> None:
    times: list[float] = []
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        probe.on_item = lambda _: times.append(round(scheduler.now(), 6))
        sample(source, 0.1).subscribe(probe)
        for item in range(10):
            scheduler.advance(0.33)
            source.next(item)
        scheduler.advance(1.0)

    assert times == [0.4, 0.7, 1.0, 1.4, 1.7, 2.0, 2.4, 2.7, 3.0, 3.4]


def test_without_an_item_no_timer_is_set() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        sample(source, 1.0).subscribe(ProbeSubscriber[int](UNBOUNDED))
        assert scheduler.timers == 0
        source.next(1)
        assert scheduler.timers == 1
        scheduler.advance(1.0)

        assert scheduler.timers == 0


def test_a_period_shorter_than_the_clock_can_tell_is_no_failure() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        sample(source, 5e-324).subscribe(probe)
        scheduler.advance(1.0)
        source.next(1)
        scheduler.run()

    assert probe.items == [1]
