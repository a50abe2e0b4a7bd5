"""A subscription that lacks a method is refused where it arrives, not where the method is needed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rstreams import Stream
from rstreams.abc import NO_HOLD, Hold, Subscriber, Subscription

_PROTOCOL: Any = Subscription  # its methods are no abstract ones when it runs


class WithoutHold:
    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...


class Inherited(WithoutHold, _PROTOCOL):  # type: ignore[misc]
    """It has the protocol's `hold`, which returns nothing."""


class WithoutRequest:
    def cancel(self) -> None: ...

    def hold(self) -> Hold:
        return NO_HOLD


class Handing:
    def __init__(self, subscription: Any) -> None:  # noqa: ANN401 - a wrong one
        self.subscription = subscription

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(self.subscription)


PIPELINES: dict[str, Callable[[Stream[int]], Stream[Any]]] = {
    "nothing": lambda stream: stream,
    "map": lambda stream: stream.map(str),
    "buffer_count": lambda stream: stream.buffer_count(2),
    "flat_map": lambda stream: stream.flat_map(Stream.range),
    "share": lambda stream: stream.share(),
    "zip": lambda stream: stream.zip(Stream.range(2)),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
@pytest.mark.parametrize(
    ("subscription", "text"),
    [
        (WithoutHold(), r"WithoutHold object .* has no method hold\(\): return rstreams\.abc\.NO_HOLD"),
        (Inherited(), r"Inherited object .* has no method hold\(\): return rstreams\.abc\.NO_HOLD"),
        (WithoutRequest(), r"WithoutRequest object .* has no method request\(\)$"),
    ],
    ids=["no hold", "an inherited hold", "no request"],
)
async def test_what_is_missing_is_named(
    pipeline: Callable[[Stream[int]], Stream[Any]],
    subscription: Any,  # noqa: ANN401 - a wrong one
    text: str,
) -> None:
    with pytest.raises(TypeError, match=text):
        await pipeline(Stream(Handing(subscription))).to_list()


async def test_methods_of_the_object_itself_will_do() -> None:
    asked: list[int] = []
    subscription = SimpleNamespace(request=asked.append, cancel=lambda: None, hold=lambda: NO_HOLD)
    async with Stream(Handing(subscription)).map(str).open(window=3):
        assert asked == [3]
