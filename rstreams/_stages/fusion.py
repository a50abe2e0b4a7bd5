"""A run of simple operators over an iterator, made into one loop.

Theory of operation. `map`, `filter`, `scan`, `skip` and `do_on_next` do something to one item and pass it on. As stages
each of them costs a call of `on_next` an item. A source over an iterator has a loop of its own, and that loop can do
their work instead. A `Work` has the work of an operator, in a line or two of Python. `fused_loop` makes one function of
the works of several operators, such as for map, filter and scan:

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

A programmer would write the same loop by hand. The text consists of constants in the operators' files and of numbers,
never of anything from outside. It is compiled once for each sequence of operators.

The loop does exactly what the stages would do, in the same order. The tests run chains both ways and compare.

- A cancel inside user code keeps the item from all that comes after it. The loop does not look at the subscription
  between two calls. `stop` puts a function that raises `Stopped` in the place of every function of the loop, and the
  next call ends the loop.
- Exceptions of user code, `StopIteration` included, leave the loop as they are. Only exceptions of the downstream
  `on_next` are marked, because they do not belong to the stream (2.13).
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol, TypeAlias

Loop: TypeAlias = Callable[[Iterable[Any]], int]
"""Sends the results for the items, and returns how many items were dropped on the way."""


class Stopped(BaseException):
    """The exception that ends a stopped loop; it never leaves the source."""


@dataclass(frozen=True, eq=False)
class Work:
    """The work of an operator on an item, as text with the names `item`, `{function}` and `{state}`.

    Attributes:
        operator: The operator's name.
        does: The statement that makes the next item from `item`; "" if the work is to drop items.
        drops: The expression that is true if the item is to be dropped.
        when_dropping: The statement to run for a dropped item; "" if there is none.
    """

    operator: str
    does: str = ""
    drops: str = ""
    when_dropping: str = ""

    def lines(self, number: int) -> list[str]:
        """Return the lines of the loop for the work with this number."""
        if not self.drops:
            lines = [self.does]
        else:
            then = [self.when_dropping] if self.when_dropping else []
            lines = [
                f"if {self.drops}:",
                *(f"    {each}" for each in (*then, "dropped += 1", _UNLESS_ENDED, "continue")),
            ]
        return [line.format(function=f"function_{number}", state=f"state_{number}") for line in lines]

    @property
    def has_state(self) -> bool:
        """Whether the work remembers something from one item to the next."""
        return "{state}" in self.does + self.drops


@dataclass(frozen=True, slots=True)
class Step:
    """A `Work` with its function and state.

    Attributes:
        work: The work to do.
        function: The user's function; None for `skip`.
        state: The state at the start: the seed of `scan`, the count of `skip`.
    """

    work: Work
    function: Callable[..., Any] | None = None
    state: Any = None


class Ending(Protocol):
    """The state of a subscription that a loop needs."""

    ended: bool
    refused: bool


_UNLESS_ENDED: Final = "if subscription.ended: return dropped"


def fused_loop(
    steps: tuple[Step, ...], on_next: Callable[[Any], None], subscription: Ending
) -> tuple[Loop, Callable[[], None]]:
    """Return a loop that does `steps` with each item and sends the results to `on_next`, and a function that stops it.

    The loop may be called again for further items, and goes on from its last state. When it has been stopped, at the
    end of the subscription, it returns or raises `Stopped`. Any other exception leaves it unchanged;
    `subscription.refused` tells whether it came from `on_next`.
    """
    make = _maker(tuple(step.work for step in steps))
    return make(on_next, subscription, [step.function for step in steps], [step.state for step in steps], _stopped)


def _stopped(*_: object) -> None:
    raise Stopped


@cache
def _maker(works: tuple[Work, ...]) -> Callable[..., tuple[Loop, Callable[[], None]]]:
    places = range(len(works))
    functions = ["on_next", *(f"function_{i}" for i in places)]
    lines = [
        "def make(on_next, subscription, functions, states, stopped):",
        *(f"    function_{i} = functions[{i}]" for i in places),
        *(f"    state_{i} = states[{i}]" for i in places),
        "    def stop():",
        f"        nonlocal {', '.join(functions)}",
        f"        {' = '.join(functions)} = stopped",
        "    def loop(items):",
        *(f"        nonlocal state_{i}" for i in places if works[i].has_state),
        "        dropped = 0",
        "        for item in items:",
        *(f"            {line}" for i in places for line in works[i].lines(i)),
        "            try:",
        "                on_next(item)",
        "            except BaseException:",
        "                subscription.refused = True",
        "                raise",
        f"            {_UNLESS_ENDED}",
        "        return dropped",
        "    return loop, stop",
    ]
    title = f"<rstreams: {' | '.join(work.operator for work in works) or 'items'}>"
    make: Callable[..., tuple[Loop, Callable[[], None]]] = compiled(title, "\n".join(lines))["make"]
    return make


def compiled(title: str, text: str, **names: Any) -> dict[str, Any]:  # noqa: ANN401 - any names that the text uses
    """Return the names that `text` defines, which may use `names`; a traceback shows its lines under `title`."""
    linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
    exec(compile(text, title, "exec"), names)  # noqa: S102 - made of constants
    return names
