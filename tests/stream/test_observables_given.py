"""An observable of reactivex where a stream belongs: an error at the call says how to make a stream of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.subject import Subject

import rstreams
from rstreams import Node, Stream, operators, sources
from rstreams.errors import ConfigError
from rstreams.testing import StreamVerifier, expect_marbles

OBSERVABLE: Any = reactivex.of(1, 2)
TOLD = r"use Stream\.from_observable\(\.\.\.\)"


def _signatures() -> Iterator[tuple[str, str]]:
    """Yield each operator and source that takes a stream, or what makes one, and the argument for it."""
    for package in (operators, sources):
        for name in package.__all__:
            for option in inspect.signature(getattr(package, name)).parameters.values():
                if "Publisher" in str(option.annotation) or "Iterable[" in str(option.annotation):
                    yield f"{package.__name__.rpartition('.')[2]}.{name}", option.name


CASES = sorted(set(_signatures()))


def _given(option: inspect.Parameter, wrong: str) -> Any:  # noqa: ANN401 - an argument
    source: Stream[int] = Stream.fail(LookupError()) if wrong == "handler" else Stream.range(2)
    made: Any = OBSERVABLE if option.name == wrong else source
    if "Callable" in str(option.annotation):
        return lambda *_: made
    if "Publisher" in str(option.annotation) or "Iterable" in str(option.annotation):
        return made
    return 1


def test_the_signatures_are_found() -> None:
    assert len(CASES) > 100
    assert {("operators.flat_map", "function"), ("operators.merge", "sources"), ("sources.defer", "make")} <= set(CASES)


@pytest.mark.parametrize(("path", "wrong"), CASES)
async def test_a_function_refuses_it(path: str, wrong: str) -> None:
    package, _, name = path.partition(".")
    function = getattr(operators if package == "operators" else sources, name)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for option in inspect.signature(function).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            if option.name == wrong:
                named[option.name] = _given(option, wrong)
        elif option.kind is option.VAR_POSITIONAL or option.default is option.empty or option.name == wrong:
            positional.append(_given(option, wrong))
    with pytest.raises(TypeError, match=TOLD):
        await Stream(function(*positional, **named)).to_list()


CALLS: dict[str, Callable[[], object]] = {
    "Stream": lambda: Stream(OBSERVABLE),
    "Stream(Subject)": lambda: Stream(Subject[int]()),  # type: ignore[arg-type]
    "merge": lambda: Stream.range(2).merge(OBSERVABLE),
    "through": lambda: Stream.range(2).through(lambda _: OBSERVABLE),
    "StreamVerifier": lambda: StreamVerifier(OBSERVABLE),
    "expect_marbles": lambda: expect_marbles(OBSERVABLE, "-a|"),
    "serve": lambda: Node().serve("numbers", OBSERVABLE),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_call_refuses_it(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ConfigError), match=TOLD):
        call()


async def test_a_connection_refuses_it() -> None:
    async with Node() as node:
        node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(ConfigError, match=TOLD):
                await connection.publish("orders", OBSERVABLE)


@pytest.mark.parametrize(
    "operator", [ops.map(str), ops.sum(), reactivex.compose(ops.map(str), ops.take(1))], ids=["map", "sum", "compose"]
)
def test_an_operator_of_reactivex_is_for_rx(operator: Any) -> None:  # noqa: ANN401 - given wrongly
    with pytest.raises(
        TypeError, match=r"rx: `stream\.rx\(operator\)`, `stream\.rx\(reactivex\.compose\(one, two\)\)`$"
    ):
        Stream.range(2).through(operator)


def test_several_operators_of_reactivex_are_composed() -> None:
    rx: Any = Stream.range(2).rx
    with pytest.raises(TypeError, match=r"too many positional arguments; .*`stream\.rx\(reactivex\.compose\("):
        rx(ops.map(str), ops.take(1))
