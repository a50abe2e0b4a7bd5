from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.delay import delay
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestDelay(ScheduledContract):
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


@pytest.mark.parametrize("value", [0, 0.0, -1.0, float("nan"), float("inf"), float("-inf"), "1", True, None, 10**400])
def test_a_wrong_time_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        delay(ManualPublisher[int](), value)

    assert str(caught.value) == f"delay(delay_s={value!r}): delay_s must be a finite number of seconds, more than 0"


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[int](1)
    delay(ManualPublisher[int](), 1.0).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error).startswith("delay needs a scheduler and found none")


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
        delay(source, 1.0).subscribe(probe)
        source.next(1)
        scheduler.advance(5.0)

    assert probe.items == ([1, 2] if end == "complete" else [1])
    assert probe.signals[-1] == ("on_complete" if end == "complete" else "on_error")
    assert source.outcomes == ["done", "done" if end == "complete" else "released"]
    assert scheduler.timers == 0


def test_an_error_comes_at_once_and_gives_back_the_items() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
        delay(source, 4.0).subscribe(probe)
        source.next(1, 2)
        source.error(LookupError())

    assert probe.signals == ["on_subscribe", "on_error"]
    assert source.outcomes == ["released", "released"]
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
