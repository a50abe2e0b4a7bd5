from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.retry import retry
from rstreams.sources.fail import fail
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract


class TestRetry(OperatorContract):
    build = staticmethod(lambda source: retry(source, 0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_unmet_demand_goes_to_the_next_subscription() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    retry(source).subscribe(probe)
    source.next(1)
    source.error(ValueError())
    source.next(2)

    assert source.subscriptions == 2
    assert source.requests == [3, 2]
    assert probe.items == [1, 2]
    assert not probe.ended


def test_a_source_that_ends_at_once_leaves_turns_and_can_be_cancelled() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        retry(fail(LookupError())).subscribe(probe)

        assert not probe.ended
        assert scheduler.timers == 1
        probe.cancel()
        assert scheduler.timers == 0


def test_many_in_a_row_do_not_recurse() -> None:
    probe = ProbeSubscriber[int](1)
    retry(fail(LookupError()), 20_000).subscribe(probe)

    assert probe.ended


@pytest.mark.parametrize("count", [-1, 1.5, True, "1"])
def test_a_wrong_count_is_named(count: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError, match=r"retry\(count=.*\): count must be 0 or more items"):
        retry(ManualPublisher[int](), count)
