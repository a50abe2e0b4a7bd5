"""What is wrong in one table: options that depend on each other, and several mistakes at once."""

from __future__ import annotations

import pytest

from rstreams.errors import ConfigError
from rstreams.node.config.problems import Problems
from rstreams.node.config.toml_lines import Path
from rstreams.node.plain_options import options_of


def make(*, durable: bool = False, sync: str = "always", size: int = 1, count: int = 1, name: str = "x") -> None:
    """Stand for a method whose options depend on each other."""
    if durable and name == "":
        msg = "durable=True: it needs a name"
        raise ConfigError(msg)
    for option, value in (("size", size), ("count", count)):
        if value < 1:
            msg = f"make({option}={value!r}): {option} must be 1 or more"
            raise ConfigError(msg)
    if sync != "always" and not durable:
        msg = f"sync={sync!r}: only with durable=True"
        raise ConfigError(msg)


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({}, {}),
        ({"durable": True, "sync": "never", "size": 5}, {}),
        ({"sync": "never"}, {"sync": 2}),
        ({"size": 0, "count": 0, "sync": "never"}, {"size": 3, "count": 4, "sync": 2}),
        ({"durable": True, "name": "", "sync": "never", "size": 0}, {"durable": 1}),
        ({"durable": "yes", "sync": "never"}, {"durable": 1}),
        ({"size": "many", "count": 0}, {"size": 3, "count": 4}),
    ],
)
def test_each_mistake_is_noted_once_and_nothing_that_follows_from_it(
    table: dict[str, object], wrong: dict[str, int]
) -> None:
    lines: dict[Path, int] = {("t",): 9}
    lines |= {("t", name): line for line, name in enumerate(("durable", "sync", "size", "count", "name"), 1)}
    problems = Problems("node.toml", lines)
    problems.options(("t",), table, options_of(make), make)
    assert sorted(problem.line or 0 for problem in problems.found) == sorted(wrong.values())
    for name, line in wrong.items():
        assert any(problem.line == line and name in problem.text for problem in problems.found)


def test_an_error_that_names_no_option_gets_the_line_of_its_table() -> None:
    def refuse(**_options: object) -> None:
        msg = "this cannot be"
        raise ConfigError(msg)

    problems = Problems("node.toml", {("t",): 9, ("t", "size"): 10})
    problems.options(("t",), {"size": 5}, options_of(make), refuse)
    assert [str(problem) for problem in problems.found] == ["node.toml:9: this cannot be"]
