from dataclasses import FrozenInstanceError

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.timestamp import Timestamped, timestamp
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestTimestamp(ScheduledContract):
    build = staticmethod(timestamp)
    model = staticmethod(lambda items: [Timestamped(item, 0.0) for item in items])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_an_item_has_the_time_it_came() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[str](), ProbeSubscriber[Timestamped[str]](2)
        timestamp(source).subscribe(probe)
        scheduler.advance(2.0)
        source.next("a")
        scheduler.advance(8.0)
        source.next("b")

    assert probe.items == [Timestamped("a", 2.0), Timestamped("b", 10.0)]
    with pytest.raises(FrozenInstanceError):
        probe.items[0].at_s = 3.0  # type: ignore[misc]


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[Timestamped[int]](1)
    timestamp(ManualPublisher[int]()).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert "timestamp needs a scheduler" in str(probe.error)
