"""Publishers whose items the sending end draws many at a time: it must show in nothing but speed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.demand import SLICE
from rstreams.node.served import Served
from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Settlement, Transfer
from rstreams.testing import VirtualScheduler
from tests.protocol.played import REJECTED, PlayedSender


def served(items: Any) -> Served[Any]:  # noqa: ANN401 - what a Stream is made of
    return Served("items", Stream.from_iterable(items))


def numbers(closed: list[str], *, then: Exception | None = None, most: int = 1 << 30) -> Iterator[int]:
    try:
        yield from range(most)
        if then is not None:
            raise then
    finally:
        closed.append("closed")


def test_items_are_drawn_as_far_as_there_is_credit_and_no_further() -> None:
    source = count()
    played = PlayedSender(publisher=served(source))
    played.grant(5)
    played.grant(7)
    assert played.transferred == list(range(12))
    assert next(source) == 12
    assert (played.end.ledger.owed, played.end.ledger.held) == (0, 0)


def test_a_slice_is_drawn_at_a_time() -> None:
    played = PlayedSender(publisher=served(count()), settlement=Settlement.AT_MOST_ONCE)
    played.grant(3 * SLICE)
    assert max(len(frame.payloads) for frame in played.driver.sent if isinstance(frame, Transfer)) <= SLICE
    assert played.transferred == list(range(3 * SLICE))


@pytest.mark.parametrize("items", [[1, 2, 3], (1, 2, 3), range(1, 4)])
def test_a_list_is_complete_with_its_last_item(items: Any) -> None:  # noqa: ANN401
    address = served(items)
    played = PlayedSender(publisher=address, settlement=Settlement.AT_MOST_ONCE, publish=False)
    played.grant(3)
    assert played.transferred == [1, 2, 3]
    assert played.detach is not None
    assert address.statistics().completed == 1


def test_an_iterator_is_complete_with_the_credit_behind_its_last_item() -> None:
    closed: list[str] = []
    played = PlayedSender(publisher=served(numbers(closed, most=3)), publish=False)
    played.grant(3)
    assert (played.transferred, played.detach, closed) == ([0, 1, 2], None, [])
    played.grant(1)
    assert played.detach is not None
    assert closed == ["closed"]


@pytest.mark.parametrize("steps", [False, True])
def test_what_an_iterator_raises_ends_the_stream_behind_what_came_before_it(*, steps: bool) -> None:
    closed: list[str] = []
    stream = Stream.from_iterable(numbers(closed, then=KeyError("broken"), most=3))
    address = Served("items", stream.map(lambda item: item + 1) if steps else stream)
    played = PlayedSender(publisher=address, publish=False, expose_errors=True)
    played.grant(9)
    assert played.transferred == ([1, 2, 3] if steps else [0, 1, 2])
    assert played.detach is not None
    assert played.detach.description == "KeyError: 'broken'"
    assert address.statistics().failed == 1
    assert address.statistics().delivered == 3
    assert closed == ["closed"]


def test_what_cannot_be_encoded_ends_the_stream_behind_what_came_before_it() -> None:
    address = served([1, 2, "three", 4])  # the list is complete when this shows
    played = PlayedSender(publisher=address, publish=False, expose_errors=True)
    played.grant(9)
    assert played.transferred == [1, 2]
    assert played.detach is not None
    assert "'three' cannot be encoded" in played.detach.description


def test_a_generator_is_closed_when_the_receiver_goes() -> None:
    closed: list[str] = []
    address = served(numbers(closed))
    played = PlayedSender(publisher=address)
    played.grant(3)
    played.end.abort()
    assert closed == ["closed"]
    assert (address.statistics().cancelled, address.statistics().delivered) == (1, 3)


@pytest.mark.parametrize("steps", [False, True])
def test_nothing_is_drawn_behind_the_item_whose_making_ended_the_stream(*, steps: bool) -> None:
    drawn: list[int] = []

    def ending() -> Iterator[int]:
        for number in range(9):
            drawn.append(number)
            if number == 2:
                played.end.abort()
            yield number

    stream = Stream.from_iterable(ending())
    played = PlayedSender(publisher=stream.map(lambda item: item) if steps else stream)
    played.grant(9)
    assert drawn == [0, 1, 2]
    assert played.transferred == []
    assert played.detach is not None


def test_items_and_what_steps_drop_are_counted() -> None:
    stream = Stream.from_iterable(range(100)).filter(lambda item: item % 2 == 0)
    address = Served("items", stream)
    played = PlayedSender(publisher=address)
    played.grant(10)
    assert played.transferred == list(range(0, 20, 2))
    assert address.statistics().delivered == 10


def test_slow_items_go_out_as_they_come_and_leave_others_their_turn() -> None:
    class Clock(VirtualScheduler):
        time = 0.0

        def now(self) -> float:
            return self.time

    clock = Clock()

    def slow() -> Iterator[int]:
        for number in range(40):
            clock.time += 0.004
            yield number

    with clock:
        played = PlayedSender(publisher=served(slow()))
        played.driver.wire = 40
        played.end.work()
        first = len(played.transferred)
        played.driver.turn()
    assert first <= 3, "a turn is 5 ms"
    assert played.transferred == list(range(40))
    assert played.end.ledger.owed == 0


def test_accepted_and_rejected_items_are_counted() -> None:
    played = PlayedSender(publisher=served(range(9)), publish=False)
    played.grant(5)
    played.settle(ACCEPTED, 0, 1, 77)
    played.settle(REJECTED, 2)
    played.settle(ACCEPTED, 3)
    assert (played.end.accepted, played.end.late, played.end.unsettled) == (3, 1, 1)
