"""What one tries first and what cannot work: the error says what does."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import reactivex
import reactivex.operators

import rstreams
import rstreams.blocking
from rstreams import Stream
from rstreams._checks.other_names import OURS
from rstreams.errors import ConfigError, NoItem

STREAM: Any = Stream.range(3)


async def test_an_async_loop_over_a_stream() -> None:
    with pytest.raises(TypeError, match=r"opened before the loop: `async with stream\.open\(\) as items:`"):
        async for _ in STREAM:
            pass


async def test_a_plain_loop_over_a_stream() -> None:
    with pytest.raises(TypeError, match=r"plain loop: .*stream\.open\(\).*await stream\.to_list\(\)"):
        list(STREAM)


async def test_a_stream_is_not_awaited() -> None:
    with pytest.raises(TypeError, match=r"cannot be awaited itself: `await stream\.to_list\(\)`"):
        await STREAM


async def test_a_stream_is_opened_for_its_block() -> None:
    with pytest.raises(TypeError, match=r"opened first: `async with stream\.open\(\) as items:`"):
        async with STREAM:
            pass
    with pytest.raises(TypeError, match="opened first"), STREAM:
        pass


async def test_what_open_returns_is_for_async_with() -> None:
    with pytest.raises(TypeError, match=r"used in `async with`: `async with stream\.open\(\)"), STREAM.open():
        pass
    with pytest.raises(TypeError, match="used in `async with`"):
        async for _ in STREAM.open():
            pass
    with pytest.raises(TypeError, match="used in `async with`"):
        await STREAM.open()


async def test_a_stream_that_is_the_one_item_is_not_awaited() -> None:
    assert await Stream.from_callable(lambda: STREAM).to_list() == [STREAM]


@pytest.mark.parametrize("publisher", [STREAM, STREAM.map(str), STREAM.share(), Stream.empty(), Stream.interval(1)])
def test_a_function_is_no_subscriber(publisher: Any) -> None:  # noqa: ANN401 - called wrongly
    with pytest.raises(TypeError, match=r"takes a Subscriber, not <built-in function print>; .*stream\.for_each\(f\)"):
        publisher.subscribe(print)
    with pytest.raises(TypeError, match=r"takes a Subscriber, not 5; a Subscriber has on_subscribe, on_next,"):
        publisher.subscribe(5)
    with pytest.raises(TypeError, match=r"it has no on_subscribe, on_error, on_complete; on_completed is called"):
        publisher.subscribe(_Observer())


class _Observer:
    """What reactivex takes."""

    def on_next(self, item: object) -> None: ...

    def on_completed(self) -> None: ...


def _entered(make: Callable[[], Any]) -> Callable[[], Awaitable[object]]:
    async def enter() -> None:
        async with make():
            raise AssertionError

    return enter


RUNNING: dict[str, Callable[[], Awaitable[object]]] = {
    "connect": _entered(lambda: rstreams.connect("amqp://127.0.0.1:1")),
    "Node": _entered(rstreams.Node),
    "Scope": _entered(rstreams.Scope),
}


@pytest.mark.parametrize("run", RUNNING.values(), ids=RUNNING.keys())
def test_under_asyncio_it_says_what_to_import(run: Callable[[], Awaitable[object]]) -> None:
    async def main() -> None:
        await run()

    # In a thread of its own: asyncio.run leaves its thread without an event loop, which other tests may look for.
    with (
        ThreadPoolExecutor(1) as thread,
        pytest.raises(RuntimeError, match=r"^rstreams runs in trio, and this is a task of asyncio: use rstreams\.aio"),
    ):
        thread.submit(lambda: asyncio.run(main())).result()


async def test_blocking_is_not_for_trio() -> None:
    with (
        pytest.raises(RuntimeError, match=r"^rstreams\.blocking\.connect\(\) blocks .* `async with rstreams\.connect"),
        rstreams.blocking.connect("amqp://127.0.0.1:1"),
    ):
        pass


async def test_a_stop_iteration_is_no_end() -> None:
    def first_of_none(_: int) -> int:
        return next(iter(()))

    streams = STREAM.map(first_of_none)
    for run in (streams.to_list, streams.first_or_none, _read(streams)):
        with pytest.raises(RuntimeError, match=r"^the stream failed with StopIteration, as if a function") as caught:
            await run()
        assert isinstance(caught.value.__cause__, StopIteration)
    with pytest.raises(NoItem):
        await Stream.empty().first().to_list()


def _read(stream: Any) -> Callable[[], Awaitable[object]]:  # noqa: ANN401 - as in the others
    async def read() -> list[Any]:
        async with stream.open() as items:
            return [item async for item in items]

    return read


async def test_flatten_names_itself() -> None:
    with pytest.raises(TypeError, match=r"^flatten\(\): items must be iterable, not 0$"):
        await STREAM.flatten().to_list()


@pytest.mark.parametrize("theirs", sorted(OURS))
def test_another_librarys_name_is_answered_with_ours(theirs: str) -> None:
    for asked in (STREAM, Stream):
        with pytest.raises(AttributeError, match=f"no attribute '{theirs}'; here it is ") as raised:
            getattr(asked, theirs)
        assert raised.value.name == theirs
    ours = re.findall(r"[a-z]+(?:_[a-z]+)*(?:\.[a-z]+)*", OURS[theirs].partition(",")[0].partition("(")[0])
    if ours[0].startswith("rstreams."):
        import_module(ours[0])
    else:
        assert hasattr(Stream, ours[0]), "it is there under that name"


@pytest.mark.parametrize("theirs", [reactivex, reactivex.operators])
def test_every_function_of_reactivex_has_an_answer(theirs: ModuleType) -> None:
    functions = {name for name, value in vars(theirs).items() if inspect.isfunction(value) and name[0] != "_"}
    functions -= {"as_observable", "alias", "overload"}  # the first has no use here, the others are of Python
    assert {name for name in functions if name not in OURS and not hasattr(Stream, name)} == set()


# Without `subscribe`, which costs a run no call more, and `through`, whose function may take anything.
METHODS = sorted(
    name
    for name, method in vars(Stream).items()
    if inspect.isfunction(method) and name[0] != "_" and name not in {"subscribe", "through"}
)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_called_on_the_class_says_so(name: str) -> None:
    wanted = [
        each for each in inspect.signature(getattr(Stream, name)).parameters.values() if each.default is each.empty
    ]
    given = [[1, 2] for each in wanted if each.kind is not each.VAR_POSITIONAL and each.kind is not each.VAR_KEYWORD]
    for arguments in ([], given):
        with pytest.raises(TypeError, match=rf"^Stream\.{name}\(\) is called on a stream, .*not on the class$"):
            _run_if_async(getattr(Stream, name)(*arguments))


def _run_if_async(result: object) -> None:
    if inspect.iscoroutine(result):
        result.send(None)


@pytest.mark.parametrize(
    "combine", ["merge", "concat", "zip", "race", "combine_latest", "merge_sorted", "merge_priority"]
)
def test_streams_are_not_given_as_a_list(combine: str) -> None:
    with pytest.raises(TypeError, match=rf"give the streams one by one: {combine}\(\*streams\)$"):
        getattr(STREAM, combine)([STREAM, STREAM])


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("window", "open(window=1)"),
        ("prefetch", "open(window=1)"),
        ("concurrency", "map_async"),
        ("workers", "map_async"),
    ],
)
@pytest.mark.parametrize("terminal", ["for_each", "to_list", "first_or_none"])
async def test_a_terminal_says_how_less_is_requested(terminal: str, word: str, told: str) -> None:
    with pytest.raises(TypeError, match=rf"argument '{word}'; .*{re.escape(told)}"):
        await getattr(STREAM, terminal)(*[print] * (terminal == "for_each"), **{word: 1})


def test_replay_of_everything_is_cache() -> None:
    with pytest.raises(ConfigError, match=r"^replay\(count=None\): .*; for all items use cache\(\)$"):
        STREAM.replay(None)


def test_a_name_that_nobody_has_is_refused_as_ever() -> None:
    with pytest.raises(AttributeError, match=r"'Stream' object has no attribute 'nonsense'$"):
        _ = STREAM.nonsense
    with pytest.raises(AttributeError, match=r"type object 'Stream' has no attribute 'nonsense'$"):
        _ = type(STREAM).nonsense
    assert not hasattr(STREAM, "tap")
