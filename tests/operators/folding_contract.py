"""What the operators that fold all items into one result have in common, on top of the contract of all operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, NoItem
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class FoldingContract(OperatorContract):
    """The tests of an operator that emits one result at the end, or as soon as it is known."""

    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))
    forwards_holds = False

    def test_the_result_waits_for_demand(self) -> None:
        source, probe = self.subscribe(0)
        source.complete()
        waiting = list(probe.items)
        probe.request(1)
        assert waiting == []
        assert probe.items == type(self).model([])
        assert probe.completed

    def test_cancel_midway(self) -> None:
        source, probe = self.subscribe()
        self.feed(source, ITEMS[:2])
        probe.cancel()
        self.play(source, ITEMS)
        assert probe.signals == ["on_subscribe"]
        assert source.outcomes[:2] == ["released", "released"], "there is no result"
        assert set(source.outcomes[2:]) <= {"done"}


class NonEmptyFoldingContract(FoldingContract):
    """Those that have no result without an item."""

    @pytest.mark.parametrize("items", [[1], [1, 2], [3, 1], ITEMS])
    def test_emits_what_the_model_says(self, items: list[int]) -> None:
        super().test_emits_what_the_model_says(items)

    def test_an_empty_source_needs_no_demand_to_end(self) -> None:
        source, probe = self.subscribe(0)
        source.complete()
        assert isinstance(probe.error, NoItem)

    def test_the_result_waits_for_demand(self) -> None:
        source, probe = self.subscribe(1)
        source.next(*ITEMS)
        assert probe.items == []
        source.complete()
        assert probe.items == type(self).model(ITEMS)


class FoundContract(OperatorContract):
    """The tests of an operator that emits one of the items, or fails if it is not there."""

    @pytest.mark.parametrize("items", [[1], [1, 2], [3, 1], ITEMS])
    def test_emits_what_the_model_says(self, items: list[int]) -> None:
        super().test_emits_what_the_model_says(items)

    def test_an_empty_source_needs_no_demand_to_end(self) -> None:
        source, probe = self.subscribe(0)
        source.complete()
        assert isinstance(probe.error, NoItem)
        assert probe.signals == ["on_subscribe", "on_error"]


class FoundFirstContract(FoundContract):
    """Those that are through with the first item."""

    def test_an_error_of_the_source_midway(self) -> None:
        """What happens behind the item comes too late."""
        source, probe = self.subscribe()
        self.feed(source, ITEMS[:1])

        source.error(ValueError("midway"))

        assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
        assert source.cancelled
        assert source.outcomes == ["done"]


class FoundLastContract(FoundContract):
    """Those whose item waits for the end."""

    holds_what_it_keeps = False  # what is kept is kept by the stage before, and explain tells it there

    def test_cancel_midway(self) -> None:
        """Nothing comes before the end."""
        source, probe = self.subscribe()
        self.feed(source, ITEMS[:2])

        probe.cancel()
        self.play(source, ITEMS)

        assert probe.signals == ["on_subscribe"]
        assert source.cancelled
        assert sorted(map(str, source.outcomes)) == ["done", "released"]


class AckContract:
    """Those that can hold every item until the result has been handled."""

    acking: ClassVar[Callable[..., Publisher[Any]]]

    def _subscribe(self, source: ManualPublisher[int], ack: str) -> ProbeSubscriber[Any]:
        probe = ProbeSubscriber[Any](1, hold=True)
        type(self).acking(source, ack).subscribe(probe)
        return probe

    @pytest.mark.parametrize("ack", ["on_result", "within_window"])
    def test_every_item_shares_the_outcome_of_the_result(self, ack: str) -> None:
        source = ManualPublisher[int]()
        probe = self._subscribe(source, ack)
        source.next(1, 2)
        source.complete()
        assert source.outcomes == [None, None]
        probe.holds[0].fail(LookupError())
        assert source.outcomes == ["failed", "failed"]

    @pytest.mark.parametrize("ack", ["on_result", "within_window"])
    def test_a_cancel_gives_them_back(self, ack: str) -> None:
        source = ManualPublisher[int]()
        probe = self._subscribe(source, ack)
        source.next(1, 2)
        probe.cancel()
        assert source.outcomes == ["released", "released"]

    def test_on_receipt_an_item_is_done_when_it_is_folded_in(self) -> None:
        source = ManualPublisher[int]()
        self._subscribe(source, "on_receipt")
        source.next(1, 2)
        assert source.outcomes == ["done", "done"]

    def test_on_result_a_window_is_too_small(self) -> None:
        class Link(ManualPublisher[int]):
            window = 256

        source = Link()
        probe = self._subscribe(source, "on_result")
        assert isinstance(probe.error, ConfigError)
        assert "(ack='on_result') needs room for items without limit, but of the link" in str(probe.error)
        assert "256" in str(probe.error)
        assert source.cancelled

    def test_a_wrong_ack_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"\(ack='later'\): ack must be 'within_window', 'on_result' or 'on_rec"):
            type(self).acking(ManualPublisher[int](), "later")
