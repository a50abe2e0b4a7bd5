from typing import Any

import pytest

from rstreams.errors import ConfigError
from rstreams.sources.timer import timer
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def test_the_item_comes_after_the_delay_and_waits_for_demand() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int]()
        timer(3.0).subscribe(probe)
        scheduler.advance(5.0)
        assert probe.items == []
        probe.request(1)
        assert (probe.items, probe.completed) == ([0], True)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), float("-inf"), "1", True, None, 10**400])
def test_a_wrong_time_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        timer(value)

    assert str(caught.value) == f"timer(delay_s={value!r}): delay_s must be a finite number of seconds, 0 or more"


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[int](1)
    timer(1.0).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error).startswith("timer needs a scheduler and found none")


def test_with_demand_it_comes_at_its_moment_and_completes_behind_it() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](5)
        timer(3.0).subscribe(probe)
        scheduler.advance(2.9)
        assert probe.signals == ["on_subscribe"]
        scheduler.advance(0.1)
        assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
        probe.request(0)

    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


def test_a_cancel_before_or_within_the_item_is_the_end() -> None:
    with VirtualScheduler() as scheduler:
        early, late = ProbeSubscriber[int](1), ProbeSubscriber[int](1, on_item=lambda _: late.cancel())
        for probe in (early, late):
            timer(0).subscribe(probe)
        early.cancel()
        scheduler.run()

    assert early.signals == ["on_subscribe"]
    assert late.signals == ["on_subscribe", "on_next"]
    assert scheduler.timers == 0
