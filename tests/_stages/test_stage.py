"""The stages that operators share: one that leaves out what an operator must write is refused, at once and by name."""

from __future__ import annotations

import pytest

from rstreams._stages.folds import Folding
from rstreams._stages.inner_stream import OneInner
from rstreams._stages.latest_item import LatestItem
from rstreams._stages.router import Routing
from rstreams._stages.shared_run import Sharing
from rstreams._stages.side_stream import Beside
from rstreams._stages.turns import TurningStage
from rstreams._stages.waiting_items import WaitingItems


@pytest.mark.parametrize(
    ("base", "hooks"),
    [
        (Beside, {"on_next", "_first_item"}),
        (Folding, {"_fold", "_result"}),
        (OneInner, {"_begin", "_inner_is_through"}),
        (Sharing, {"on_next", "numbers", "_member", "_next", "_serve_item", "_is_through", "_ask"}),
        (Routing, {"on_next", "kept_for", "_member", "_next", "_serve_item", "_is_through", "_ask"}),
        (TurningStage, {"_step"}),
        (WaitingItems, {"_ask"}),
        (LatestItem, {"on_next"}),
    ],
)
def test_what_an_operator_must_write_cannot_be_left_out(base: type, hooks: set[str]) -> None:
    class Operator(base):  # type: ignore[misc] # made at run time
        pass

    assert set(Operator.__abstractmethods__) == hooks
    with pytest.raises(TypeError, match=f"abstract.*{min(hooks)}"):
        Operator()
