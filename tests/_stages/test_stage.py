"""The stages that operators share: what an operator must write cannot be left out, and no class does too much."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rstreams._stages
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


def test_no_class_has_more_than_25_methods() -> None:
    classes = [
        (each.name, len({part.name for part in each.body if isinstance(part, ast.FunctionDef)}))
        for file in Path(rstreams._stages.__path__[0]).glob("*.py")
        for each in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(each, ast.ClassDef)
    ]
    assert len(classes) > 50
    assert [each for each in classes if each[1] > 25] == []
