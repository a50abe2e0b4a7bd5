"""The example in every operator's docstring is run as it stands, and shows what it says it shows."""

from __future__ import annotations

import ast
import doctest
import inspect
import io
import traceback
from contextlib import redirect_stdout
from types import CodeType
from typing import Any

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Stream, operators, sources

FUNCTIONS = {
    f"{package.__name__.rpartition('.')[2]}.{name}": getattr(package, name)
    for package in (sources, operators)
    for name in package.__all__
} | {"Stream.explain": Stream.explain}
CHECKER = doctest.OutputChecker()


def _examples(function: object) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(function) or "")


async def _run(code: CodeType, names: dict[str, Any]) -> None:
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_operator_has_an_example(name: str) -> None:
    assert any("Stream." in example.source for example in _examples(FUNCTIONS[name])), f"{name} has no example"


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_an_example_shows_what_it_says(name: str, autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock  # the times in the examples are virtual
    names: dict[str, Any] = {"Stream": Stream, "rstreams": rstreams, "trio": trio}
    for example in _examples(FUNCTIONS[name]):
        printed = io.StringIO()
        code = compile(example.source, f"<{name}>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        failure = None
        try:
            with redirect_stdout(printed):
                await _run(code, names)
        except Exception as error:
            failure = "".join(traceback.format_exception_only(error))
        assert failure == example.exc_msg, example.source
        if failure is None:
            assert CHECKER.check_output(example.want, printed.getvalue(), 0), f"{example.source}{printed.getvalue()}"
