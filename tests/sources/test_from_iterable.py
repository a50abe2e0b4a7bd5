"""from_iterable: when it draws an item, and who closes what it iterates over."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rstreams import sources
from rstreams._core.demand import UNBOUNDED
from rstreams.testing import ProbeSubscriber


def test_an_iterator_is_gone_through_once() -> None:
    publisher = sources.from_iterable(iter([1, 2, 3]))
    first, second = ProbeSubscriber[int](2), ProbeSubscriber[int](UNBOUNDED)

    publisher.subscribe(first)
    publisher.subscribe(second)

    assert first.items == [1, 2]
    assert second.items == [3]


def test_no_item_is_drawn_before_it_is_requested() -> None:
    drawn = []

    def numbers() -> Iterator[int]:
        for n in range(10):
            drawn.append(n)
            yield n

    probe = ProbeSubscriber[int](3)
    sources.from_iterable(numbers()).subscribe(probe)

    assert drawn == [0, 1, 2]


def test_what_cannot_be_iterated_after_all_fails() -> None:
    class NoIterable:
        __iter__: Any = 5

    no_iterable: Any = NoIterable()
    probe = ProbeSubscriber[Any]()

    sources.from_iterable(no_iterable).subscribe(probe)

    assert isinstance(probe.error, TypeError)
    assert probe.signals == ["on_subscribe", "on_error"]


class ClosingNumbers:
    """A generator function that notes when its generators are closed."""

    def __init__(self, failure: BaseException | None = None, close_failure: BaseException | None = None) -> None:
        self.closed = 0
        self.failure = failure
        self.close_failure = close_failure

    def __call__(self) -> Iterator[int]:
        try:
            yield 0
            yield 1
            if self.failure is not None:
                raise self.failure
            yield 2
        finally:
            self.closed += 1
            if self.close_failure is not None:
                raise self.close_failure


def test_what_the_iteration_raises_is_the_error() -> None:
    failure = ValueError("broken")
    probe = ProbeSubscriber[int](UNBOUNDED)

    sources.from_iterable(ClosingNumbers(failure)()).subscribe(probe)

    assert probe.items == [0, 1]
    assert probe.error is failure
    assert probe.signals[-1] == "on_error"


def test_an_interruption_of_the_iteration_is_no_signal() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)

    with pytest.raises(KeyboardInterrupt):
        sources.from_iterable(ClosingNumbers(KeyboardInterrupt())()).subscribe(probe)

    assert not probe.ended
    probe.request(1)
    assert probe.items == [0, 1]


@pytest.mark.parametrize("inside", [True, False])
def test_a_generator_is_closed_by_a_cancel(*, inside: bool) -> None:
    numbers = ClosingNumbers()
    kept = numbers()  # a reference of our own: nobody else may wait for it to be garbage
    probe = ProbeSubscriber[int](on_item=lambda _: probe.cancel() if inside else None)
    sources.from_iterable(kept).subscribe(probe)

    probe.request(1)
    if not inside:
        assert numbers.closed == 0
        probe.cancel()

    assert numbers.closed == 1


def test_a_generator_is_closed_when_on_next_raises() -> None:
    def refuse(item: int) -> None:
        raise ValueError(item)

    numbers = ClosingNumbers()
    kept = numbers()
    with pytest.raises(ValueError, match="0"):
        sources.from_iterable(kept).subscribe(ProbeSubscriber[int](1, on_item=refuse))

    assert numbers.closed == 1


def test_what_closing_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    failure = ValueError("while closing")
    probe = ProbeSubscriber[int](1)
    kept = ClosingNumbers(close_failure=failure)()
    sources.from_iterable(kept).subscribe(probe)

    probe.cancel()

    assert not probe.ended
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("rstreams", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is failure


def test_an_iterator_that_cancels_and_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def numbers() -> Iterator[int]:
        probe.cancel()
        yield 1 // 0

    probe = ProbeSubscriber[int]()
    sources.from_iterable(numbers()).subscribe(probe)

    probe.request(1)

    assert probe.signals == ["on_subscribe"]
    assert "an iterator failed" in caplog.text


def test_a_file_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthree\n")
    with path.open() as lines:
        sources.from_iterable(lines).subscribe(ProbeSubscriber[str](1, on_item=lambda _: None))
        probe = ProbeSubscriber[str](1)
        sources.from_iterable(lines).subscribe(probe)
        probe.cancel()
        assert not lines.closed
        assert probe.items == ["two\n"]
