from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.errors import ConfigError
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.of import of
from rstreams.sources.using import using
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract


class Room:
    """A resource: tells in `log` when it was entered and left, and by what error."""

    def __init__(self, *, enter: Exception | None = None, leave: Exception | None = None) -> None:
        self.log: list[Any] = []
        self._enter = enter
        self._leave = leave

    @contextmanager
    def plain(self) -> Iterator[str]:
        if self._enter is not None:
            raise self._enter
        self.log.append("entered")
        try:
            yield "room"
        except BaseException as error:
            self.log.append(error)
            raise
        finally:
            self.log.append("left")
            if self._leave is not None:
                raise self._leave

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[str]:
        with self.plain() as room:
            yield room


Manager = AbstractContextManager[str] | AbstractAsyncContextManager[str]
KINDS: dict[str, Callable[[Room], Callable[[], Manager]]] = {
    "plain": lambda room: room.plain,
    "async": lambda room: room.waiting,
}
both = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
Kind = Callable[[Room], Callable[[], Manager]]


@pytest.fixture
def scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


class _Contract(OperatorContract):
    """`using` over a source does to its items what an operator does that passes all on."""

    model = staticmethod(lambda items: items)  # type: ignore[assignment]
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


class TestUsing(_Contract):
    build = staticmethod(lambda source: using(Room().plain, lambda _: source))  # type: ignore[assignment]


class _Settling(ManualPublisher[int]):
    """Lets the task run that ends the stream."""

    def __init__(self, settle: Callable[[], None]) -> None:
        super().__init__()
        self._settle = settle

    def error(self, error: BaseException) -> None:
        super().error(error)
        self._settle()

    def complete(self) -> None:
        super().complete()
        self._settle()


class TestUsingAsync(_Contract):
    build = staticmethod(lambda source: using(Room().waiting, lambda _: source))  # type: ignore[assignment]
    scheduler: VirtualScheduler

    @pytest.fixture(autouse=True)
    def _with_scheduler(self, scheduler: VirtualScheduler) -> None:
        self.scheduler = scheduler

    def settle(self) -> None:
        self.scheduler.run()

    def subscribe(
        self, request: int = UNBOUNDED, *, hold: bool = False, on_item: Callable[[Any], object] | None = None
    ) -> tuple[ManualPublisher[int], ProbeSubscriber[Any]]:
        source, probe = _Settling(self.settle), ProbeSubscriber[Any](request, hold=hold, on_item=on_item)
        type(self).build(source).subscribe(probe)
        self.settle()
        return source, probe


# the resource


def _use(room: Room, publisher: Publisher[int]) -> Callable[[str], Publisher[int]]:
    def use(entered: str) -> Publisher[int]:
        assert entered == "room"
        room.log.append("used")
        return publisher

    return use


class Logging(ProbeSubscriber[int]):
    """Writes its signals into the log of the room."""

    def __init__(self, room: Room, request: int = UNBOUNDED) -> None:
        super().__init__(request)
        self._log = room.log

    def on_next(self, item: int) -> None:
        super().on_next(item)
        self._log.append(item)

    def on_error(self, error: BaseException) -> None:
        super().on_error(error)
        self._log.append("failed")

    def on_complete(self) -> None:
        super().on_complete()
        self._log.append("completed")


def _run(scheduler: VirtualScheduler, kind: Kind, room: Room, publisher: Publisher[int]) -> Logging:
    probe = Logging(room)
    using(kind(room), _use(room, publisher)).subscribe(probe)
    scheduler.run()
    assert scheduler.running == 0
    return probe


@both
def test_it_is_given_back_before_the_completion(scheduler: VirtualScheduler, kind: Kind) -> None:
    room = Room()
    _run(scheduler, kind, room, of(1, 2))
    assert room.log == ["entered", "used", 1, 2, "left", "completed"]


@both
def test_it_is_given_back_when_nothing_was_emitted(scheduler: VirtualScheduler, kind: Kind) -> None:
    room = Room()
    _run(scheduler, kind, room, empty())
    assert room.log == ["entered", "used", "left", "completed"]


@both
def test_it_sees_the_error_of_the_stream_and_is_given_back_before_it(scheduler: VirtualScheduler, kind: Kind) -> None:
    room, error = Room(), LookupError()
    probe = _run(scheduler, kind, room, fail(error))
    assert room.log == ["entered", "used", error, "left", "failed"]
    assert probe.error is error


@both
def test_it_is_given_back_once_on_a_cancel(scheduler: VirtualScheduler, kind: Kind) -> None:
    room, source, probe = Room(), ManualPublisher[int](), ProbeSubscriber[int](1)
    using(kind(room), _use(room, source)).subscribe(probe)
    scheduler.run()
    source.next(1)
    assert room.log == ["entered", "used"]
    probe.cancel()
    probe.cancel()
    source.error(LookupError("late"))
    source.complete()
    scheduler.run()
    assert source.cancelled
    assert room.log == ["entered", "used", "left"]
    assert probe.signals == ["on_subscribe", "on_next"]
    assert scheduler.running == 0


@both
def test_each_subscriber_has_its_own(scheduler: VirtualScheduler, kind: Kind) -> None:
    room = Room()
    publisher = using(kind(room), _use(room, of(1)))
    for _ in range(2):
        publisher.subscribe(Logging(room))
        scheduler.run()
    assert room.log == ["entered", "used", 1, "left", "completed"] * 2


@both
def test_nothing_is_acquired_without_a_subscriber(kind: Kind) -> None:
    room, nobody = Room(), None
    with pytest.raises(TypeError, match=r"1\.9"):
        using(kind(room), _use(room, of(1))).subscribe(nobody)  # type: ignore[arg-type]
    assert room.log == []


# what fails


@both
def test_what_entering_raises_is_the_error(scheduler: VirtualScheduler, kind: Kind) -> None:
    error = LookupError()
    room = Room(enter=error)
    probe = _run(scheduler, kind, room, of(1))
    assert probe.error is error
    assert room.log == ["failed"]


@both
def test_what_use_raises_is_the_error(scheduler: VirtualScheduler, kind: Kind) -> None:
    room, error = Room(), LookupError()

    def use(_: str) -> Publisher[int]:
        raise error

    probe = Logging(room)
    using(kind(room), use).subscribe(probe)
    scheduler.run()
    assert probe.error is error
    assert probe.signals == ["on_subscribe", "on_error"]
    assert room.log == ["entered", error, "left", "failed"]


@both
def test_use_must_return_a_stream(scheduler: VirtualScheduler, kind: Kind) -> None:
    room = Room()
    nothing: Any = None
    probe = _run(scheduler, kind, room, nothing)
    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == "using(use): use must return a Publisher, an iterable or an async iterable, not None"
    assert room.log == ["entered", "used", probe.error, "left", "failed"]


@both
def test_what_leaving_raises_takes_the_place_of_the_completion(scheduler: VirtualScheduler, kind: Kind) -> None:
    error = LookupError()
    room = Room(leave=error)
    probe = _run(scheduler, kind, room, of(1))
    assert probe.items == [1]
    assert probe.error is error
    assert not probe.completed


@both
def test_what_leaving_raises_has_the_error_of_the_stream_as_context(scheduler: VirtualScheduler, kind: Kind) -> None:
    before, error = ValueError(), LookupError()
    probe = _run(scheduler, kind, Room(leave=error), fail(before))
    assert probe.error is error
    assert error.__context__ is before


@both
def test_what_leaving_raises_after_a_cancel_is_logged(
    scheduler: VirtualScheduler, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    error = LookupError()
    probe = ProbeSubscriber[int](1)
    using(kind(Room(leave=error)), lambda _: ManualPublisher[int]()).subscribe(probe)
    scheduler.run()
    probe.cancel()
    scheduler.run()
    assert probe.signals == ["on_subscribe"]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


class Forgiving:
    """Suppresses every error, plainly or not."""

    def __enter__(self) -> str:
        return "room"

    def __exit__(self, *_: object) -> bool:
        return True


class ForgivingLater:
    async def __aenter__(self) -> str:
        return "room"

    async def __aexit__(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize("acquire", [Forgiving, ForgivingLater])
@pytest.mark.parametrize("fails", ["source", "use"])
def test_an_error_cannot_be_suppressed(scheduler: VirtualScheduler, acquire: Callable[[], Manager], fails: str) -> None:
    error = LookupError()

    def use(_: str) -> Publisher[int]:
        if fails == "use":
            raise error
        return fail(error)

    probe = ProbeSubscriber[int](1)
    using(acquire, use).subscribe(probe)
    scheduler.run()
    assert probe.error is error
    assert probe.signals == ["on_subscribe", "on_error"]


@pytest.mark.parametrize("acquired", [None, 7, "room"])
def test_acquire_must_return_a_context_manager(acquired: Any) -> None:  # noqa: ANN401 - anything that is none
    probe = ProbeSubscriber[int](1)
    using(lambda: acquired, lambda _: of(1)).subscribe(probe)
    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == f"using(acquire): acquire must return a context manager, not {acquired!r}"


def test_what_acquire_raises_is_the_error() -> None:
    error = LookupError()

    def acquire() -> Manager:
        raise error

    probe = ProbeSubscriber[int](1)
    using(acquire, lambda _: of(1)).subscribe(probe)
    assert probe.error is error
    assert probe.signals == ["on_subscribe", "on_error"]


def test_an_async_one_needs_a_scheduler() -> None:
    room, probe = Room(), ProbeSubscriber[int](1)
    using(room.waiting, lambda _: of(1)).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
    assert "using needs a scheduler" in str(probe.error)
    assert room.log == []


# who else raises


def test_a_subscriber_that_raises_in_the_task_ends_the_scope(scheduler: VirtualScheduler) -> None:
    """Even if the context manager would suppress it."""

    def refuse(item: int) -> None:
        raise ArithmeticError(item)

    using(ForgivingLater, lambda _: of(1)).subscribe(ProbeSubscriber[int](1, on_item=refuse))
    with pytest.raises(ArithmeticError, match="1"):
        scheduler.run()
    assert scheduler.running == 0


class Broken:
    """A publisher that raises where it must not."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def subscribe(self, _: Subscriber[int]) -> None:
        raise self._error


def test_it_is_given_back_when_subscribing_raises() -> None:
    room, error = Room(), ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        using(room.plain, lambda _: Broken(error)).subscribe(ProbeSubscriber[int](1))
    assert room.log == ["entered", "left"]


def test_subscribing_that_raises_in_the_task_is_the_error(scheduler: VirtualScheduler) -> None:
    room, error = Room(), ZeroDivisionError()
    probe = _run(scheduler, KINDS["async"], room, Broken(error))
    assert probe.error is error
    assert room.log == ["entered", "used", error, "left", "failed"]


def test_it_is_given_back_when_use_is_interrupted() -> None:
    room = Room()

    def use(_: str) -> Publisher[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        using(room.plain, use).subscribe(ProbeSubscriber[int](1))
    assert room.log[-1] == "left"


@pytest.mark.parametrize("ends", ["complete", "error"])
def test_a_cancel_while_it_is_given_back(ends: str) -> None:
    log: list[str] = []

    @contextmanager
    def room() -> Iterator[None]:
        try:
            yield
        finally:
            log.append("left")
            probe.cancel()

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    using(room, lambda _: source).subscribe(probe)
    source.complete() if ends == "complete" else source.error(LookupError())
    assert log == ["left"]
    assert probe.signals == ["on_subscribe"]
    assert not source.cancelled


# the time before the publisher is there


def test_requests_before_an_async_one_is_entered_add_up(scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    using(Room().waiting, lambda _: source).subscribe(probe)
    probe.request(3)
    assert source.subscriptions == 0
    scheduler.run()
    assert source.requests == [5]


@pytest.mark.parametrize("then", [[], [1]])
def test_a_cancel_before_an_async_one_is_entered_never_uses_it(
    scheduler: VirtualScheduler, then: Sequence[int]
) -> None:
    room, probe = Room(), ProbeSubscriber[int](1)
    using(room.waiting, _use(room, of(*then))).subscribe(probe)
    probe.cancel()
    scheduler.run()
    assert "used" not in room.log
    assert room.log in ([], ["entered", "left"])
    assert probe.signals == ["on_subscribe"]
    assert scheduler.running == 0


def test_a_cancel_in_on_subscribe_starts_no_task(scheduler: VirtualScheduler) -> None:
    class CancelsAtOnce(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    room = Room()
    using(room.waiting, _use(room, of(1))).subscribe(CancelsAtOnce())
    assert scheduler.running == 0
    assert room.log == []


# under trio


@both
async def test_the_end_of_the_scope_gives_it_back(kind: Kind) -> None:
    room = Room()
    async with Stream.using(kind(room), lambda _: Stream.never()).open():
        await trio.testing.wait_all_tasks_blocked()
        assert room.log == ["entered"]
    assert room.log[-1] == "left"
    assert room.log.count("left") == 1


async def test_it_may_wait_while_it_is_entered_and_left(autojump_clock: trio.testing.MockClock) -> None:
    log: list[tuple[float, str]] = []

    @asynccontextmanager
    async def slow() -> AsyncIterator[str]:
        await trio.sleep(1)
        log.append((trio.current_time(), "entered"))
        yield "room"
        await trio.sleep(1)
        log.append((trio.current_time(), "left"))

    began = trio.current_time()
    assert await Stream.using(slow, Stream.of).to_list() == ["room"]
    assert [(round(at - began), what) for at, what in log] == [(1, "entered"), (2, "left")]
