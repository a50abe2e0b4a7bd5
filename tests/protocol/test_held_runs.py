"""Items that a publisher hands over in runs with their holds: it must show in nothing but speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._core.claims import DONE, NO_HOLD, NOTHING, Claims, Ending, Settles, no_claims
from rstreams._core.claims import RELEASED as GIVEN_BACK
from rstreams._core.run import Run
from rstreams.abc import Hold, Subscription
from rstreams.errors import DeliveryFailed
from rstreams.message import decode_body, encode_item
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED
from rstreams.protocol.frames import Disposition, Settlement, Transfer
from rstreams.protocol.outgoing_holds import WaitingClaims
from rstreams.protocol.unsettled import UnsettledLimits
from tests.protocol.played import LOST, REJECTED, PlayedSender


class Told:
    """A hold that tells how it ends."""

    def __init__(self, item: Any, told: list[Any]) -> None:  # noqa: ANN401 - an item
        self.item, self.told = item, told

    def done(self) -> None:
        self.told.append((self.item, "done"))

    def fail(self, error: BaseException) -> None:
        self.told.append((self.item, type(error).__name__))

    def release(self) -> None:
        self.told.append((self.item, "release"))


class ToldRun(Settles):
    """The source of a run of items, which tells how they end; `runs` has those that are done together."""

    def __init__(self, told: list[Any], runs: list[list[Any]]) -> None:
        self.told, self.runs = told, runs

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:
        assert epoch == 0
        if how is DONE:
            self.runs.append(list(places))
        word = {DONE: "done", GIVEN_BACK: "release"}.get(how) if isinstance(how, str) else type(how).__name__
        self.told += [(item, word) for item in places]


class Runs:
    """A publisher that hands over runs, when the test says so."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.runs: list[list[Any]] = []
        self.requested = 0
        self.cancelled = False
        self.subscriber: Any = None

    def subscribe(self, subscriber: Any) -> None:  # noqa: ANN401 - it takes runs
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.requested += n

    def cancel(self) -> None:
        self.cancelled = True

    def hold(self) -> Hold:
        return Told(self.current, self.told)

    def send(self, *items: Any) -> None:  # noqa: ANN401 - items
        run = Run(ToldRun(self.told, self.runs), 0, list(items), iter(list(items)))
        self.subscriber.on_run(run)
        run.close()

    def send_one(self, item: Any) -> None:  # noqa: ANN401 - an item
        self.current = item
        self.subscriber.on_next(item)


def sending(credit: int = 20, **options: Any) -> tuple[Runs, PlayedSender]:  # noqa: ANN401 - of the sender
    source = Runs()
    assert isinstance(source, Subscription)
    played = PlayedSender(publisher=source, publish=False, **options)
    played.grant(credit)
    assert source.requested == credit
    return source, played


def accept(played: PlayedSender, *tags: range) -> None:
    played.driver.receive(*(Disposition(each, ACCEPTED) for each in tags))


def test_a_run_is_sent_whole_and_accepted_in_one_call() -> None:
    source, played = sending()
    source.send(1, 2, 3)
    assert played.driver.awake
    played.driver.turn()
    assert [len(frame.payloads) for frame in played.driver.sent if isinstance(frame, Transfer)] == [3]
    assert played.end.unsettled == 3
    accept(played, range(3))
    assert source.runs == [[1, 2, 3]]
    assert (played.end.unsettled, played.end.accepted) == (0, 3)


def test_the_parts_of_a_run_are_accepted_as_they_come() -> None:
    source, played = sending()
    source.send(1, 2, 3, 4, 5)
    source.send(6, 7)
    played.driver.turn()
    accept(played, range(1), range(1, 4), range(4, 6), range(6, 7))
    assert source.runs == [[1], [2, 3, 4], [5], [6], [7]]
    assert played.end.unsettled == 0


def test_an_item_that_is_not_accepted_has_its_own_outcome() -> None:
    source, played = sending()
    source.send(1, 2, 3, 4)
    source.send(5, 6)
    played.driver.turn()
    played.settle(RELEASED, 1)
    played.settle(FAILED, 2)
    accept(played, range(1))
    accept(played, range(3, 6))
    assert source.told == [(2, "release"), (3, "DeliveryFailed"), (1, "done"), (4, "done"), (5, "done"), (6, "done")]
    assert played.end.unsettled == 0


def test_items_that_are_accepted_before_those_in_front_of_them_are_done_and_the_others_wait() -> None:
    source, played = sending()
    source.send(1, 2, 3, 4)
    played.driver.turn()
    accept(played, range(2, 4))
    assert source.told == [(3, "done"), (4, "done")]
    assert (played.end.unsettled, played.end.accepted, played.end.late) == (2, 2, 0)
    accept(played, range(2))
    assert source.told[2:] == [(1, "done"), (2, "done")]
    assert (played.end.unsettled, played.end.accepted, played.end.late) == (0, 4, 0)


def test_an_item_by_itself_goes_behind_a_run_of_bytes_that_is_held_as_it_is() -> None:
    source, played = sending(encode=encode_item)
    source.send(b"one", b"x" * 300)
    source.send_one(3)
    source.send_one(b"four")
    played.driver.turn()
    (frame,) = (frame for frame in played.driver.sent if isinstance(frame, Transfer))
    assert [decode_body(payload) for payload in frame.encoded().payloads] == [b"one", b"x" * 300, 3, b"four"]
    accept(played, range(4))
    assert source.told == [(b"one", "done"), (b"x" * 300, "done"), (3, "done"), (b"four", "done")]


def test_behind_deliveries_that_are_known_one_by_one_runs_are_settled_as_runs() -> None:
    source, played = sending()
    source.send(1, 2, 3)
    played.driver.turn()
    played.settle(RELEASED, 1)  # 1 and 3 are known by themselves from now on
    source.send(4, 5)
    played.driver.turn()
    accept(played, range(3, 4))
    assert source.told == [(2, "release"), (4, "done")]
    accept(played, range(1), range(2, 3), range(4, 5))
    assert source.told[2:] == [(1, "done"), (3, "done"), (5, "done")]
    source.send(6, 7)
    played.driver.turn()
    source.send_one(8)
    played.driver.turn()
    source.send(9, 10)
    played.driver.turn()
    accept(played, range(5, 10))
    assert source.runs[-1] == [9, 10]
    assert played.end.unsettled == 0


def test_single_items_and_runs_keep_their_order() -> None:
    source, played = sending()
    source.send_one(1)
    source.send(2, 3)
    source.send_one(4)
    played.driver.turn()
    assert played.transferred == [1, 2, 3, 4]
    accept(played, range(4))
    assert source.told == [(1, "done"), (2, "done"), (3, "done"), (4, "done")]


def test_what_is_sent_settled_is_done_at_once() -> None:
    source, played = sending(settlement=Settlement.AT_MOST_ONCE)
    source.send(1, 2)
    assert source.runs == [[1, 2]]
    played.driver.turn()
    assert played.transferred == [1, 2]
    assert played.end.accepted == 2


def test_an_item_that_cannot_be_encoded_ends_the_stream_behind_those_before_it() -> None:
    source, played = sending()
    source.send(1, 2, "three", 4, 5)
    assert source.told == [("three", "TypeError"), (4, "release"), (5, "release")]
    played.driver.turn()
    assert played.transferred == [1, 2]
    assert source.cancelled
    assert played.end.unencodable
    assert played.detach is not None
    assert played.finished == []


@pytest.mark.parametrize("settlement", [Settlement.AT_LEAST_ONCE, Settlement.AT_MOST_ONCE])
@pytest.mark.parametrize("end", ["complete", "error"])
def test_an_item_that_cannot_be_encoded_ends_a_stream_that_ends_in_the_same_run(
    end: str, settlement: Settlement
) -> None:
    source, played = sending(settlement=settlement, expose_errors=True)
    waiting = iter((1, "two", 3))

    def make() -> Iterator[Any]:
        yield from waiting
        if end == "complete":
            source.subscriber.on_complete()
        else:
            source.subscriber.on_error(ValueError("later"))

    run = Run(ToldRun(source.told, source.runs), 0, [1, "two", 3], make(), waiting=waiting)
    source.subscriber.on_run(run)
    run.close()
    outcome = "TypeError" if settlement is Settlement.AT_LEAST_ONCE else "done"
    played.driver.turn()
    accept(played, range(1))
    assert sorted(source.told, key=repr) == sorted([(1, "done"), ("two", outcome), (3, "release")], key=repr)
    assert played.transferred == [1]
    assert played.end.unencodable
    assert played.detach is not None
    assert "cannot be encoded" in played.detach.description


@pytest.mark.parametrize("close", ["abort", "leave"])
def test_items_of_a_run_in_which_this_side_closes_are_given_back_or_sent(close: str) -> None:
    source, played = sending()
    waiting = iter((1, 2, 3))

    def make() -> Iterator[Any]:
        for item in waiting:
            if item == 3:
                getattr(played.end, close)()
                return
            yield item

    run = Run(ToldRun(source.told, source.runs), 0, [1, 2, 3], make(), waiting=waiting)
    source.subscriber.on_run(run)
    run.close()
    played.driver.turn()
    if close == "leave":
        assert played.transferred == [1, 2]
        accept(played, range(2))
    ended = "release" if close == "abort" else "done"
    assert sorted(source.told) == [(1, ended), (2, ended), (3, "done")]
    assert played.end.unsettled == 0


def test_a_run_that_crosses_the_end_is_given_back() -> None:
    source, played = sending()
    played.end.abort()
    source.send(1, 2)
    assert source.told == [(1, "release"), (2, "release")]


def test_the_loss_of_the_link_gives_back_what_was_not_settled() -> None:
    source, played = sending()
    source.send(1, 2, 3)
    played.driver.turn()
    accept(played, range(1))
    played.driver.waiting = 1
    source.send(4)
    played.driver.lose(LOST)
    assert source.told == [(1, "done"), (2, "ConnectionLost"), (3, "ConnectionLost"), (4, "release")]


def test_the_bound_of_unsettled_items_sends_a_part_of_a_run() -> None:
    source = Runs()
    played = PlayedSender(publisher=source, publish=False, unsettled=UnsettledLimits(size=4))
    played.grant(20)
    source.send(1)
    played.driver.turn()
    assert source.requested == 4
    source.send(50, 51, 52)
    played.driver.turn()
    assert played.transferred == [1, 50]
    accept(played, range(2))
    assert played.transferred == [1, 50, 51, 52]
    assert source.runs == [[1], [50]]
    accept(played, range(2, 4))
    assert source.runs == [[1], [50], [51, 52]]


@given(st.lists(st.integers(0, 5), max_size=12), st.lists(st.integers(1, 8), max_size=12))
def test_waiting_holds_are_taken_in_their_order(puts: list[int], takes: list[int]) -> None:
    waiting, expected, told = WaitingClaims(), list[int](), list[Any]()
    for size in puts:
        items = [len(expected) + at for at in range(size)]
        if size == 1:
            waiting.append(Told(items[0], told))
        else:
            waiting.put(Claims(ToldRun(told, []), 0, items))
        expected += items
    taken: list[Any] = []
    for count in takes:
        count = min(count, len(expected) - len(taken))  # noqa: PLW2901
        for run in waiting.take(count):
            taken += [item_of(hold) for hold in run.each()]
        assert len(waiting) == len(expected) - len(taken)
    assert taken == expected[: len(taken)]
    assert [item_of(hold) for hold in waiting.take_all()] == expected[len(taken) :]


def item_of(hold: Hold) -> Any:  # noqa: ANN401 - an item
    if isinstance(hold, Told):
        return hold.item
    assert isinstance(hold, Claims)
    (item,) = hold.places
    return item


def test_items_without_holds_are_a_run_of_nothing() -> None:
    run = no_claims(5)
    assert (len(run.cut(2)), len(run), len(run.cut(7)), len(run)) == (2, 3, 3, 0)
    run.done()
    assert list(no_claims(5).each()) == [NO_HOLD] * 5


def test_a_rejected_item_of_a_run_ends_a_publication() -> None:
    source = Runs()
    played = PlayedSender(publisher=source)
    played.grant(10)
    source.send(1, 2, 3)
    played.driver.turn()
    played.settle(REJECTED, 1)
    assert source.cancelled
    accept(played, range(1), range(2, 3))
    assert source.told == [(2, "DeliveryFailed"), (1, "done"), (3, "done")]
    assert played.detach is not None
    played.driver.receive(type(played.detach)())
    assert isinstance(played.finished[0], DeliveryFailed)


def test_a_run_that_several_links_get_is_encoded_once() -> None:
    items, made = [b"one", {"two": 2}, b"x" * 2000], dict[Any, Any]()
    sources, frames = [Runs(), Runs()], list[Transfer]()
    for source in sources:
        played = PlayedSender(publisher=source, publish=False, encode=encode_item)
        played.grant(20)
        source.subscriber.on_run(Run(NOTHING, 0, range(3), iter(items), made=made))
        played.driver.turn()
        frames += [frame for frame in played.driver.sent if isinstance(frame, Transfer)]
    first, second = frames
    assert [decode_body(payload) for payload in first.payloads] == [b"one", {"two": 2}, b"x" * 2000]
    assert all(one is other for one, other in zip(first.payloads, second.payloads, strict=True))


def test_what_comes_in_a_shared_run_before_an_item_that_cannot_be_encoded_is_sent() -> None:
    source = Runs()
    played = PlayedSender(publisher=source, publish=False, encode=encode_item)
    played.grant(20)
    source.subscriber.on_run(Run(NOTHING, 0, range(3), iter([b"one", object(), b"three"]), made={}))
    played.driver.turn()
    (frame,) = (frame for frame in played.driver.sent if isinstance(frame, Transfer))
    assert [decode_body(payload) for payload in frame.payloads] == [b"one"]
    assert played.end.unencodable
