"""Errors that are kept and raised, or handed on: nobody does that twice without `KeptError`, or a new traceback.

Python adds the frames of each call that raises an error to the traceback of that error, which would grow for ever.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("rstreams", "adapters/spark/src")

HANDS_ON: Final = ("on_error", "_fail", "set_exception")
SUSPECT: Final = re.compile(rf"raise (?![A-Z][\w.]*\()\S|\.({'|'.join(HANDS_ON)})\(")
"""Where it can be; most files have none of that, and are not parsed."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

ONCE: Final = {
    "rstreams/_stages/stage.py: on_complete: on_error(self._failure)": "a stage has one subscriber",
    "rstreams/aio/_guest.py: _outcome: raise call.error": "a block is left once",
    "rstreams/aio/_guest.py: hold: raise self._error": "a block is left once",
    "rstreams/aio/_guest.py: news: raise self._error": "one task waits for a call, and ends with it",
    "rstreams/aio/_guest.py: result: raise self._error": "one task waits for a call, and ends with it",
    "rstreams/cli/recv.py: _receive: raise intake.error": "a command ends with it",
    "rstreams/net/links/connection_links.py: ended: raise self.error": "the end of the block of a sender",
    "rstreams/net/links/connection_links.py: send: raise self._draining": "a property, which makes a new one",
    "rstreams/net/links/named_subscriptions.py: unsubscribe: raise end.lost": "of a link that this call made",
    "rstreams/net/links/named_subscriptions.py: unsubscribe: raise outcome.error": "of a link that this call made",
    "rstreams/net/links/publication.py: end_of: raise sending.error": "of a link that this call made",
    "rstreams/net/transport/pump.py: _receive: _fail(self._end)": "a property, which makes a new one",
    "rstreams/net/transport/pump.py: run: _fail(self._end)": "a property, which makes a new one",
    "rstreams/net/transport/tls_layer.py: decrypt: raise self._failure": "the connection ends with it",
    "rstreams/node/node_store.py: run: raise self._failed": "the node ends with it",
    "rstreams/runtime/portal.py: hold: raise self.error": "a block is left once",
    "rstreams/simulation/world.py: _main: raise self._why": "the simulation ends with it",
    "rstreams/sources/using.py: _emit_with: raise self._error": "one task holds the context manager of a subscription",
    "rstreams/sources/using.py: _run: on_error(self._error)": "one task holds the context manager of a subscription",
    "rstreams/sources/using.py: _run: raise self._refused": "one task holds the context manager of a subscription",
    "rstreams/testing/virtual_scheduler.py: __exit__: raise errors[0]": "a block is left once",
    "rstreams_spark/_ahead.py: result: raise self._error": "a batch is asked for once",
    "rstreams_spark/_logs/offsets_at.py: offsets_at: raise looker.error": "of a link that this call made",
    "rstreams_spark/_outbox.py: _until: _fail(self._failure)": "a description, of which a new error is made",
    "rstreams_spark/_logs/tails.py: _tails: raise errors[0]": "of tasks that this call made",
}
"""Errors that are kept and raised or handed on once, and why nobody does it twice."""


@pytest.mark.slow
def test_an_error_that_is_kept_is_raised_with_a_traceback_of_its_own() -> None:
    found = {line for top in PRODUCT for path in (ROOT / top).rglob("*.py") for line in kept_in(path, ROOT / top)}
    assert found - ONCE.keys() == set(), "raise KeptError.again(), or say in ONCE why it cannot be raised twice"
    assert ONCE.keys() - found == set(), "these are gone"


@pytest.mark.parametrize(
    "body",
    [
        "raise self._error",
        "raise self._error from None",
        "raise self._error or ValueError()",
        "raise ValueError() if self.fine else self.errors[0]",
        "error = self._error\n    raise error",
        "error, self._error = self._error, None\n    raise error",
        "if (error := self._error) is not None:\n        raise error",
        "other.on_error(self._error)",
    ],
)
def test_each_way_to_raise_a_kept_error_is_found(body: str) -> None:
    assert list(kept_errors(ast.parse(f"def f(self, other):\n    {body}\n")))


@pytest.mark.parametrize(
    "body",
    [
        "raise self._error.again()",
        "raise errors.NoItem",
        "error = self.made()\n    raise error",
        "try:\n        pass\n    except ValueError as error:\n        raise error",
        "other.on_error(ValueError())",
        "other.on_error(other)",
    ],
)
def test_other_errors_are_not(body: str) -> None:
    assert not list(kept_errors(ast.parse(f"def f(self, other):\n    {body}\n")))


def kept_in(path: Path, top: Path) -> Iterator[str]:
    """Return a line for each kept error that a file raises or hands on."""
    where = path.relative_to(top if top.name == "src" else top.parent)
    text = path.read_text()
    if SUSPECT.search(text):
        yield from (f"{where}: {line}" for line in kept_errors(ast.parse(text)))


def kept_errors(module: ast.Module) -> Iterator[str]:
    for function in ast.walk(module):
        if isinstance(function, Function):
            name = getattr(function, "name", "lambda")
            for node in own_nodes(function):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    yield from (f"{name}: raise {ast.unparse(each)}" for each in kept_among(function, node.exc))
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HANDS_ON:
                    for argument in node.args[-1:]:
                        for each in kept_among(function, argument):
                            yield f"{name}: {node.func.attr}({ast.unparse(each)})"


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Walk a function, but not the functions in it."""
    nodes = list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            nodes += ast.iter_child_nodes(node)


def kept_among(function: Function, made: ast.expr, seen: frozenset[str] = frozenset()) -> Iterator[ast.expr]:
    """Return the parts of an expression that lived before the function was called, and are none of its arguments.

    `seen` are names that are being followed.
    """
    match made:
        case ast.BoolOp():
            for part in made.values:
                yield from kept_among(function, part, seen)
        case ast.IfExp():
            yield from kept_among(function, made.body, seen)
            yield from kept_among(function, made.orelse, seen)
        case ast.Subscript():
            yield made
        case ast.Attribute() if not made.attr[0].isupper():  # no class
            yield made
        case ast.Name() if made.id not in seen:
            for value in values_of(function, made.id):
                if value is not None:
                    yield from kept_among(function, value, seen | {made.id})
        case _:
            pass


def values_of(function: Function, name: str) -> Iterator[ast.expr | None]:
    """Return what a name is bound to in a function; None where that is new in each call."""
    arguments = function.args
    if name in [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]:
        yield None
    for node in own_nodes(function):
        match node:
            case ast.ExceptHandler(name=str(bound)) if bound == name:
                yield None
            case ast.NamedExpr(target=ast.Name(id=bound), value=value) if bound == name:
                yield value
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                yield from values_in(target, value, name)
            case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                yield from values_in(target, None, name)
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from values_in(target, None, name)
            case _:
                pass


def values_in(target: ast.expr, value: ast.expr | None, name: str) -> Iterator[ast.expr | None]:
    match target, value:
        case ast.Name(id=bound), _ if bound == name:
            yield value
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), ast.Tuple(elts=values)):
            for each, its in zip(targets, values, strict=False):
                yield from values_in(each, its, name)
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), _):
            for each in targets:
                yield from values_in(each, None, name)
        case _:
            pass
