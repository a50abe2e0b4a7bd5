"""Items that a link hands over before they are decoded: the consumer decodes them with its batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, cast

import pytest

from rstreams._core.claims import NOTHING
from rstreams._core.kept_items import KeptItems
from rstreams._core.run import Run
from rstreams.abc import Hold
from rstreams.protocol.delivery import ACCEPTED, END, FAILED, RELEASED, FailureStrategy, reject
from rstreams.protocol.frames import Detach
from rstreams.sinks.buffer_sink import BufferSink
from tests.protocol.played import LOST, PlayedReceiver, decode


class Loop:
    """Takes items as a loop does, from a link whose payloads in `unreadable` cannot be decoded."""

    def __init__(
        self, *unreadable: int, window: int = 16, on_failure: FailureStrategy = END, error: BaseException | None = None
    ) -> None:
        self.decoded: list[int] = []
        self.unreadable = unreadable
        self.error = error or ValueError("unreadable")
        self.sink = BufferSink[int](lambda: None, window)
        self.played = PlayedReceiver(
            probe=cast("Any", self.sink), decode=self._decode, on_failure=on_failure, window=window
        )
        self.batch: Iterator[int] = iter(())
        self.played.driver.turn()

    def _decode(self, payload: bytes) -> int:
        item = decode(payload)
        if item in self.unreadable:
            raise self.error
        self.decoded.append(item)
        return item

    def comes(self, items: int, *, settled: bool = False) -> None:
        self.played.transfer(items, settled=settled)
        self.played.driver.turn()

    def take(self, most: int = 4) -> list[int]:
        """Ask for items until there are none, and return them."""
        taken: list[int] = []
        while self.sink.want():
            batch, size = self.sink.take(most)
            taken += batch
            assert size <= most
        return taken

    @property
    def outcomes(self) -> dict[Any, Any]:
        self.played.driver.turn()
        return self.played.outcomes

    @property
    def in_hand(self) -> tuple[int, int]:
        return self.played.end.ledger.unsettled, self.played.end.ledger.buffered


def test_an_item_is_decoded_with_its_batch_and_not_when_it_comes() -> None:
    loop = Loop()
    loop.comes(8)
    assert loop.decoded == []
    assert loop.sink.want()
    assert loop.decoded == [0]
    batch, size = loop.sink.take(4)
    assert (size, loop.decoded) == (4, [0, 1, 2, 3])
    assert list(batch) == [0, 1, 2, 3]
    assert loop.take() == [4, 5, 6, 7]
    assert loop.outcomes == dict.fromkeys(range(8), ACCEPTED)
    assert loop.in_hand == (0, 0)


def test_items_that_are_never_taken_are_given_back_without_being_decoded() -> None:
    loop = Loop()
    loop.comes(5)
    assert loop.sink.want()
    batch, _ = loop.sink.take(2)
    assert next(batch) == 0
    loop.sink.close(None)
    assert loop.decoded == [0, 1]
    assert loop.outcomes == {0: ACCEPTED, **dict.fromkeys(range(1, 5), RELEASED)}
    assert loop.in_hand == (0, 0)


@pytest.mark.parametrize("ended", [False, True])
def test_an_item_that_cannot_be_decoded_ends_the_stream_behind_the_items_before_it(ended: bool) -> None:  # noqa: FBT001
    loop = Loop(5)
    loop.comes(8)
    if ended:  # the link has no more signals when the loop gets there
        loop.played.driver.receive(Detach())
        loop.played.driver.turn()
        assert (loop.sink.ended, loop.sink.error) == (True, None)
    assert loop.take() == [0, 1, 2, 3, 4]
    assert loop.sink.error is loop.error
    assert loop.sink.ended
    assert loop.played.end.ended
    assert loop.decoded == [0, 1, 2, 3, 4]
    assert loop.outcomes == {**dict.fromkeys(range(5), ACCEPTED), 5: FAILED, 6: RELEASED, 7: RELEASED}
    assert loop.in_hand == (0, 0)
    assert not loop.sink.want()


def test_behind_an_item_that_cannot_be_decoded_the_stream_may_go_on_and_another_item_comes_in_its_place() -> None:
    told: list[BaseException] = []
    strategy = FailureStrategy(reject, on_undecodable=told.append)
    loop = Loop(0, 3, 4, 7, on_failure=strategy, window=8)
    loop.comes(8)
    assert told == []
    assert loop.sink.want()
    assert told == [loop.error]
    assert loop.take(most=2) == [1, 2, 5, 6]
    assert told == [loop.error] * 4
    kinds = {number: outcome.kind for number, outcome in loop.outcomes.items()}
    assert kinds == {number: "rejected" if number in loop.unreadable else "accepted" for number in range(8)}
    assert loop.played.end.counts().delivered == 4
    assert loop.played.end.counts().outstanding == loop.sink.outstanding
    assert loop.played.driver.wire == 8  # all places are granted again
    loop.comes(8)
    assert loop.take() == list(range(8, 16))


@pytest.mark.parametrize("most", [1, 2, 5, 64])
def test_items_that_came_settled_have_no_outcome(most: int) -> None:
    loop = Loop(2, on_failure=FailureStrategy(reject))
    loop.comes(4, settled=True)
    assert loop.take(most) == [0, 1, 3]
    assert loop.outcomes == {}
    assert loop.in_hand == (0, 0)


def test_items_of_a_lost_link_are_decoded_and_their_outcomes_are_late() -> None:
    loop = Loop(1)
    loop.comes(3)
    loop.played.driver.lose(LOST)
    assert loop.take() == [0]
    assert loop.sink.error is loop.error  # before the loss in the order of the items
    assert (loop.played.end.late, loop.in_hand) == (3, (0, 0))


def test_an_interrupt_of_the_decoder_is_raised_at_once_and_fails_its_item() -> None:
    loop = Loop(2, error=KeyboardInterrupt())
    loop.comes(4)
    assert loop.sink.want()
    with pytest.raises(KeyboardInterrupt):
        loop.sink.take(4)
    assert loop.take() == [0, 1]
    assert loop.sink.error is loop.error
    assert loop.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: FAILED, 3: RELEASED}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LookupError()])
def test_an_error_of_who_is_told_of_items_gives_the_items_back_and_an_interrupt_is_raised(error: BaseException) -> None:
    def ring() -> None:
        raise error

    sink = BufferSink[int](ring, 8)
    played = PlayedReceiver(probe=cast("Any", sink))
    played.driver.turn()
    with nullcontext() if isinstance(error, Exception) else pytest.raises(KeyboardInterrupt):
        played.transfer(3)
    assert played.raised == [error]
    assert played.end.ended
    sink.close(None)
    played.driver.turn()
    assert played.outcomes == dict.fromkeys(range(3), RELEASED)
    assert played.end.ledger.unsettled == played.end.ledger.buffered == 0


def test_what_cannot_be_decoded_when_it_is_wanted_is_forwarded() -> None:
    forwarded: list[int] = []

    def forward(payload: bytes, error: BaseException, hold: Hold) -> None:
        assert isinstance(error, ValueError)
        forwarded.append(decode(payload))
        hold.done()

    loop = Loop(2, on_failure=FailureStrategy(reject, forward=forward))
    loop.comes(4)
    assert (loop.decoded, forwarded) == ([], [])
    assert loop.take() == [0, 1, 3]
    assert forwarded == [2]
    assert loop.outcomes == dict.fromkeys(range(4), ACCEPTED)


def test_kept_items_stay_in_order_whether_they_are_made_or_not() -> None:
    def unmade(*items: int) -> Run[int]:
        waiting = iter(items)
        return Run(NOTHING, 0, range(len(items)), map(int, waiting), waiting=waiting, waits=True)

    kept = KeptItems[int]()
    kept.put([1, 2])
    kept.put_run(unmade(3, 4, 5), None)
    kept.put_run(unmade(), None)
    kept.put(iter([6]))
    kept.put_run(unmade(7), None)
    assert (len(kept.made) + kept.unmade, list(kept.made)) == (7, [1, 2])
    kept.make(4)
    assert (len(kept.made) + kept.unmade, list(kept.made)) == (7, [1, 2, 3, 4])
    kept.make(2)
    assert len(kept.made) == 4
    kept.make(64)
    assert (len(kept.made) + kept.unmade, list(kept.made)) == (7, [1, 2, 3, 4, 5, 6, 7])
    kept.put([8])
    assert kept.made[-1] == 8
    kept.clear()
    assert (len(kept.made) + kept.unmade, kept.made) == (0, type(kept.made)())
