"""Consuming and responding in the background: no thread of the caller's is taken, and stopping is orderly."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import pytest

import rstreams.blocking
from rstreams.blocking import Background, BlockingConnection
from rstreams.errors import LinkDetached
from tests.blocking.conftest import Fixture


def test_consuming_goes_on_until_it_is_stopped(here: Fixture) -> None:
    begun, go, handled = threading.Event(), threading.Event(), list[object]()

    def handle(item: object) -> None:
        begun.set()
        go.wait(10)
        handled.append(item)

    with here.connection.consume_in_background("jobs", handle) as consumer:
        assert consumer.running
        assert repr(consumer) == "<consume('jobs') in the background: running>"
        here.publish("one", "two")
        assert begun.wait(10)
        stopping = threading.Thread(target=consumer.stop)
        stopping.start()
        go.set()
        stopping.join(10)
        assert not stopping.is_alive()
    assert not consumer.running
    assert consumer.error is None
    assert repr(consumer) == "<consume('jobs') in the background: ended>"
    consumer.wait()
    consumer.stop()
    here.jobs_once(lambda now: now.accepted == len(handled) and now.unsettled == 0 and now.consumers == 0)


def test_a_stream_that_ends_ends_it(here: Fixture) -> None:
    items: list[int] = []
    consumer = here.connection.consume_in_background("few", items.append)
    consumer.wait()
    assert items == [0, 1, 2]


def test_a_failure_is_raised_to_who_waits(here: Fixture) -> None:
    consumer = here.connection.consume_in_background("nowhere", print)
    with pytest.raises(LinkDetached, match="nowhere"):
        consumer.wait(10)
    assert isinstance(consumer.error, LinkDetached)
    assert "failed: " in repr(consumer)
    consumer.stop()


def test_a_failure_that_nobody_waits_for_is_logged(here: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    logged = threading.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "consume('nowhere') in the background has failed" in record.getMessage():
                logged.set()

    heard = Heard()
    logging.getLogger("rstreams.blocking").addHandler(heard)
    try:
        here.connection.consume_in_background("nowhere", print)
        assert logged.wait(10)
    finally:
        logging.getLogger("rstreams.blocking").removeHandler(heard)


def test_waiting_has_a_limit(here: Fixture) -> None:
    with here.connection.consume_in_background("jobs", print) as consumer:
        with pytest.raises(TimeoutError):
            consumer.wait(0)
        with pytest.raises(ValueError, match="timeout_s=-1"):
            consumer.wait(-1)


def test_responding_in_the_background(here: Fixture) -> None:
    def answer(request: str) -> str:
        return request.upper()

    with (
        here.connection.respond_in_background("jobs", answer) as responder,
        here.connection.requester("jobs") as requester,
    ):
        assert requester.request("hello") == "HELLO"
        assert isinstance(responder, Background)


def test_consumers_in_the_background_leave_asyncio_its_threads(here: Fixture) -> None:
    """Six of `consume` under `asyncio.to_thread` take the six threads that there are on two cores, for ever."""
    addresses = ["jobs"] * 6

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        consumers = [here.connection.consume_in_background(each, print) for each in addresses]
        done = await asyncio.wait_for(asyncio.to_thread(str, "the seventh call"), 20)
        for consumer in consumers:
            await asyncio.to_thread(consumer.stop)
        return done

    with ThreadPoolExecutor(1) as thread:  # asyncio.run leaves its thread without an event loop
        assert thread.submit(lambda: asyncio.run(main())).result() == "the seventh call"


def test_a_function_that_hides_a_coroutine_is_told_the_one_right_way(here: Fixture) -> None:
    async def handle(_item: object) -> None: ...

    hidden: Any = lambda item: handle(item)  # noqa: E731, PLW0108 - not seen through
    here.publish("job")
    right_way = r"give a plain function, which may block.*asyncio\.run_coroutine_threadsafe"
    with pytest.raises(TypeError, match=right_way):
        here.connection.consume("jobs", hidden)
    with pytest.raises(TypeError, match=right_way):
        here.connection.consume("jobs", handle)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_wrong_name_is_refused_at_the_call(here: Fixture) -> None:
    connection: Any = here.connection
    with pytest.raises(TypeError, match=r"^Connection\.consume\(\) .*'prefetch'; it is called 'window' here"):
        connection.consume_in_background("jobs", print, prefetch=1)
    with pytest.raises(TypeError, match=r"^Connection\.respond\(\) .*'workers'; it is called 'concurrency' here"):
        connection.respond_in_background("jobs", print, workers=1)


def test_the_end_of_the_connection_stops_what_goes_on_and_logs_no_failure(
    here: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    begun, handled = threading.Event(), list[object]()

    def handle(item: object) -> None:
        begun.set()
        handled.append(item)

    with rstreams.blocking.connect(here.url) as connection:
        consumer = connection.consume_in_background("jobs", handle)
        here.publish("one")
        assert begun.wait(10)
    assert not consumer.running
    consumer.wait(10)
    consumer.stop()
    assert handled == ["one"]
    here.jobs_once(lambda now: now.accepted == 1 and now.unsettled == 0)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


WAITS: dict[str, Callable[[BlockingConnection, Background], object]] = {
    "stop": lambda _, background: background.stop(),
    "wait": lambda _, background: background.wait(),
    "the end of its block": lambda _, background: background.__exit__(None, None, None),
    "stop_background": lambda connection, _: connection.stop_background(),
    "drain_and_close": lambda connection, _: connection.drain_and_close(),
}
"""What a handler must not do: it would wait for itself."""


@pytest.mark.parametrize("call", WAITS)
@pytest.mark.parametrize("kind", ["consume_in_background", "respond_in_background"])
def test_a_handler_that_would_wait_for_itself_is_told_so(here: Fixture, kind: str, call: str) -> None:
    errors: Queue[BaseException | None] = Queue()
    known = threading.Event()

    def handle(_: object) -> None:
        known.wait(10)
        try:
            WAITS[call](here.connection, background)
        except BaseException as error:
            errors.put(error)
            return
        errors.put(None)

    background = getattr(here.connection, kind)("jobs", handle)
    known.set()
    here.publish("one")
    error = errors.get(timeout=10)
    assert isinstance(error, RuntimeError)
    assert re.search(r"would wait for itself: a handler of this .* calls it", str(error))
    here.publish("two")
    assert isinstance(errors.get(timeout=10), RuntimeError), "it goes on"
    background.stop()
    assert not background.running


def test_a_handler_may_stop_another_consumer(here: Fixture) -> None:
    stopped = threading.Event()
    other = here.connection.consume_in_background("jobs", print)

    def stop(_: object) -> None:
        other.stop()
        stopped.set()

    with here.connection.consume_in_background("few", stop):
        assert stopped.wait(10)
        assert not other.running


def test_a_handler_of_consume_cannot_drain_its_connection(here: Fixture) -> None:
    def handle(_: object) -> None:
        here.connection.drain_and_close()

    with pytest.raises(RuntimeError, match="a handler of this connection calls it"):
        here.connection.consume("few", handle, on_failure="fail")
