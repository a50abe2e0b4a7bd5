"""Every stage says what it is: by what name it is called, and what it waits for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rstreams
from rstreams import Stream, operators
from rstreams._core.sight import Scannable
from rstreams._stages.shared_run import Sharing
from rstreams._stages.stage import Stage
from rstreams.errors import DemandDeadlock, RStreamsError
from rstreams.testing import ProbeSubscriber, VirtualScheduler

BY_ITSELF = {"call_later", "go_on", "InTurns", "Span", "start", "for_run"}
"""The names in the code of a stage that may do something although nobody calls it."""


def _stages(operator: str) -> list[type[Any]]:
    """Return the stages that stand in an operator's file; none if it is made of other operators."""
    module = import_module(f"rstreams.operators.{operator}")
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    return [each for each in classes if issubclass(each, Stage | Sharing)]


def _defines(stage: type[Any], name: str) -> bool:
    return next(base for base in stage.__mro__ if name in vars(base)) not in {Stage, Scannable}


def _acts_by_itself(stage: type[Any]) -> bool:
    """Tell whether its code, or that of a base, sets a timer, starts a task or makes turns."""
    for base in stage.__mro__:
        for function in vars(base).values():
            code = getattr(function, "__code__", None)
            if code is not None and BY_ITSELF & {*code.co_names}:
                return True
    return False


EVERY_STAGE = [stage for operator in operators.__all__ for stage in _stages(operator)]


@pytest.mark.parametrize("stage", EVERY_STAGE)
def test_every_stage_says_what_it_waits_for(stage: type[Any]) -> None:
    assert getattr(stage, "only_reacts", False) or _defines(stage, "waits_to")


@pytest.mark.parametrize("stage", [each for each in EVERY_STAGE if _acts_by_itself(each)])
def test_a_stage_with_a_timer_or_a_task_says_when_it_moves(stage: type[Any]) -> None:
    assert _defines(stage, "rests" if issubclass(stage, Sharing) else "moves")


def test_every_stage_of_an_operator_bears_its_name() -> None:
    for operator in operators.__all__:
        for stage in _stages(operator):
            if issubclass(stage, Stage) and "label" not in vars(stage) and not hasattr(stage, "_operator"):
                assert stage.operator == operator


def test_no_analysis_looks_at_files_or_modules() -> None:
    package = Path(rstreams.__file__).parent
    looking = [file for file in package.rglob("*.py") if "__module__" in file.read_text("utf-8")]
    # Those only know an observable, or name the type of an error in a trace.
    assert [file.name for file in looking if file.parent.name not in {"_checks", "telemetry"}] == []


GATHERERS: dict[str, Callable[[Stream[int]], Stream[Any]]] = {
    "collect": lambda group: group.collect(),
    "buffer_until": lambda group: group.buffer_until(lambda _: False),
    "timestamp": lambda group: group.timestamp().to_set(),
    "time_interval": lambda group: group.time_interval().last(),
    "lists that overlap": lambda group: group.buffer_count(3, skip=1),
    "lists with gaps": lambda group: group.buffer_count(3, skip=5).last(),
}

WINDOWS: dict[str, Callable[[Stream[int]], Stream[Any]]] = {
    "window_time": lambda stream: stream.window_time(1.0),
    "window_count_or_time": lambda stream: stream.window_count_or_time(5, 1.0),
    "window_boundary": lambda stream: stream.window_boundary(Stream.never()),
    "window_count": lambda stream: stream.window_count(2),
}


@pytest.mark.parametrize("gatherer", GATHERERS)
async def test_more_groups_than_slots_are_found_behind(gatherer: str) -> None:
    groups = Stream.range(100).group_by(lambda n: n % 20, prefetch=16)
    with pytest.raises(DemandDeadlock, match=r"group_by has \d+ live groups"):
        await groups.flat_map(GATHERERS[gatherer], concurrency=4).to_list()


@pytest.mark.parametrize("operator", WINDOWS)
def test_the_second_subscriber_of_a_window_is_told_by_which_operator(operator: str) -> None:
    with VirtualScheduler():
        windows = ProbeSubscriber[Any](1)
        WINDOWS[operator](Stream.range(10)).subscribe(windows)
        (window,) = windows.items
        first, second = ProbeSubscriber[int](), ProbeSubscriber[int]()
        window.subscribe(first)
        window.subscribe(second)
        assert isinstance(second.error, RStreamsError)
        assert str(second.error).startswith(f"a window of {operator} takes only one subscriber")
        windows.cancel()
        first.cancel()
