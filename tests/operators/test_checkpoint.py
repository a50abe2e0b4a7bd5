from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from rstreams import Stream
from rstreams.operators.checkpoint import checkpoint
from rstreams.sources.fail import fail
from rstreams.testing import ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestCheckpoint(OperatorContract):
    build = checkpoint
    model = list
    requests = ((1, [1]), (5, [5]))


def _line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_an_error_tells_where_the_stream_was_put_together() -> None:
    error = LookupError()
    publisher, line = checkpoint(fail(error), "prices"), _line()
    probe = ProbeSubscriber[object](1)
    publisher.subscribe(probe)
    assert probe.error is error
    assert error.__notes__ == [f"rstreams checkpoint 'prices' at {Path(__file__)}:{line}"]


async def test_through_the_methods_of_stream_it_is_the_line_of_the_program() -> None:
    stream, line = Stream(fail(LookupError())).checkpoint().map(str), _line()
    with pytest.raises(LookupError) as caught:
        await stream.to_list()
    assert caught.value.__notes__ == [f"rstreams checkpoint at {Path(__file__)}:{line}"]
