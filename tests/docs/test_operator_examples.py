"""The example in every operator's docstring shows what it says it shows, in asyncio as it stands, and in trio."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import io
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from types import CodeType
from typing import Any

import pytest
import trio
import trio.testing

import rstreams
import rstreams.aio
from rstreams import Stream, operators, sources
from rstreams.testing import VirtualTimeLoop
from tests.docs.examples import for_trio

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
    await _show(name, {"Stream": Stream, "rstreams": rstreams, "trio": trio}, for_trio)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_example_shows_it_in_asyncio(name: str) -> None:
    names = {"Stream": Stream, "rstreams": rstreams.aio, "asyncio": asyncio}

    def main() -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(_show(name, names, str))

    with ThreadPoolExecutor(1) as thread:  # a runner leaves its thread without an event loop
        thread.submit(main).result()


async def _show(name: str, names: dict[str, Any], written: Callable[[str], str]) -> None:
    for example in _examples(FUNCTIONS[name]):
        printed = io.StringIO()
        source = written(example.source)
        code = compile(source, f"<{name}>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        failure = None
        try:
            with redirect_stdout(printed):
                await _run(code, names)
        except Exception as error:
            failure = "".join(traceback.format_exception_only(error))
        assert failure == example.exc_msg, source
        if failure is None:
            assert CHECKER.check_output(example.want, printed.getvalue(), 0), f"{source}{printed.getvalue()}"
