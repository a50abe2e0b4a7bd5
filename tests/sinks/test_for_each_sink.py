"""The sink behind `for_each`: the function's result decides what becomes of the item."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.testing import ManualPublisher


def never_mind() -> None:
    """Hear of a change."""


def _fail(item: int) -> None:
    raise ValueError(item)


async def _unawaited(_: int) -> None: ...


def test_the_function_gets_each_item() -> None:
    got: list[int] = []
    sink, source = ForEachSink[int](never_mind, got.append), ManualPublisher[int]()
    sink.request(3)
    source.subscribe(sink)
    source.next(1, 2)
    sink.cancel()
    source.next(3)
    assert (got, source.outcomes) == ([1, 2], ["done", "done", "done"])


@pytest.mark.parametrize(("function", "error"), [(_fail, ValueError), (_unawaited, TypeError)])
def test_a_function_that_fails_ends_it(function: Callable[[int], object], error: type[Exception]) -> None:
    sink, source = ForEachSink[int](never_mind, function), ManualPublisher[int]()
    sink.request(2)
    source.subscribe(sink)
    source.next(1)
    assert isinstance(sink.error, error)
    assert (source.outcomes, source.cancelled) == (["failed"], True)
