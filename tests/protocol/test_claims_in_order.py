"""A consumer that takes items one after the other: what the peer hears of each, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from rstreams._core.claims_in_order import gather
from rstreams.abc import Hold
from rstreams.protocol.delivery import ACCEPTED, END, FAILED, RELEASED, FailureStrategy, Outcome, reject
from rstreams.protocol.frames import Disposition
from rstreams.sinks.buffer_sink import BufferSink
from tests.protocol.played import LOST, PlayedReceiver, decode


class Consumer:
    """Takes batches from a sink and gives their items out, as `OpenItems` and the loops of threads do."""

    def __init__(
        self, window: int = 8, *, decode: Callable[[bytes], int] = decode, on_failure: FailureStrategy = END
    ) -> None:
        self.rings = 0
        self.sink = BufferSink[int](self._ring, window)
        self.played = PlayedReceiver(probe=cast("Any", self.sink), decode=decode, on_failure=on_failure, window=16)
        self.batch: Iterator[int] = iter(())
        self.played.driver.turn()

    def _ring(self) -> None:
        self.rings += 1

    def next(self, most: int = 64) -> int | None:
        """Ask for the next item."""
        for item in self.batch:
            if self.sink.untold:
                self.sink.tell()
            return item
        if not self.sink.want():
            return None
        self.batch, _ = self.sink.take(most)
        return next(self.batch)

    def comes(self, items: int) -> None:
        self.played.transfer(items)
        self.played.driver.turn()

    @property
    def outcomes(self) -> dict[Any, Any]:
        """What the peer has heard when the link has had its turn, if it wants one."""
        if self.played.driver.awake:
            self.played.driver.turn()
        return self.played.outcomes


def test_a_run_rings_once() -> None:
    consumer = Consumer()
    consumer.comes(4)
    assert consumer.rings == 1
    assert [consumer.next() for _ in range(5)] == [0, 1, 2, 3, None]


def test_the_peer_hears_of_an_item_when_the_next_one_is_in_hand_and_the_link_has_its_turn() -> None:
    consumer = Consumer()
    consumer.comes(4)
    assert (consumer.next(), consumer.outcomes) == (0, {})
    assert (consumer.next(), consumer.outcomes) == (1, {0: ACCEPTED})
    assert (consumer.next(), consumer.next(), consumer.outcomes) == (2, 3, dict.fromkeys(range(3), ACCEPTED))
    assert (consumer.next(), consumer.outcomes) == (None, dict.fromkeys(range(4), ACCEPTED))
    assert consumer.played.end.ledger.unsettled == 0


def test_the_link_is_woken_once_for_many_items() -> None:
    consumer = Consumer(window=16)
    consumer.comes(8)
    consumer.played.driver.awake = False
    consumer.next()
    assert consumer.next() == 1
    assert consumer.played.driver.awake
    consumer.played.driver.awake = False
    assert [consumer.next() for _ in range(5)] == [2, 3, 4, 5, 6]
    assert not consumer.played.driver.awake
    consumer.played.driver.turn()
    assert consumer.played.outcomes == dict.fromkeys(range(6), ACCEPTED)


def test_the_batches_that_were_given_out_since_the_last_turn_of_the_link_are_settled_together() -> None:
    consumer = Consumer()
    consumer.comes(8)  # small runs at first
    assert [consumer.next() for _ in range(9)] == [*range(8), None]
    consumer.played.driver.turn()
    consumer.comes(8)
    consumer.played.driver.take_sent()
    assert [consumer.next(2) for _ in range(7)] == list(range(8, 15))
    consumer.played.driver.turn()
    settled = [frame.deliveries for frame in consumer.played.driver.sent if isinstance(frame, Disposition)]
    assert settled == [list(range(8, 14))]


@pytest.mark.parametrize("turns", [False, True])
def test_an_item_that_cannot_be_decoded_comes_behind_settled_batches(*, turns: bool) -> None:
    def decode_some(payload: bytes) -> int:
        if payload == b"5":
            raise ZeroDivisionError
        return int(payload)

    consumer = Consumer(decode=decode_some, on_failure=FailureStrategy(reject, ends=False))
    consumer.comes(8)
    for number in (0, 1, 2, 3, 4, 6, 7):
        assert consumer.next(2) == number
        if turns:
            consumer.played.driver.turn()
    consumer.sink.close(None)
    kinds = [consumer.outcomes[number].kind for number in range(8)]
    assert kinds == ["accepted"] * 5 + ["rejected"] + ["accepted"] * 2


def test_kept_and_outstanding_items_are_never_more_than_the_window() -> None:
    consumer = Consumer(window=8)
    assert consumer.played.driver.wire == 8
    consumer.comes(8)
    for taken in range(1, 4):
        consumer.next()
        assert consumer.played.end.counts().requested == 8, taken
    consumer.next()
    assert consumer.played.end.counts().requested == 12
    consumer.played.driver.turn()
    consumer.comes(4)
    assert [consumer.next() for _ in range(4)] == [4, 5, 6, 7]
    assert consumer.played.end.counts().requested == 16


def test_a_window_of_one_asks_for_an_item_when_it_is_wanted() -> None:
    consumer = Consumer(window=1)
    consumer.comes(1)
    assert consumer.next() == 0
    assert consumer.played.end.counts().requested == 1
    assert consumer.next() is None
    assert consumer.played.end.counts().requested == 2


@pytest.mark.parametrize("error", [None, LookupError()])
def test_at_the_close_the_item_in_hand_is_done_or_failed_and_the_others_are_given_back(error: Exception | None) -> None:
    consumer = Consumer()
    consumer.comes(5)
    consumer.next()
    consumer.next()
    consumer.sink.close(error)
    in_hand = ACCEPTED if error is None else FAILED
    assert consumer.outcomes == {0: ACCEPTED, 1: in_hand, 2: RELEASED, 3: RELEASED, 4: RELEASED}
    assert consumer.played.end.ledger.unsettled == consumer.played.end.ledger.buffered == 0


def test_at_the_close_nothing_fails_that_is_not_in_hand() -> None:
    consumer = Consumer()
    consumer.comes(2)
    assert [consumer.next() for _ in range(3)] == [0, 1, None]
    consumer.comes(1)
    consumer.sink.close(LookupError())
    assert consumer.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: RELEASED}


def test_an_item_that_cannot_be_decoded_does_not_move_the_claims_on_the_others() -> None:
    def odd_is_unreadable(payload: bytes) -> int:
        item = decode(payload)
        if item % 2:
            raise ValueError(item)
        return item

    def odd_is_rejected(error: BaseException) -> Outcome:
        return reject(error) if isinstance(error, ValueError) else FAILED

    consumer = Consumer(decode=odd_is_unreadable, on_failure=FailureStrategy(odd_is_rejected))
    consumer.comes(6)
    assert [consumer.next() for _ in range(3)] == [0, 2, 4]
    consumer.sink.close(LookupError())
    kinds = {tag: outcome.kind for tag, outcome in consumer.outcomes.items()}
    given = {0: "accepted", 1: "rejected", 2: "accepted", 3: "rejected", 4: "modified"}
    assert kinds == {**given, 5: "released"}  # it was never wanted, and therefore not decoded


def with_second_held() -> tuple[Consumer, list[Hold]]:
    """Return a consumer, and the hold that somebody else takes on the second item; items come one by one."""
    holds: list[Hold] = []

    def hold_the_second(payload: bytes) -> int:
        if payload == b"1":
            holds.append(consumer.played.end.hold())
        return decode(payload)

    consumer = Consumer(decode=hold_the_second)
    return consumer, holds


def test_an_item_that_somebody_else_holds_keeps_its_place() -> None:
    consumer, holds = with_second_held()
    for _ in range(4):
        consumer.comes(1)
    assert [consumer.next() for _ in range(3)] == [0, 1, 2]
    assert consumer.outcomes == {0: ACCEPTED}
    holds[0].done()
    assert consumer.outcomes == {0: ACCEPTED, 1: ACCEPTED}
    consumer.sink.close(None)
    assert consumer.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: ACCEPTED, 3: RELEASED}


def test_an_item_that_somebody_else_holds_is_given_back_with_the_others() -> None:
    consumer, holds = with_second_held()
    for _ in range(3):
        consumer.comes(1)
    assert consumer.next() == 0
    consumer.sink.close(None)
    assert consumer.outcomes == {0: ACCEPTED, 2: RELEASED}
    holds[0].done()
    assert consumer.outcomes == {0: ACCEPTED, 1: RELEASED, 2: RELEASED}


def test_a_consumer_that_leaves_when_it_is_told_of_items_gives_them_back() -> None:
    class Leaving(Consumer):
        def _ring(self) -> None:
            self.sink.close(None)

    consumer = Leaving()
    consumer.comes(4)
    assert consumer.outcomes == dict.fromkeys(range(4), RELEASED)
    assert consumer.played.end.ledger.unsettled == consumer.played.end.ledger.buffered == 0


def test_the_link_is_woken_once_for_all_consumers_of_its_items() -> None:
    played = PlayedReceiver(request=4, on_item=lambda item: claims[item % 2].keep())
    claims = []
    for _ in range(2):
        gathered = gather(played.end, loose=False)
        assert gathered is not None
        claims.append(gathered)
    played.transfer(4)
    played.driver.awake = False
    woken = []
    for each in claims:
        each.announce(partial(each.done, 2))
        woken.append(played.driver.awake)
        played.driver.awake = False
    assert (woken, played.outcomes) == ([True, False], {})
    played.driver.turn()
    assert played.outcomes == dict.fromkeys(range(4), ACCEPTED)


def test_items_of_a_lost_link_are_settled_and_the_peer_hears_nothing() -> None:
    consumer = Consumer()
    consumer.comes(3)
    consumer.next()
    consumer.played.driver.lose(LOST)
    assert [consumer.next() for _ in range(3)] == [1, 2, None]
    assert consumer.outcomes == {}
    assert (consumer.played.end.late, consumer.played.end.ledger.unsettled) == (3, 0)


def test_items_that_came_settled_have_a_place_and_no_outcome() -> None:
    consumer = Consumer()
    consumer.comes(1)
    consumer.played.transfer(3, settled=True)
    consumer.comes(2)
    assert [consumer.next() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert consumer.outcomes == {0: ACCEPTED}
    consumer.sink.close(None)
    assert consumer.outcomes == {0: ACCEPTED, 4: ACCEPTED, 5: RELEASED}
    assert consumer.played.end.ledger.unsettled == 0
