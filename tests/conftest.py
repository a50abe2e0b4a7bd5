"""Settings that hold for all tests."""

import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import pytest
import trio

from rstreams._core import contexts
from rstreams.runtime.seldom import LINES_OF_THREADS
from tests.generated_examples import load_settings
from tests.small_spark import set_environment

load_settings()

# What a script starts in the background ignores SIGINT. Some tests interrupt themselves or what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

set_environment()

_HOW_OFTEN_GARBAGE_IS_COLLECTED = gc.get_threshold()

# The contracts of the operators are inherited, not collected: without this their assertions would fail without a text.
pytest.register_assert_rewrite("tests.operators")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests for several workers: the first has all tests that share one Spark, and no long test comes last.

    Each worker of pytest-xdist begins with an equal part of the list. The first has the tests with Spark, the last has
    the slow ones. A worker without tests takes some from the end of another worker's part.
    """
    items.sort(key=_place)


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over the tests themselves: they are a million objects."""
    gc.collect()
    gc.freeze()


def _place(item: pytest.Item) -> int:
    if item.get_closest_marker("spark") is not None:
        return 0 if "spark" in getattr(item, "fixturenames", ()) else 1
    if item.get_closest_marker("slow") is None:
        return 2
    return 3 if item.get_closest_marker("timeout") is not None else 4  # tests that take the longest have a time limit


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape what is no text: some tests log halves of surrogate pairs, and a worker could not send such a report."""
    return _sendable((yield))


def _sendable(part: Any) -> Any:  # noqa: ANN401 - a report is any of these
    match part:
        case str():
            return part.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {_sendable(key): _sendable(value) for key, value in part.items()}
        case list() | tuple():
            return type(part)(map(_sendable, part))
        case _:
            return part


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let `usefixtures` with a virtual clock set it; pytest-trio itself looks for one among the arguments only."""
    LINES_OF_THREADS.forget()  # the same line of an earlier test is no reason to count one
    if not isinstance(item, pytest.Function) or item.get_closest_marker("trio") is None:
        return
    virtual = next((name for name in ("autojump_clock", "mock_clock") if name in item.fixturenames), None)
    if virtual is not None:

        def run(
            test: Callable[[], Awaitable[None]],
            *,
            clock: trio.abc.Clock | None,
            instruments: Sequence[trio.abc.Instrument],
        ) -> None:
            clock_asked_for = item.funcargs[virtual]
            assert isinstance(clock_asked_for, trio.abc.Clock)
            trio.run(test, clock=clock or clock_asked_for, instruments=instruments)

        item.add_marker(pytest.mark.trio(run=run), append=False)  # ahead of the one that trio_mode has set


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Set back what is for a whole process: what a command sets for its own, and that traces are on."""
    logging.getLogger("rstreams").setLevel(logging.NOTSET)
    gc.set_threshold(*_HOW_OFTEN_GARBAGE_IS_COLLECTED)
    contexts.carry(None)
