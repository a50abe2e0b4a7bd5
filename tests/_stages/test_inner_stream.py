"""What a stage subscribes to belongs to the scope of that stage, whoever's call it is that makes it subscribe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.scheduler import current_scheduler
from rstreams.abc import Publisher, Scheduler, Subscriber
from rstreams.sources.range import range as range_
from rstreams.testing import ProbeSubscriber, VirtualScheduler


class Noting:
    """A publisher that notes the schedulers that its subscribers find."""

    def __init__(self, source: Publisher[Any]) -> None:
        self.found: list[Scheduler | None] = []
        self._source = source

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        self.found.append(current_scheduler.get(None))
        self._source.subscribe(subscriber)


LATER: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "flat_map": lambda noting: Stream.range(3).flat_map(lambda _: noting),
    "concat_map": lambda noting: Stream.range(3).concat_map(lambda _: noting),
    "switch_map": lambda noting: Stream.range(3).switch_map(lambda _: noting),
    "expand": lambda noting: Stream.range(3).expand(lambda _: noting),
    "concat": lambda noting: Stream.of(1).concat(noting),
    "on_error_resume": lambda noting: Stream.fail(ValueError()).on_error_resume(lambda _: noting),
    "repeat": lambda noting: noting.repeat(3),
    "retry": lambda noting: noting.concat(Stream.fail(ValueError())).retry(3),
    "retry_backoff": lambda noting: noting.concat(Stream.fail(ValueError())).retry_backoff(3),
    "switch_if_empty": lambda noting: Stream.empty().switch_if_empty(noting),
    "timeout": lambda noting: Stream.never().timeout(1, fallback=noting),
    "buffer_boundary": lambda noting: Stream.range(3).buffer_boundary(noting),
    "window_boundary": lambda noting: Stream.range(3).window_boundary(noting),
    "defer": lambda noting: Stream.range(3).flat_map(lambda _: Stream.defer(lambda: noting)),
    "from_observable": lambda noting: Stream.from_observable(noting.to_observable()),
    "rx": lambda noting: Stream.range(3).rx(lambda _: noting.to_observable()),
}


@pytest.mark.parametrize("name", LATER)
def test_an_inner_stream_belongs_to_the_scope_of_its_stage(name: str) -> None:
    noting = Noting(range_(2))
    with VirtualScheduler() as its_own:
        probe = ProbeSubscriber[Any]()
        LATER[name](Stream(noting)).subscribe(probe)
        with VirtualScheduler():  # another one calls
            probe.request(20)
            its_own.advance(60)
    assert noting.found
    assert set(noting.found) == {its_own}
