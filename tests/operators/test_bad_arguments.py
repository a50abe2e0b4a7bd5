"""What an operator or source is given in place of a function is refused at the call, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest
import trio

from rstreams import Stream, operators, sources
from rstreams.errors import ConfigError

NUMBERS = sources.range(3)

# each: the name, the option, and a call with something in the function's place
GIVEN: list[tuple[str, str, Callable[[Any], object]]] = [
    *((name, option, partial(getattr(operators, name), NUMBERS)) for name, option in (
        ("all", "predicate"),
        ("any", "predicate"),
        ("concat_map", "function"),
        ("count", "predicate"),
        ("distinct", "key"),
        ("distinct_until_changed", "key"),
        ("do_finally", "function"),
        ("do_on_cancel", "function"),
        ("do_on_complete", "function"),
        ("do_on_error", "function"),
        ("do_on_next", "function"),
        ("do_on_request", "function"),
        ("do_on_subscribe", "function"),
        ("expand", "function"),
        ("buffer_until", "predicate"),
        ("filter", "predicate"),
        ("first", "predicate"),
        ("flat_map", "function"),
        ("group_by", "key"),
        ("last", "predicate"),
        ("map", "function"),
        ("map_blocking", "function"),
        ("max", "key"),
        ("min", "key"),
        ("on_error_complete", "predicate"),
        ("on_error_map", "function"),
        ("on_error_resume", "handler"),
        ("on_overflow_drop", "on_drop"),
        ("on_overflow_latest", "on_drop"),
        ("on_overflow_reduce", "function"),
        ("skip_while", "predicate"),
        ("switch_map", "function"),
        ("take_while", "predicate"),
        ("to_dict", "key"),
    )),
    ("merge_sorted", "key", lambda given: operators.merge_sorted(NUMBERS, key=given)),
    ("on_overflow_buffer", "on_drop", lambda given: operators.on_overflow_buffer(NUMBERS, 5, on_drop=given)),
    ("parallel", "function", lambda given: operators.parallel(NUMBERS, 2, given)),
    ("partition", "key", lambda given: operators.partition(NUMBERS, given, 2)),
    ("reduce", "accumulator", lambda given: operators.reduce(NUMBERS, given, 0)),
    ("scan", "accumulator", lambda given: operators.scan(NUMBERS, given, 0)),
    ("retry", "predicate", lambda given: operators.retry(NUMBERS, predicate=given)),
    ("retry_backoff", "predicate", lambda given: operators.retry_backoff(NUMBERS, 2, predicate=given)),
    ("to_dict", "value", lambda given: operators.to_dict(NUMBERS, str, given)),
    ("defer", "make", sources.defer),
    ("generate", "step", lambda given: sources.generate(0, given)),
    ("using", "acquire", lambda given: sources.using(given, lambda _: NUMBERS)),
    ("using", "use", lambda given: sources.using(trio.CancelScope, given)),
]  # fmt: skip
each = pytest.mark.parametrize(("name", "option", "call"), GIVEN, ids=[f"{name}-{option}" for name, option, _ in GIVEN])


async def asynchronous(*_: object) -> bool:
    return False


class Asynchronous:
    async def __call__(self, *_: object) -> bool:
        return False

    async def method(self, *_: object) -> bool:
        return False


@each
def test_what_cannot_be_called(name: str, option: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\({option}\): {option} must be a function, not 5$"):
        call(5)


@each
def test_an_async_function_that_nobody_would_await(name: str, option: str, call: Callable[[Any], object]) -> None:
    for function in (asynchronous, partial(asynchronous, 1), Asynchronous(), Asynchronous().method):
        with pytest.raises(
            TypeError, match=rf"^{name}\({option}\): {option} must not be an async function, but .* is one: "
        ):
            call(function)


def generates(*_: object) -> Iterator[int]:
    yield 1


async def generates_later(*_: object) -> AsyncIterator[int]:
    yield 1


class Generates:
    def __call__(self, *_: object) -> Iterator[int]:
        yield 1

    async def method(self, *_: object) -> AsyncIterator[int]:
        yield 1


DROPS = {"filter", "take_while", "skip_while", "do_on_next", "do_on_error", "do_on_complete", "do_finally", "retry"}


@pytest.mark.parametrize(("name", "option", "call"), [given for given in GIVEN if given[0] in DROPS])
def test_a_generator_where_its_result_is_dropped(name: str, option: str, call: Callable[[Any], object]) -> None:
    for function in (generates, generates_later, partial(generates, 1), Generates(), Generates().method):
        text = rf"^{name}\({option}\): {option} must not be a generator function, but .* is one: avoid `yield`$"
        with pytest.raises(TypeError, match=text):
            call(function)


async def test_generators_that_a_stage_emits_are_items() -> None:
    assert await Stream.of(1, 2).map(generates).map(list).to_list() == [[1], [1]]


async def test_a_generator_is_no_function_for_each_or_to_be_awaited() -> None:
    for function in (generates, generates_later):
        with pytest.raises(TypeError, match=r"^for_each\(function\): function must not be a generator function, but "):
            await Stream.of(1).for_each(function)
        with pytest.raises(TypeError, match=r"^map_async\(function\): function must not be a generator function, but "):
            Stream.of(1).map_async(function)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"^for_each\(function\): function returned a generator that nobody would "):
            await Stream.of(1).for_each(lambda item, function=function: function(item))


@pytest.mark.parametrize(("name", "option"), [("map_async", "function")])
def test_where_it_is_awaited_it_must_still_be_a_function(name: str, option: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\({option}\): {option} must be a function, not 5$"):
        getattr(operators, name)(NUMBERS, 5)
    with pytest.raises(TypeError, match=r"^unfold\(step\): step must be a function, not 5$"):
        sources.unfold(0, cast("Any", 5))


def test_it_says_what_to_use_instead() -> None:
    with pytest.raises(TypeError, match=r"is one: use map_async$"):
        Stream.range(3).map_blocking(asynchronous)
    with pytest.raises(TypeError, match=r"is one: do the slow part in map_async before it, and give a plain function"):
        Stream.range(3).filter(asynchronous)
    with pytest.raises(TypeError, match=r"is one: use unfold$"):
        Stream.generate(0, asynchronous)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2.0, "3", True])
def test_a_count_is_a_whole_number(count: Any) -> None:  # noqa: ANN401 - a wrong one
    with pytest.raises(ConfigError, match=r"^take\(count=.*\): count must be 0 or more items, a whole number$"):
        Stream.range(3).take(count)


def test_what_counts_no_items_is_not_called_items() -> None:
    with pytest.raises(ConfigError, match=r"concurrency must be 1 or more$"):
        Stream.range(3).map_async(asynchronous, concurrency=0)
    with pytest.raises(ConfigError, match=r"workers must be 1 or more$"):
        Stream.range(3).parallel(0, lambda stream: stream)
    with pytest.raises(ConfigError, match=r"index must be 0 or more$"):
        Stream.range(3).element_at(-1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Stream.range, r"range\(start\): start must be a whole number, not '5'"),
        (lambda wrong: Stream.range(0, wrong), r"range\(stop\): stop must be a whole number, not '5'"),
        (lambda wrong: Stream.range(0, 9, wrong), r"range\(step\): step must be a whole number, not '5'"),
        (Stream.fail, r"fail\(error\): error must be an exception, not '5'"),
        (
            lambda _: Stream.from_iterable(cast("Any", 5)),
            r"from_iterable\(iterable\): iterable must be iterable, not 5",
        ),
        (
            lambda _: Stream.from_async_iterable(cast("Any", [5])),
            r"from_async_iterable\(iterable\): iterable must be async iterable, not \[5\]; from_iterable takes",
        ),
    ],
    ids=["range start", "range stop", "range step", "fail", "from_iterable", "from_async_iterable"],
)
def test_a_source_names_what_it_cannot_use(call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{text}"):
        call("5")


def test_a_function_that_makes_an_async_iterable_is_told_to_be_called() -> None:
    async def numbers() -> Any:  # noqa: ANN401
        yield 1

    wrong: Any = numbers
    with pytest.raises(TypeError, match=r"must be async iterable, not <function .*>; call it"):
        Stream.from_async_iterable(wrong)
    with pytest.raises(TypeError, match=r"must be iterable, not <async_generator .*>; from_async_iterable takes"):
        Stream.from_iterable(numbers())
