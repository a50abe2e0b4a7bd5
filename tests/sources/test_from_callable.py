from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, DemandError
from rstreams.sources.from_callable import from_callable
from rstreams.testing import ProbeSubscriber, VirtualScheduler


class Answer:
    """Counts its calls."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.calls = 0
        self._failure = failure

    def plain(self) -> int:
        self.calls += 1
        if self._failure is not None:
            raise self._failure
        return self.calls

    async def waiting(self) -> int:
        return self.plain()


Make = Callable[[Answer], Publisher[int]]
KINDS: dict[str, Make] = {
    "plain": lambda answer: from_callable(answer.plain),
    "async": lambda answer: from_callable(answer.waiting),
}
both = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())


@both
@pytest.mark.parametrize("request_", [1, 5, UNBOUNDED])
def test_the_first_request_calls_it_once(make: Make, request_: int) -> None:
    answer, probe = Answer(), ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        make(answer).subscribe(probe)
        scheduler.run()
        assert (answer.calls, probe.signals) == (0, ["on_subscribe"])
        probe.request(request_)
        scheduler.run()
        assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
        probe.request(1)
        scheduler.run()
    assert probe.items == [1]
    assert answer.calls == 1


@both
def test_each_subscriber_calls_it(make: Make) -> None:
    publisher, probes = make(Answer()), [ProbeSubscriber[int](1), ProbeSubscriber[int](1)]
    with VirtualScheduler() as scheduler:
        for probe in probes:
            publisher.subscribe(probe)
        scheduler.run()
    assert [probe.items for probe in probes] == [[1], [2]]


@both
def test_what_it_raises_is_the_error(make: Make) -> None:
    failure, probe = LookupError(), ProbeSubscriber[int](1)
    with VirtualScheduler() as scheduler:
        make(Answer(failure)).subscribe(probe)
        scheduler.run()
    assert probe.error is failure
    assert probe.signals == ["on_subscribe", "on_error"]


@both
def test_after_a_cancel_it_is_not_called(make: Make) -> None:
    answer, probe = Answer(), ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        make(answer).subscribe(probe)
        probe.cancel()
        probe.request(1)
        scheduler.run()
        assert scheduler.running == 0
    assert answer.calls == 0
    assert probe.signals == ["on_subscribe"]


@both
def test_a_wrong_demand_ends_it(make: Make) -> None:
    answer, probe = Answer(), ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        make(answer).subscribe(probe)
        probe.request(-1)
        scheduler.run()
    assert isinstance(probe.error, DemandError)
    assert answer.calls == 0


@both
def test_nobody_cannot_subscribe(make: Make) -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"1\.9"):
        make(Answer()).subscribe(nobody)


@both
def test_a_result_of_none_is_an_item(make: Make) -> None:
    class Nothing(Answer):
        def plain(self) -> Any:  # noqa: ANN401 - the kinds are typed for numbers
            return None

    probe = ProbeSubscriber[int](1)
    with VirtualScheduler() as scheduler:
        make(Nothing()).subscribe(probe)
        scheduler.run()
    assert probe.items == [None]
    assert probe.completed


def test_an_async_function_is_cancelled_while_it_waits() -> None:
    ended = []
    probe = ProbeSubscriber[None](1)
    with VirtualScheduler() as scheduler:

        async def wait() -> None:
            try:
                await scheduler.event().wait()
            finally:
                ended.append("function")

        from_callable(wait).subscribe(probe)
        scheduler.run()
        assert ended == []
        probe.cancel()
        scheduler.run()
        assert ended == ["function"]
    assert probe.signals == ["on_subscribe"]


def test_an_async_function_needs_a_scheduler() -> None:
    probe = ProbeSubscriber[int](1)
    from_callable(Answer().waiting).subscribe(probe)
    assert isinstance(probe.error, ConfigError)


def test_without_a_scheduler_a_coroutine_that_a_plain_function_returns_is_closed() -> None:
    probe = ProbeSubscriber[Any](1)
    from_callable(lambda: Answer().waiting()).subscribe(probe)
    assert isinstance(probe.error, ConfigError)  # and Python warns of no coroutine that was never awaited


def plainly(answer: Answer) -> Awaitable[int]:
    return answer.waiting()


def test_any_awaitable_that_a_plain_function_returns_is_awaited() -> None:
    class Later:
        def __await__(self) -> Generator[Any, None, int]:
            return Answer().waiting().__await__()

    answer, probes = Answer(), [ProbeSubscriber[int](1) for _ in range(3)]
    with VirtualScheduler() as scheduler:
        from_callable(lambda: plainly(answer)).subscribe(probes[0])
        from_callable(partial(answer.waiting)).subscribe(probes[1])
        from_callable(Later).subscribe(probes[2])
        scheduler.run()
    assert [probe.items for probe in probes] == [[1], [2], [1]]
    assert all(probe.completed for probe in probes)


def test_what_is_not_awaited_yet_is_closed_by_a_cancel() -> None:
    answer, probe = Answer(), ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        from_callable(lambda: plainly(answer)).subscribe(probe)
        probe.request(1)
        probe.cancel()
        scheduler.run()
        assert scheduler.running == 0
    assert answer.calls == 0
    assert probe.signals == ["on_subscribe"]


def test_a_function_that_cancels_is_not_awaited() -> None:
    answer, probe = Answer(), ProbeSubscriber[int]()

    def cancelling() -> Awaitable[int]:
        probe.cancel()
        return answer.waiting()

    with VirtualScheduler() as scheduler:
        from_callable(cancelling).subscribe(probe)
        probe.request(1)
        scheduler.run()
    assert answer.calls == 0
    assert probe.signals == ["on_subscribe"]


async def test_a_subscriber_that_raises_ends_the_scope() -> None:
    def refuse(_: int) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await Stream.from_callable(lambda: Answer().waiting()).for_each(refuse)


def test_what_cannot_be_called_is_refused() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"^from_callable\(function\): function must be a function, not 5$"):
        from_callable(wrong)
