"""StreamVerifier: what it lets pass, and what it says when something else comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

from rstreams import Stream
from rstreams.operators.map import map as map_
from rstreams.operators.map_async import map_async
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, StreamVerifier, VirtualScheduler, cold, expect_marbles


def test_items_and_completion() -> None:
    StreamVerifier(of(1, 2, 3)).expect_subscription().expect_next(1).expect_next(2, 3).expect_complete().verify()


def test_demand_step_by_step() -> None:
    (
        StreamVerifier(range_(4), request=1)
        .expect_next(0)
        .expect_no_event(10)
        .then_request(2)
        .expect_next_count(2)
        .then_request(5)
        .expect_next_matches(lambda x: x == 3)
        .expect_complete()
        .verify()
    )


def test_time_is_virtual() -> None:
    (
        StreamVerifier(cold("a----b|"))
        .expect_next("a")
        .expect_no_event(4.5)
        .then_await(0.5)
        .expect_next("b")
        .then_await(1)
        .expect_complete()
        .verify()
    )


def test_an_error() -> None:
    StreamVerifier(fail(LookupError("no such room"))).expect_error(LookupError, match="room").verify()


def test_a_cancel_and_what_another_part_does() -> None:
    source = ManualPublisher[int]()
    StreamVerifier(source).then(lambda: source.next(1)).expect_next(1).then_cancel().verify()
    assert source.cancelled


def test_it_goes_on_in_the_time_of_the_test() -> None:
    with VirtualScheduler() as scheduler:
        StreamVerifier(never()).expect_no_event(7).then_cancel().verify()
        assert scheduler.now() == 7


def test_tasks_run_without_a_step() -> None:
    async def doubled(x: int) -> int:
        return 2 * x

    StreamVerifier(map_async(of(1, 2), doubled)).expect_next(2, 4).expect_complete().verify()


FAILURES: dict[str, tuple[Callable[[], None], str]] = {
    "another item": (
        lambda: StreamVerifier(of(1, 2)).expect_next(1).expect_next(3).expect_complete().verify(),
        r"step 2, expect_next\(3\): expected on_next\(3\), and on_next\(2\) at 0 s came; before that came on_subscr",
    ),
    "no item": (
        lambda: StreamVerifier(ManualPublisher[int]()).expect_next(1).then_cancel().verify(),
        r"step 1, .* and nothing came",
    ),
    "an end": (
        lambda: StreamVerifier(of(1)).expect_next_count(2).then_cancel().verify(),
        r"expected item 2 of 2, and on_complete\(\) at 0 s came",
    ),
    "an item refused": (
        lambda: StreamVerifier(of(1)).expect_next_matches(lambda x: x > 1).expect_complete().verify(),
        r"an item that <lambda> accepts, and on_next\(1\)",
    ),
    "an event": (
        lambda: StreamVerifier(cold("-a|")).expect_no_event(2).then_cancel().verify(),
        r"expected no signal for 2 s, and on_next\('a'\) at 1 s came",
    ),
    "another error": (
        lambda: StreamVerifier(fail(LookupError("x"))).expect_error(ValueError).verify(),
        r"expected on_error\(ValueError\), and on_error\(LookupError\('x'\)\)",
    ),
    "another text": (
        lambda: StreamVerifier(fail(LookupError("x"))).expect_error(LookupError, match="y").verify(),
        r"matching 'y'",
    ),
    "too many": (
        lambda: StreamVerifier(of(1, 2), request=1).expect_next(1).then_request(1).then_cancel().verify(),
        r"the end of the script: expected no further signal, and on_next\(2\)",
    ),
    "completion instead of an error": (
        lambda: StreamVerifier(of()).expect_error().verify(),
        r"expected on_error\(BaseException\), and on_complete\(\)",
    ),
    "no subscription": (
        lambda: StreamVerifier(_Silent()).expect_subscription().then_cancel().verify(),
        r"step 1, expect_subscription\(\): expected on_subscribe\(\), and nothing came; before that came nothing",
    ),
}


class _Silent:
    def subscribe(self, subscriber: object) -> None: ...


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_says_which_step_what_was_expected_and_what_came(name: str) -> None:
    verify, message = FAILURES[name]
    with pytest.raises(AssertionError, match=message):
        verify()


def test_a_script_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="expect_complete"):
        StreamVerifier(of(1)).expect_next(1).verify()


def test_a_failing_function_is_an_error_like_any_other() -> None:
    StreamVerifier(map_(of(1), lambda x: x // 0)).expect_error(ZeroDivisionError).verify()


def test_a_step_that_waits_for_time_is_told_how_to_move_the_clock() -> None:
    script = StreamVerifier(Stream.timer(5.0)).expect_next(0).expect_complete()
    with pytest.raises(AssertionError, match=r"nothing came; .*put then_await\(5\) before it, for the next timer$"):
        script.verify()
    with pytest.raises(AssertionError, match=r"and nothing came; before that came on_subscribe\(\) at 0 s$"):
        StreamVerifier(Stream.never()).expect_next_count(1).expect_complete().verify()


async def _sleeps_in_asyncio(item: int) -> int:
    await asyncio.sleep(1.0)
    return item


async def _sleeps_in_trio(item: int) -> int:
    await trio.sleep(1.0)
    return item


@pytest.mark.parametrize("sleeps", [_sleeps_in_asyncio, _sleeps_in_trio])
def test_a_function_that_needs_a_loop_is_told_what_has_one(sleeps: Callable[[int], Awaitable[int]]) -> None:
    stream = Stream.range(1).map_async(sleeps)
    told = r"this test has no event loop: .*rstreams\.testing\.VirtualTimeLoop.*trio\.testing\.MockClock"
    with pytest.raises(AssertionError, match=told):
        StreamVerifier(stream).expect_next(0).expect_complete().verify()
    with pytest.raises(AssertionError, match=told):
        expect_marbles(stream, "-0|", values={"0": 0})


def test_inside_of_a_loop_it_is_told_the_same() -> None:
    async def main() -> None:
        stream = Stream.range(1).map_async(_sleeps_in_asyncio)
        with pytest.raises(TypeError, match=r"its events only, .*rstreams\.testing\.VirtualTimeLoop"):
            StreamVerifier(stream).expect_next(0).expect_complete().verify()

    with ThreadPoolExecutor(1) as thread:  # asyncio.run leaves its thread without an event loop
        thread.submit(lambda: asyncio.run(main())).result()
