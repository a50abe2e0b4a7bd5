import pytest

from rstreams._demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.retry_backoff import retry_backoff
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestRetryBackoff(ScheduledContract):
    build = staticmethod(lambda source: retry_backoff(source, 0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_waits_grow_up_to_a_limit_and_a_cancel_ends_them() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        retry_backoff(source, 9, first_s=1.0, max_s=3.0, jitter=0).subscribe(probe)
        for number, wait in enumerate((1.0, 2.0, 3.0, 3.0), 1):
            source.error(ValueError())
            scheduler.advance(wait - 0.1)
            assert source.subscriptions == number
            scheduler.advance(0.2)
            assert source.subscriptions == number + 1
        source.error(ValueError())
        probe.cancel()
        assert scheduler.timers == 0


@pytest.mark.parametrize("option", [{"first_s": -1}, {"max_s": float("inf")}, {"factor": 0.5}, {"jitter": 2}])
def test_a_wrong_option_is_named(option: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option)) + " must be a finite number"):
        retry_backoff(ManualPublisher[int](), 1, **option)  # type: ignore[arg-type]
