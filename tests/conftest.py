"""Settings that hold for all tests."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import pytest
import trio
from hypothesis import settings

# How long one example takes says nothing on a machine that also does other work. `make test-quick` looks at fewer.
settings.register_profile("all", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=40)
settings.load_profile(os.environ.get("RSTREAMS_EXAMPLES", "all"))

# What a script starts in the background ignores SIGINT. Some tests interrupt themselves or what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Spark's workers would otherwise take whatever python3 stands first on the PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# A worker of Spark's that does not reach its JVM within 15 seconds fails the query; on a busy machine it takes longer.
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--conf spark.python.authenticate.socketTimeout=300s pyspark-shell")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests with Spark come first: with several workers one takes them all, and starts one Spark."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


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
    """Let `usefixtures("autojump_clock")` set the clock; pytest-trio itself looks for one among the arguments only."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("trio") is None:
        return
    if "autojump_clock" in item.fixturenames:

        def run(
            test: Callable[[], Awaitable[None]],
            *,
            clock: trio.abc.Clock | None,
            instruments: Sequence[trio.abc.Instrument],
        ) -> None:
            clock_asked_for = item.funcargs["autojump_clock"]
            assert isinstance(clock_asked_for, trio.abc.Clock)
            trio.run(test, clock=clock or clock_asked_for, instruments=instruments)

        item.add_marker(pytest.mark.trio(run=run), append=False)  # ahead of the one that trio_mode has set
