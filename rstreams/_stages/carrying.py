"""Contexts that came with items: made current again where a function of the user is called, see `_core.contexts`.

Theory of operation. An item and its context travel as a pair, from where the context is known to where it is
made current. There are two such ways:

    from a link        `decode` makes the pair. `ContextStage` takes it apart: the context is the current one while the
                       item goes down the stream, through `map`, `filter` and the others that keep nothing
    through a stage    that keeps items and calls its function later. The pair is made in front of the stage, the
                       function gets the item in its context, and `ContextStage` stands behind the stage

Without a `ContextCarrier` there are neither pairs nor these stages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from rstreams import abc
from rstreams._checks.functions import is_to_be_awaited
from rstreams._core.contexts import ContextCarrier, carrier_here
from rstreams._core.run import Run, runs_of
from rstreams._stages.fusion import Step, Work
from rstreams._stages.stage import Lifted
from rstreams._stages.steps import StepStage, with_step

T = TypeVar("T")
R = TypeVar("R")

_PAIRS: Final = Work("context", "item = {function}(item)")


class ContextStage(StepStage[Any, Any]):
    """Passes on the item of each pair, while the context of the pair is the current one."""

    __slots__ = ("_attach", "_current", "_detach")

    operator = "context"

    def __init__(self, downstream: abc.Subscriber[Any], carrier: ContextCarrier) -> None:
        super().__init__(downstream)
        self._current, self._attach, self._detach = carrier.current, carrier.attach, carrier.detach

    def on_next(self, item: Any) -> None:  # noqa: ANN401 - a pair
        """Pass on the item of a pair."""
        if not self._ended:
            token = self._attach(item[0])
            try:
                self._downstream.on_next(item[1])
            finally:
                self._detach(token)

    @property
    def on_run(self) -> Callable[[Run[Any]], None] | None:
        """The function that passes a run on; None if the subscriber takes none."""
        pass_on = runs_of(self._downstream)
        return None if pass_on is None else partial(self._pass_on, pass_on)

    def _pass_on(self, pass_on: Callable[[Run[Any]], None], run: Run[Any]) -> None:
        token = self._attach(self._current())  # gives back, at the end, what is current now
        try:
            pass_on(run.then(self._through))
        finally:
            self._detach(token)

    def _through(self, items: Iterator[Any]) -> Iterator[Any]:
        attach, before = self._attach, None
        for context, item in items:
            if context is not before:
                attach(context)
                before = context
            yield item
            if self._ended:
                return


def takes_pairs(subscriber: object) -> bool:
    """Return whether a subscriber wants the pairs of a link: then it makes contexts current itself."""
    takes: bool = getattr(subscriber, "takes_pairs", False)
    return takes


def beside(carrier: ContextCarrier) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function that makes the pair of the current context and an item."""
    current = carrier.current
    return lambda item: (current(), item)


def in_context(carrier: ContextCarrier, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that calls `function` with the item of a pair, in its context; so is the result awaited."""
    attach, detach = carrier.attach, carrier.detach

    def call(pair: Any) -> Any:  # noqa: ANN401 - a pair, and the result of `function`
        token = attach(pair[0])
        try:
            result = function(pair[1])
        finally:
            detach(token)
        return wait(pair[0], result) if result is not None and is_to_be_awaited(result) else result

    async def wait(context: Any, result: Awaitable[Any]) -> Any:  # noqa: ANN401 - likewise
        token = attach(context)
        try:
            made = await result
        except GeneratorExit:  # the garbage collector throws this away, perhaps in another context
            raise
        except BaseException:
            detach(token)
            raise
        detach(token)
        return made

    return call


def carrying(
    source: abc.Publisher[T],
    function: Callable[[T], Any],
    make: Callable[[abc.Publisher[Any], Callable[[Any], Any]], abc.Publisher[R]],
    results: Callable[[Callable[[Any], Any], ContextCarrier], Callable[[Any], Any]],
) -> abc.Publisher[R]:
    """Return `make(source, function)`, a stage that keeps items; their contexts come through it, if there is a carrier.

    Args:
        source: The publisher of the items.
        function: The function that the stage calls with each.
        make: Makes the stage.
        results: Makes the function that the stage calls with pairs, and whose results are pairs again.
    """
    carrier = carrier_here()
    if carrier is None:
        return make(source, function)
    kept = make(with_step(source, Step(_PAIRS, beside(carrier))), results(function, carrier))
    return Lifted(kept, lambda downstream: ContextStage(downstream, carrier))


def one_result(function: Callable[[Any], Any], carrier: ContextCarrier) -> Callable[[Any], Any]:
    """Return a function like `function`, which is async, with the pair of the context and its result."""
    call = in_context(carrier, function)

    def begun(pair: Any) -> Any:  # noqa: ANN401 - a pair, and what it makes
        made = call(pair)
        return paired(pair[0], made) if is_to_be_awaited(made) else made  # else the stage refuses it

    async def paired(context: Any, made: Awaitable[Any]) -> tuple[Any, Any]:  # noqa: ANN401 - the context of a pair
        return context, await made

    return begun


def plain_result(function: Callable[[Any], Any], carrier: ContextCarrier) -> Callable[[Any], Any]:
    """Return a function whose result is the pair of the context and `function(item)`; any thread may call it."""
    attach, detach = carrier.attach, carrier.detach

    def paired(pair: Any) -> tuple[Any, Any]:  # noqa: ANN401 - a pair
        token = attach(pair[0])
        try:
            return pair[0], function(pair[1])
        finally:
            detach(token)

    return paired


def stream_of_results(function: Callable[[Any], Any], carrier: ContextCarrier) -> Callable[[Any], Any]:
    """Return a function whose result is the stream of `function(item)`, each of its items with the context."""
    call = plain_result(function, carrier)

    def paired(pair: Any) -> abc.Publisher[Any]:  # noqa: ANN401 - a pair
        context, stream = call(pair)
        return with_step(stream, Step(_PAIRS, lambda item: (context, item)))

    return paired
