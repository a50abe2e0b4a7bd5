"""Suspending a stage with several sources: all that run are told, and those that come later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams import Stream
from rstreams.abc import Suspendable
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Played(ManualPublisher[int]):
    """A source that can be suspended, and notes when."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def suspend(self) -> None:
        self.calls.append("suspend")

    def resume(self) -> None:
        self.calls.append("resume")

    def request(self, n: int) -> None:
        self.calls.append("request")
        super().request(n)


def _suspendable(probe: ProbeSubscriber[Any]) -> Suspendable:
    assert isinstance(probe.subscription, Suspendable)
    return probe.subscription


JOINED: dict[str, Callable[[Stream[int], Stream[int]], Stream[Any]]] = {
    "merge": lambda a, b: a.merge(b),
    "merge_priority": lambda a, b: a.merge_priority(b),
    "merge_sorted": lambda a, b: a.merge_sorted(b),
    "zip": lambda a, b: a.zip(b),
    "combine_latest": lambda a, b: a.combine_latest(b),
    "race": lambda a, b: a.race(b),
}


@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED.keys())
def test_all_sources_are_suspended_and_resumed(join: Callable[[Stream[int], Stream[int]], Stream[Any]]) -> None:
    first, second, probe = Played(), Played(), ProbeSubscriber[Any](1)
    join(Stream(first), Stream(second)).subscribe(probe)

    _suspendable(probe).suspend()
    assert first.calls == second.calls == ["request", "suspend"]

    _suspendable(probe).resume()
    assert first.calls == second.calls == ["request", "suspend", "resume"]


@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED.keys())
def test_a_source_subscribed_to_while_suspended_is_suspended_before_it_is_asked(
    join: Callable[[Stream[int], Stream[int]], Stream[Any]],
) -> None:
    first, second = Played(), Played()

    class SuspendsAtOnce(ProbeSubscriber[Any]):
        def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401 - suspendable
            subscription.suspend()
            subscription.request(1)
            super().on_subscribe(subscription)

    probe = SuspendsAtOnce()
    join(Stream(first), Stream(second)).subscribe(probe)
    assert first.calls == second.calls == ["suspend", "request"]


@pytest.mark.parametrize("operator", ["flat_map", "concat_map", "switch_map"])
def test_the_outer_stream_and_the_inner_ones(operator: str) -> None:
    outer, inners, probe = Played(), [Played(), Played()], ProbeSubscriber[int](1)
    getattr(Stream(outer), operator)(lambda index: inners[index]).subscribe(probe)
    outer.next(0)

    _suspendable(probe).suspend()
    assert outer.calls[-1] == "suspend"
    assert inners[0].calls == ["request", "suspend"]

    if operator == "concat_map":
        inners[0].complete()
    outer.next(1)
    assert inners[1].calls == ["suspend", "request"]

    _suspendable(probe).resume()
    assert outer.calls.count("resume") == inners[1].calls.count("resume") == 1
    assert inners[0].calls.count("resume") == (operator == "flat_map")


def test_a_source_that_comes_after_another_stays_suspended_until_it_is_resumed() -> None:
    first, second, third, probe = Played(), Played(), Played(), ProbeSubscriber[int](3)
    Stream(first).concat(Stream(second), Stream(third)).subscribe(probe)

    _suspendable(probe).suspend()
    first.complete()
    assert (first.calls, second.calls) == (["request", "suspend"], ["suspend", "request"])

    _suspendable(probe).resume()
    second.complete()
    assert (second.calls, third.calls) == (["suspend", "request", "resume"], ["request"])


def test_the_stream_in_the_place_of_an_error_or_of_nothing() -> None:
    replacements: list[Callable[[Stream[int], Stream[int]], Stream[int]]] = [
        lambda a, b: a.on_error_resume(lambda _error: b),
        lambda a, b: a.switch_if_empty(b),
    ]
    for replaced in replacements:
        first, second, probe = Played(), Played(), ProbeSubscriber[int](3)
        replaced(Stream(first), Stream(second)).subscribe(probe)
        _suspendable(probe).suspend()

        first.complete() if replaced is replacements[1] else first.error(ValueError())

        assert second.calls == ["suspend", "request"]


def test_a_source_that_cannot_be_suspended_goes_on() -> None:
    played, probe = Played(), ProbeSubscriber[int](4)
    Stream(played).merge(Stream.range(2)).subscribe(probe)

    _suspendable(probe).suspend()
    played.next(8)

    assert probe.items == [0, 1, 8]
