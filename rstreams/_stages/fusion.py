"""A run of simple operators over an iterator, made into one loop.

Theory of operation. `map`, `filter`, `scan`, `skip` and `do_on_next` do something to one item and pass it on. As
stages each of them costs a call of `on_next` an item. Over a source that pulls its items from an iterator they need not
be stages: the source's own loop can do their work. A `Step` says what to do, in a line or two of Python, and
`fused_loop` makes one function of the steps of a run, such as for map, filter and scan:

    def loop(items):
        nonlocal state_2
        dropped = 0
        for item in items:
            item = function_0(item)
            if not function_1(item):
                ...
            item = state_2 = function_2(state_2, item)
            on_next(item)
            if subscription.ended: return dropped
        return dropped

It is what one would write by hand, and made as `dataclasses` and `namedtuple` make theirs. The text consists of the
constants in this file and of numbers, never of anything from outside; it is compiled once for each sequence of kinds.

The loop does exactly what the stages would do, in the same order. A cancel inside user code keeps the item from all
that comes after it, without a look at the subscription between any two calls: `stop` puts a function that raises
`Stopped` in the place of every function of the loop, so that the next call, whichever it is, ends it. What user code
raises, be it `StopIteration`, leaves the loop as it is; only the exceptions of the downstream `on_next` are marked, for
they are not the stream's (2.13). The tests run chains both ways and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["map", "filter", "scan", "skip", "do_on_next"]

Loop: TypeAlias = Callable[[Iterable[Any]], int]
"""Sends what it makes of the items, and returns how many of them it dropped on the way."""


class Stopped(BaseException):
    """What a stopped loop ends with; it never leaves the source."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one operator does to an item.

    Attributes:
        kind: The operator.
        function: What the user gave it; None for `skip`.
        state: What it starts from: the seed of `scan`, the count of `skip`.
    """

    kind: Kind
    function: Callable[..., Any] | None = None
    state: Any = None


class Ending(Protocol):
    """What a loop needs to know of its subscription."""

    ended: bool
    refused: bool


_UNLESS_ENDED: Final = "if subscription.ended: return dropped"

_LINES: Final[dict[Kind, tuple[str, ...]]] = {
    "map": ("item = function_{i}(item)",),
    "filter": (
        "if not function_{i}(item):",
        "    dropped += 1",
        "    " + _UNLESS_ENDED,
        "    continue",
    ),
    "scan": ("item = state_{i} = function_{i}(state_{i}, item)",),
    "skip": ("if state_{i}:", "    state_{i} -= 1", "    dropped += 1", "    " + _UNLESS_ENDED, "    continue"),
    "do_on_next": ("function_{i}(item)",),
}


def fused_loop(
    steps: tuple[Step, ...], on_next: Callable[[Any], None], subscription: Ending
) -> tuple[Loop, Callable[[], None]]:
    """Return a loop that does `steps` with each item and sends what comes out to `on_next`, and what stops it.

    It may be called again for further items, and goes on from the state it has come to. It returns, or raises
    `Stopped`, when it has been stopped: at the end of the subscription. Any other exception leaves it as it is;
    `subscription.refused` tells whether it is one of `on_next`.
    """
    make = _compiled(tuple(step.kind for step in steps))
    return make(on_next, subscription, [step.function for step in steps], [step.state for step in steps], _stopped)


def _stopped(*_: object) -> None:
    raise Stopped


@cache
def _compiled(kinds: tuple[Kind, ...]) -> Callable[..., tuple[Loop, Callable[[], None]]]:
    places = range(len(kinds))
    functions = ["on_next", *(f"function_{i}" for i in places)]
    stateful = [f"state_{i}" for i in places if kinds[i] in ("scan", "skip")]
    lines = [
        "def make(on_next, subscription, functions, states, stopped):",
        *(f"    function_{i} = functions[{i}]" for i in places),
        *(f"    state_{i} = states[{i}]" for i in places),
        "    def stop():",
        f"        nonlocal {', '.join(functions)}",
        f"        {' = '.join(functions)} = stopped",
        "    def loop(items):",
        *(f"        nonlocal {state}" for state in stateful),
        "        dropped = 0",
        "        for item in items:",
        *(f"            {line.format(i=i)}" for i in places for line in _LINES[kinds[i]]),
        "            try:",
        "                on_next(item)",
        "            except BaseException:",
        "                subscription.refused = True",
        "                raise",
        f"            {_UNLESS_ENDED}",
        "        return dropped",
        "    return loop, stop",
    ]
    names: dict[str, Any] = {}
    code = compile("\n".join(lines), f"<rstreams: {' | '.join(kinds) or 'items'}>", "exec")
    exec(code, names)  # noqa: S102 - made of the constants above
    make: Callable[..., tuple[Loop, Callable[[], None]]] = names["make"]
    return make
