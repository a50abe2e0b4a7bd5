"""A subscriber in another thread than that of a shared run is refused, and the others do not notice."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio

from rstreams import Scope, Stream
from rstreams.errors import RStreamsError, SpecViolation
from rstreams.testing import ManualPublisher, ProbeSubscriber

SHARED: dict[str, Callable[[Stream[int]], Stream[int]]] = {
    "share": lambda stream: stream.share(),
    "cache": lambda stream: stream.cache(),
    "ref_count": lambda stream: stream.publish().ref_count(),
    "auto_connect": lambda stream: stream.publish().auto_connect(),
    "broadcast": lambda stream: stream.broadcast(subscribers=1),
    "distribute": lambda stream: stream.distribute(subscribers=1),
}


@pytest.mark.parametrize("kind", SHARED)
def test_a_subscriber_of_another_thread_is_refused(kind: str) -> None:
    source = ManualPublisher[int]()
    shared = SHARED[kind](Stream(source))
    here = ProbeSubscriber[int](5)
    shared.subscribe(here)
    refused: list[str] = []

    def there() -> None:
        with pytest.raises(SpecViolation) as caught:
            shared.subscribe(ProbeSubscriber[int](5))
        refused.append(str(caught.value))

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    assert "subscribe() was called in thread" in refused[0]
    assert "the shared run belongs to thread 'MainThread'" in refused[0]
    source.next(1)
    assert here.items == [1]


@pytest.mark.parametrize("kind", ["cache", "auto_connect"])
async def test_a_run_without_subscribers_belongs_to_the_thread_of_its_loop(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    shared = SHARED[kind](Stream.interval(1))
    await shared.take(2).to_list()

    async def there() -> None:
        await shared.take(1).to_list()

    with pytest.raises(SpecViolation, match="the shared run belongs to thread 'MainThread'"):
        await trio.to_thread.run_sync(trio.run, there)
    assert len(await shared.take(4).to_list()) == 4, "nobody holds it up"


@pytest.mark.parametrize("call", ["connect", "cancel"])
def test_connect_and_cancel_in_another_thread_are_refused(call: str) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
    published = Stream(source).publish()
    published.subscribe(probe)
    refused = published.connect if call == "connect" else published.connect().cancel
    errors: list[str] = []

    def there() -> None:
        with pytest.raises(SpecViolation) as caught:
            refused()
        errors.append(str(caught.value))

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    assert f"{call}() was called in thread" in errors[0]

    connection = published.connect()
    source.next(1)
    assert probe.items == [1]
    connection.cancel()
    assert isinstance(probe.error, RStreamsError)
    published.connect()
    assert source.subscriptions == 2


async def test_a_run_without_subscribers_is_cancelled_in_the_thread_of_its_loop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    published = Stream.interval(1).publish()
    async with Scope():
        connection = published.connect()
    with pytest.raises(SpecViolation, match="the shared run belongs to thread 'MainThread'"):
        await trio.to_thread.run_sync(connection.cancel)
    assert await published.take(2).to_list() == [0, 1]
    connection.cancel()
