"""What repeat and retry share: once their source has ended in the way they wait for, they subscribe to it again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import ConfigError
from rstreams.operators.concat import concat
from rstreams.sources.defer import defer
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract, stack_depth


class AgainContract(OperatorContract):
    """The common tests of an operator that subscribes again, with a count of how often or without.

    Attributes:
        again: Applies the operator.
        operator: Its name.
        least: The least count.
        after_failure: Whether it subscribes again when its source has failed, or when that has completed.
    """

    again: ClassVar[Callable[..., Publisher[int]]]
    operator: ClassVar[str]
    least: ClassVar[int]
    after_failure: ClassVar[bool]

    def end(self, source: ManualPublisher[int]) -> None:
        """End one subscription so that another follows."""
        if self.after_failure:
            source.error(ValueError())
        else:
            source.complete()

    def ended(self, *items: int) -> Publisher[int]:
        """Return a source that emits items and ends so that another subscription follows."""
        end: Publisher[int] = fail(LookupError()) if self.after_failure else empty()
        return concat(of(*items), end) if items else end

    def counted(self, tries: list[None]) -> Publisher[int]:
        """Return a source that ends at once, and notes each subscription."""

        def make() -> Publisher[int]:
            tries.append(None)
            return self.ended()

        return defer(make)

    @pytest.mark.parametrize("count", ["one too few", -1, 1.5, True, "1"])
    def test_a_wrong_count_is_named(self, count: object) -> None:
        if count == "one too few":
            count = self.least - 1
        text = re.escape(f"{self.operator}(count={count!r}): count must be ")
        with pytest.raises(ConfigError, match=text + rf"{self.least} or more(, a whole number)?$"):
            type(self).again(ManualPublisher[int](), count)

    def test_unmet_demand_goes_to_the_next_subscription(self) -> None:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
        type(self).again(source).subscribe(probe)
        source.next(1)
        self.end(source)
        source.next(2)

        assert source.subscriptions == 2
        assert source.requests == [3, 2]
        assert probe.items == [1, 2]
        assert not probe.ended

    def test_demand_without_limit_stays_so(self) -> None:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED - 1)
        type(self).again(source).subscribe(probe)
        source.next(1)
        self.end(source)
        probe.request(5)
        source.next(2)
        self.end(source)

        assert source.requests == [UNBOUNDED - 1, UNBOUNDED - 2, 5, UNBOUNDED]

    # sources that end at once

    def test_a_source_that_ends_at_once_leaves_turns_and_can_be_cancelled(self) -> None:
        with VirtualScheduler() as scheduler:
            probe = ProbeSubscriber[int](1)
            type(self).again(self.ended()).subscribe(probe)

            assert not probe.ended
            assert scheduler.timers == 1
            probe.cancel()
            assert scheduler.timers == 0

    def test_in_a_scope_it_can_be_cancelled_between_the_turns(self) -> None:
        tries: list[None] = []
        with VirtualScheduler() as scheduler:
            probe = ProbeSubscriber[int](1)
            type(self).again(self.counted(tries)).subscribe(probe)
            assert len(tries) == 1025
            scheduler.call_later(0, probe.cancel)
            scheduler.run()

        assert len(tries) == 2 * 1024 + 1  # the turn that was set before the cancel, and none after it
        assert probe.signals == ["on_subscribe"]

    def test_without_a_scope_an_endless_loop_that_brings_nothing_fails(self) -> None:
        tries: list[None] = []
        probe = ProbeSubscriber[int](1)
        type(self).again(self.counted(tries)).subscribe(probe)

        assert isinstance(probe.error, ConfigError)
        assert str(probe.error) == (
            f"{self.operator}: the source {'failed' if self.after_failure else 'completed'} without an item 1024 times "
            "in a row, and no other task can run because there is no scope: give a count, or be inside "
            "`async with rstreams.Scope()`"
        )
        assert len(tries) == 1025  # the first time, and once more each time
        assert probe.signals == ["on_subscribe", "on_error"]

    def test_without_a_scope_an_endless_loop_with_items_goes_on_until_it_is_cancelled(self) -> None:
        probe = ProbeSubscriber[int](UNBOUNDED)
        probe.on_item = lambda _: probe.cancel() if len(probe.items) == 5_000 else None
        type(self).again(self.ended(1, 2)).subscribe(probe)

        assert len(probe.items) == 5_000
        assert not probe.ended

    def test_a_cancel_out_of_the_source_ends_the_loop(self) -> None:
        tries: list[None] = []
        probe = ProbeSubscriber[int](1)

        def make() -> Publisher[int]:
            tries.append(None)
            if len(tries) == 3:
                probe.cancel()
            return self.ended()

        type(self).again(defer(make)).subscribe(probe)

        assert len(tries) == 3
        assert probe.signals == ["on_subscribe"]

    def test_many_in_a_row_do_not_recurse(self) -> None:
        probe = ProbeSubscriber[int](1)
        type(self).again(self.ended(), 20_000).subscribe(probe)

        assert probe.ended

    def test_one_by_one_from_inside_on_next_the_stack_stays_flat(self) -> None:
        depths: list[int] = []

        def on_item(_: int) -> None:
            depths.append(stack_depth())
            probe.request(1)

        probe = ProbeSubscriber[int](1, on_item=on_item)
        type(self).again(self.ended(1), 3_000).subscribe(probe)

        assert len(probe.items) == 3_000 + (1 - self.least)  # a retry comes behind a first try
        assert probe.ended
        assert max(depths) - min(depths) < 20

    # what raises

    def test_a_source_whose_subscribe_raises_ends_the_stream(self) -> None:
        source, probe = Broken(), ProbeSubscriber[int](1)
        type(self).again(source).subscribe(probe)
        self.end(source)

        assert probe.error is Broken.reason
        assert probe.signals == ["on_subscribe", "on_error"]

    def test_what_the_subscriber_raises_in_a_later_subscription_is_raised(self) -> None:
        def on_item(item: int) -> None:
            if len(probe.items) == 3:
                raise ArithmeticError(item)

        probe = ProbeSubscriber[int](UNBOUNDED, on_item=on_item)
        with pytest.raises(ArithmeticError):
            type(self).again(self.ended(1, 2)).subscribe(probe)

        assert probe.signals == ["on_subscribe", *["on_next"] * 3]

    # holds

    def test_an_item_held_from_before_keeps_its_own_outcome(self) -> None:
        source, probe = ManualPublisher[int](), ProbeSubscriber[Any](4, hold=True)
        type(self).again(source).subscribe(probe)
        source.next(1, 2)
        self.end(source)
        source.next(3)
        assert source.outcomes == [None] * 3

        probe.holds[0].done()
        probe.holds[1].fail(ValueError())
        probe.cancel()
        probe.holds[2].release()

        assert source.outcomes == ["done", "failed", "released"]


class Broken(ManualPublisher[int]):
    """Breaks 1.9 the second time."""

    reason: ClassVar = OSError("no second time")

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if self.subscriptions:
            raise self.reason
        super().subscribe(subscriber)
