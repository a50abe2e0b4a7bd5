"""One source after the other: the demand that one leaves unmet goes to the next."""

from __future__ import annotations

from rstreams._stages.arbiter import Arbiter
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Then(Arbiter[int]):
    """A stage that goes on with a second source when the first is complete."""

    second: ManualPublisher[int] | None = None

    def on_complete(self) -> None:
        second, self.second = self.second, None
        if second is None:
            super().on_complete()
        else:
            self._switch_to(second)


def played(demand: int) -> tuple[ManualPublisher[int], ManualPublisher[int], ProbeSubscriber[int]]:
    probe, first, second = ProbeSubscriber[int](demand), ManualPublisher[int](), ManualPublisher[int]()
    stage = Then(probe)
    stage.second = second
    first.subscribe(stage)
    return first, second, probe


def test_the_next_source_gets_the_unmet_demand() -> None:
    first, second, probe = played(5)
    first.next(1, 2)
    first.complete()
    assert second.requests == [3]
    second.next(3)
    second.complete()
    assert (probe.items, probe.completed) == ([1, 2, 3], True)
    assert probe.signals.count("on_subscribe") == 1


def test_a_source_that_comes_uninvited_is_cancelled() -> None:
    first, second, probe = played(1)
    second.subscribe(probe.subscription)  # type: ignore[arg-type] # the stage
    assert (second.cancelled, first.cancelled) == (True, False)


def test_a_cancel_goes_to_the_present_source() -> None:
    first, second, probe = played(1)
    first.complete()
    probe.cancel()
    assert (first.cancelled, second.cancelled) == (False, True)
