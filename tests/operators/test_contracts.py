"""Every operator has a class that runs the contract of all operators, and no class leaves a scenario out."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rstreams import operators
from tests.operators.contract import FunctionContract, OperatorContract

HERE = Path(__file__).parent

# The method of the contract that tests each scenario.
SCENARIOS = {
    "empty": "test_an_empty_source_needs_no_demand_to_end",
    "error first": "test_an_error_of_the_source_that_comes_first",
    "error midway": "test_an_error_of_the_source_midway",
    "cancel before": "test_cancel_before_the_first_item",
    "cancel midway": "test_cancel_midway",
    "cancel after": "test_nothing_follows_the_end",
    "demand one by one": "test_items_come_as_requested_and_no_more",
    "unbounded": "test_emits_what_the_model_says",
    "re-entrant request": "test_requesting_one_more_in_on_next_does_not_recurse",
    "slow source": "test_a_slow_source_and_a_quick_subscriber",
    "slow subscriber": "test_a_quick_source_and_a_slow_subscriber",
    "second subscriber": "test_each_subscriber_starts_afresh",
    "second subscription": "test_a_second_subscription_is_cancelled",
}


@cache
def _classes(path: Path) -> dict[str, ast.ClassDef]:
    return {each.name: each for each in ast.parse(path.read_text()).body if isinstance(each, ast.ClassDef)}


def _bases(name: str, classes: dict[str, ast.ClassDef]) -> Iterator[str]:
    yield name
    if name in classes:
        for base in classes[name].bases:
            yield from _bases(ast.unparse(base), classes)


def _contracts(path: Path) -> list[str]:
    """Return the test classes of a file that inherit some contract."""
    classes = _classes(path)
    return [
        name
        for name in classes
        if name.startswith("Test") and any(b.endswith("Contract") for b in _bases(name, classes))
    ]


@pytest.mark.parametrize("operator", operators.__all__)
def test_every_operator_has_a_contract(operator: str) -> None:
    path = HERE / f"test_{operator}.py"
    assert path.exists(), f"add tests/operators/{path.name}"
    assert _contracts(path), f"add a class to {path.name} that derives from OperatorContract or one of its kin"


def test_no_class_leaves_a_scenario_out() -> None:
    """A class may state another expectation, but not that there is none."""
    for path in HERE.glob("*.py"):
        for name, each in _classes(path).items():
            set_ = [ast.unparse(target) for s in each.body if isinstance(s, ast.Assign) for target in s.targets]
            skipped = [d for s in each.body if isinstance(s, ast.FunctionDef) for d in s.decorator_list]
            assert not [target for target in set_ if target.startswith("test_")], f"{path.name}: {name}"
            assert not [d for d in skipped if "skip" in ast.unparse(d) or "xfail" in ast.unparse(d)], f"{path.name}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_in_the_contract(scenario: str) -> None:
    assert inspect.isfunction(getattr(OperatorContract, SCENARIOS[scenario]))


def test_a_user_function_that_raises_is_in_the_contract() -> None:
    assert inspect.isfunction(FunctionContract.test_what_a_user_function_raises_ends_the_stream)


def _takes_a_function(operator: str) -> bool:
    return "Callable" in str(inspect.signature(getattr(operators, operator)))


@pytest.mark.parametrize("operator", [each for each in operators.__all__ if _takes_a_function(each)])
def test_every_operator_with_a_user_function_is_tested_with_one_that_raises(operator: str) -> None:
    path = HERE / f"test_{operator}.py"
    classes = _classes(path)
    by_contract = any(b.endswith("FunctionContract") for name in classes for b in _bases(name, classes))
    assert by_contract or "raise" in path.read_text() or " // " in path.read_text()
