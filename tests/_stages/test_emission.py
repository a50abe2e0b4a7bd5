"""The loop over an iterator: it draws what was requested, ends once, and closes what it opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rstreams._stages.emission import IteratorPublisher
from rstreams.errors import DemandError
from rstreams.testing import ProbeSubscriber


class Drawn:
    """An iterator that counts what is drawn, and whether its `finally` block has run."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.drawn = 0
        self.closed = False

    def __call__(self) -> Iterator[int]:
        try:
            for i in range(self.end):
                self.drawn += 1
                yield i
        finally:
            self.closed = True


def test_nothing_is_drawn_that_was_not_requested() -> None:
    numbers, probe = Drawn(5), ProbeSubscriber[int](2)
    IteratorPublisher[int](numbers).subscribe(probe)
    assert (numbers.drawn, probe.items) == (2, [0, 1])
    probe.cancel()
    assert numbers.closed


def test_a_list_completes_with_its_last_item_and_a_generator_with_the_next_request() -> None:
    of_list, of_generator = ProbeSubscriber[int](2), ProbeSubscriber[int](2)
    IteratorPublisher[int](lambda: iter([1, 2])).subscribe(of_list)
    IteratorPublisher[int](Drawn(2)).subscribe(of_generator)
    assert (of_list.completed, of_generator.completed) == (True, False)
    of_generator.request(1)
    assert of_generator.completed


def test_a_request_from_inside_does_not_recurse() -> None:
    depth = [0]

    def ask(_: int) -> None:
        depth[0] += 1
        assert depth[0] == 1
        probe.request(1)
        depth[0] -= 1

    probe = ProbeSubscriber[int](1, on_item=ask)
    IteratorPublisher[int](lambda: iter(range(1000))).subscribe(probe)
    assert probe.items == list(range(1000))


def test_an_iterator_that_fails_ends_the_stream_behind_its_items() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise ValueError

    probe = ProbeSubscriber[int](5)
    IteratorPublisher[int](fail).subscribe(probe)
    assert probe.items == [1]
    assert isinstance(probe.error, ValueError)


def test_an_iterator_that_cannot_be_made_fails_the_subscription() -> None:
    def refuse() -> Iterator[int]:
        raise OSError

    probe = ProbeSubscriber[int](1)
    IteratorPublisher[int](refuse).subscribe(probe)
    assert isinstance(probe.error, OSError)


def test_an_invalid_request_ends_it() -> None:
    numbers, probe = Drawn(5), ProbeSubscriber[int]()
    IteratorPublisher[int](numbers).subscribe(probe)
    probe.request(0)
    assert isinstance(probe.error, DemandError)
    assert numbers.drawn == 0


def test_a_subscriber_that_raises_ends_it_and_its_caller_gets_the_error() -> None:
    def refuse(_: int) -> None:
        raise KeyError

    numbers, probe = Drawn(5), ProbeSubscriber[int](on_item=refuse)
    IteratorPublisher[int](numbers).subscribe(probe)
    with pytest.raises(KeyError):
        probe.request(1)
    assert (numbers.closed, probe.ended) == (True, False)
