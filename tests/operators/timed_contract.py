"""The operators' contract for operators with a time that the user gives: its option, its timers, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, ClassVar

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.scheduled import ScheduledContract

NO_NUMBERS = [float("nan"), float("inf"), float("-inf"), "1", True, None, 10**400]


class TimedContract(ScheduledContract):
    """The common tests of an operator with a number of seconds among its options, in a virtual scope.

    Attributes:
        timed: Applies the operator with so many seconds.
        option: The operator's name, and what it calls the seconds.
    """

    timed: ClassVar[Callable[[Publisher[int], Any], Publisher[Any]]]
    option: ClassVar[tuple[str, str]]

    @pytest.mark.parametrize("value", [*NO_NUMBERS, 0, 0.0, -1.0])
    def test_a_wrong_time_is_named(self, value: object) -> None:
        operator, option = self.option
        with pytest.raises(ConfigError) as caught:
            type(self).timed(ManualPublisher[int](), value)

        assert (
            str(caught.value)
            == f"{operator}({option}={value!r}): {option} must be a finite number of seconds, more than 0"
        )

    def test_without_a_scheduler_there_is_no_time(self) -> None:
        probe = ProbeSubscriber[Any](1)
        Context().run(type(self).timed(ManualPublisher[int](), 1.0).subscribe, probe)

        assert isinstance(probe.error, ConfigError)
        assert str(probe.error).startswith(f"{self.option[0]} needs a scheduler and found none")

    def subscribe_for(
        self, seconds: float, probe: ProbeSubscriber[Any], source: ManualPublisher[int] | None = None
    ) -> ManualPublisher[int]:
        """Subscribe `probe` to the operator with so many seconds, over `source` or a new one; return that."""
        source = source or ManualPublisher[int]()
        type(self).timed(source, seconds).subscribe(probe)
        return source


class SerialProbe(ProbeSubscriber[int]):
    """Asserts that no signal comes while it handles another (1.3)."""

    _busy = False

    def on_next(self, item: int) -> None:
        assert not self._busy
        self._busy = True
        super().on_next(item)
        self._busy = False

    def on_error(self, error: BaseException) -> None:
        assert not self._busy
        super().on_error(error)

    def on_complete(self) -> None:
        assert not self._busy
        super().on_complete()


class TimedItemsContract(TimedContract):
    """The common tests of an operator that emits the source's own items, some of them when their time has come.

    Attributes:
        leaves_out: Whether an item that comes right behind another is left out.
    """

    leaves_out: ClassVar[bool] = False

    @pytest.mark.parametrize("end", ["complete", "error"])
    def test_what_the_source_sends_out_of_on_next_waits_its_turn(self, end: str) -> None:
        source = ManualPublisher[int]()

        def on_item(item: int) -> None:
            if item == 1:
                source.next(2)
                source.complete() if end == "complete" else source.error(LookupError())

        probe = SerialProbe(UNBOUNDED, on_item=on_item)
        self.subscribe_for(1.0, probe, source)
        source.next(1)
        self.scheduler.advance(5.0)

        assert probe.items == ([1] if self.leaves_out else [1, 2])
        assert probe.signals[-1] == f"on_{end}"
        assert source.outcomes == ["done", "done"]
        assert self.scheduler.timers == 0


class LatestContract(TimedItemsContract):
    """The common tests of an operator that keeps one item at most, which gives way to a newer one."""

    def test_a_kept_item_without_demand_gives_way_to_a_newer_and_no_timer_is_left(self) -> None:
        probe = ProbeSubscriber[int](1)
        source = self.subscribe_for(1.0, probe)
        for item in (1, 2, 3):
            source.next(item)
            self.scheduler.advance(1.0)
        assert probe.items == [1]
        assert source.outcomes == ["done", "done", None]
        probe.request(1)
        assert probe.items == [1, 3]
        probe.cancel()
        assert self.scheduler.timers == 0

    def test_the_end_that_comes_out_of_an_emission_on_request_waits(self) -> None:
        source = ManualPublisher[int]()
        probe = SerialProbe(1, on_item=lambda item: source.complete() if item == 2 else None)
        self.subscribe_for(1.0, probe, source)
        for item in (1, 2):
            source.next(item)
            self.scheduler.advance(1.0)
        probe.request(1)

        assert probe.items == [1, 2]
        assert probe.completed
