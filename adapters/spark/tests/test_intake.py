"""The intake against a link played by hand, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._intake import ANSWER_WAIT_S, IDLE_WAIT_S, RowIntake, decoder
from rstreams_spark.errors import SourceFailed, UnparsableMessage

from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, LinkDetached, RemoteProtocolError
from rstreams.message import Message
from rstreams.testing.probes import ManualPublisher

BROKEN = RemoteProtocolError("amqp:decode-error", "this is no message")


class PlayedLink(ManualPublisher[Message | RemoteProtocolError]):
    """A link played by the test, which answers a drain with `on_drain`."""

    def __init__(self) -> None:
        super().__init__()
        self.drains: list[Callable[[], None]] = []
        self.on_drain: Callable[[], None] = lambda: None

    def drain(self, on_drained: Callable[[], None]) -> None:
        self.drains.append(on_drained)
        self.on_drain()

    def send(self, *bodies: object) -> None:
        """Send messages; a list stands for bytes that are no message."""
        self.next(*(BROKEN if isinstance(body, list) else Message(body=body) for body in bodies))

    @property
    def unsettled(self) -> int:
        return self.outcomes.count(None)


def linked(limit: int, *, reject: bool = False) -> tuple[PlayedLink, RowIntake]:
    link = PlayedLink()
    intake = RowIntake(limit, reject_unparsable=reject)
    link.subscribe(intake)
    return link, intake


def bodies(messages: list[Message]) -> list[object]:
    return [message.body for message in messages]


async def test_nothing_is_requested_before_the_first_batch(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5)
    assert link.requested == 0
    assert await intake.collect(0, 5, 1.0) == []
    assert link.requested == 5
    assert trio.current_time() == pytest.approx(IDLE_WAIT_S)


async def test_a_full_batch_waits_for_nothing(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(3)
    link.on_request = lambda n: link.send(*[b"x"] * n)
    assert bodies(await intake.collect(0, 3, 60.0)) == [b"x"] * 3
    assert trio.current_time() == 0.0
    assert link.unsettled == 3


async def test_a_batch_that_does_not_fill_is_done_the_delay_after_its_first_message(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(10)

    async def trickle() -> None:
        for body in (b"1", b"2", b"3"):
            await trio.sleep(0.05)
            link.send(body)

    nursery.start_soon(trickle)
    assert bodies(await intake.collect(0, 10, 0.06)) == [b"1", b"2"]
    assert trio.current_time() == pytest.approx(0.11)


async def test_messages_are_settled_when_their_batch_is_committed_and_only_then_replaced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(4)
    link.on_request = lambda n: link.send(*[b"x"] * n)
    assert len(await intake.collect(0, 4, 1.0)) == 4
    assert link.requests == [4]
    assert link.outcomes == [None] * 4
    assert len(await intake.collect(4, 4, 1.0)) == 4
    assert link.requests == [4, 4]
    assert link.outcomes == ["done"] * 4 + [None] * 4


async def test_demand_left_over_from_a_batch_is_not_requested_again(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(10)
    await intake.collect(0, 10, 0.0)
    link.send(b"1", b"2", b"3")
    assert bodies(await intake.collect(0, 10, 0.0)) == [b"1", b"2", b"3"]
    link.send(b"4")  # while the batch runs: demand is left for it
    assert bodies(await intake.collect(3, 10, 0.0)) == [b"4"]
    assert link.requests == [10, 3]
    assert link.outstanding + link.unsettled == 10


@given(
    limit=st.integers(1, 8),
    moves=st.lists(st.one_of(st.tuples(st.just("send"), st.integers(1, 9)), st.just("batch")), max_size=40),
)
def test_demand_waiting_and_assigned_never_exceed_the_limit(limit: int, moves: list[object]) -> None:
    async def play() -> None:
        link, intake = linked(limit)
        sent = settled = taken = 0
        got: list[object] = []
        for move in moves:
            if isinstance(move, tuple):
                count = min(move[1], link.outstanding)
                link.send(*[b"%d" % number for number in range(sent, sent + count)])
                sent += count
            else:
                settled = taken
                rows = await intake.collect(settled, limit, 0.0)
                taken += len(rows)
                got += bodies(rows)
            assert link.outstanding + link.unsettled <= limit
            assert link.outcomes.count("done") == settled
        assert got == [b"%d" % number for number in range(len(got))]

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_refused_link_says_why(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(1)
    link.error(LinkDetached("amqp:not-found", "no such address"))
    with pytest.raises(SourceFailed, match=r"^LinkDetached: no such address \(amqp:not-found\); messages that Spark"):
        await intake.subscribed()


async def test_a_peer_that_never_answers_the_attach_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    intake = RowIntake(1, reject_unparsable=False)
    with pytest.raises(SourceFailed, match="the peer did not answer the attach within 30 s"):
        await intake.subscribed()
    assert trio.current_time() == pytest.approx(ANSWER_WAIT_S)


async def test_a_lost_link_fails_the_next_batch_and_hands_out_nothing_that_comes_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await intake.collect(0, 5, 0.0)
    link.send(b"1", b"2")
    link.error(ConnectionLost("the peer has gone"))
    with pytest.raises(
        SourceFailed, match=r"^ConnectionLost: the peer has gone; messages that Spark has not committed"
    ):
        await intake.collect(0, 5, 0.0)


async def test_a_link_lost_while_waiting_ends_the_wait(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(5)

    async def lose() -> None:
        await trio.sleep(0.01)
        link.send(b"1")
        await trio.sleep(0.01)
        link.error(ConnectionLost("gone"))

    nursery.start_soon(lose)
    with pytest.raises(SourceFailed):
        await intake.collect(0, 5, 600.0)
    assert trio.current_time() == pytest.approx(0.02)


async def test_a_stream_that_completes_gives_what_came_and_then_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await intake.collect(0, 5, 0.0)
    link.send(b"1")
    link.complete()
    assert bodies(await intake.collect(0, 5, 600.0)) == [b"1"]
    assert await intake.collect(1, 5, 600.0) == []
    assert link.outcomes == ["done"]
    assert link.requests == [5]


async def test_rows_before_an_unparsable_message_go_out_first_and_it_stays_unsettled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await intake.collect(0, 5, 0.0)
    link.send(b"1")
    link.send([1])
    link.send(b"3")
    assert bodies(await intake.collect(0, 5, 600.0)) == [b"1"]
    with pytest.raises(UnparsableMessage) as caught:
        await intake.collect(1, 5, 600.0)
    assert str(caught.value) == (
        "message 2 of this link cannot be made a row: this is no message (amqp:decode-error). It was not settled. Set "
        "option onUnparsable=reject to have such messages rejected, or take it out of the queue"
    )
    assert link.outcomes == ["done", None, None]
    intake.give_back()
    assert link.outcomes == ["done", "released", "released"]


async def test_reject_takes_an_unparsable_message_out_and_another_in(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(2, reject=True)
    await intake.collect(0, 2, 0.0)
    link.send(b"1", [2], b"3")
    assert bodies(await intake.collect(0, 2, 600.0)) == [b"1", b"3"]
    assert link.outcomes == [None, "failed", None]
    error = link.errors[1]
    assert isinstance(error, DeliveryFailed)
    assert (error.outcome, error.condition) == ("rejected", "amqp:decode-error")
    assert error.description.startswith("not a row: this is no message")


async def test_giving_back_releases_what_is_not_committed_and_cancels(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5)
    await intake.collect(0, 5, 0.0)
    link.send(b"1", b"2")
    assert len(await intake.collect(0, 5, 0.0)) == 2
    link.send(b"3")
    intake.give_back()
    assert link.outcomes == ["released"] * 3
    assert link.cancelled


class Queue:
    """A queue behind a played link: a drain sends what it has, as far as there is credit."""

    def __init__(self, link: PlayedLink, *messages: object) -> None:
        self.messages = list(messages)
        self.link = link
        link.on_drain = self.drained

    def drained(self) -> None:
        while self.messages and self.link.outstanding:
            self.link.send(self.messages.pop(0))
        self.link.drains.pop()()


@pytest.mark.parametrize("queued", [0, 1, 2, 3, 4, 7])
async def test_available_now_reads_what_is_queued_in_batches_and_then_nothing(
    autojump_clock: trio.testing.MockClock, queued: int
) -> None:
    link, intake = linked(3)
    queue = Queue(link, *[b"%d" % n for n in range(queued)])
    got: list[object] = []
    rows = await intake.collect_queued(0, 3, 25.0)
    while rows:
        assert link.unsettled == len(rows) <= 3
        got += bodies(rows)
        rows = await intake.collect_queued(len(got), 3, 25.0)
    assert got == [b"%d" % n for n in range(queued)]
    assert link.outcomes == ["done"] * queued
    queue.messages.append(b"late")
    assert await intake.collect_queued(0, 3, 25.0) == []
    assert trio.current_time() == 0.0


async def test_available_now_over_a_broker_that_answers_no_drain_fails_and_says_so() -> None:
    link, intake = linked(3)

    def refuse() -> None:
        msg = "drain() of link 'work' (dialect 'rabbitmq310'): this peer answers no drain"
        raise ConfigError(msg)

    link.on_drain = refuse
    with pytest.raises(
        SourceFailed, match=r"^trigger availableNow .* use another trigger here: drain\(\) of link 'work'"
    ):
        await intake.collect_queued(0, 3, 25.0)


async def test_available_now_goes_on_where_a_link_granted_less_than_was_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(10)
    queue = Queue(link, *[b"%d" % n for n in range(20)])
    first = True

    def sparing() -> None:
        nonlocal first
        if first:
            link.send(*(queue.messages.pop(0) for _ in range(6)))
            first = False
            link.drains.pop()()
        else:
            queue.drained()

    link.on_drain = sparing
    taken = 0
    while rows := await intake.collect_queued(taken, 10, 25.0):
        taken += len(rows)
    assert taken == 20


async def test_available_now_does_not_end_where_a_whole_batch_was_rejected(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2, reject=True)
    Queue(link, [1], [2], [3], b"4")
    assert bodies(await intake.collect_queued(0, 2, 25.0)) == [b"4"]
    assert await intake.collect_queued(1, 2, 25.0) == []
    assert link.outcomes == ["failed"] * 3 + ["done"]


async def test_a_peer_that_does_not_answer_a_drain_is_named(autojump_clock: trio.testing.MockClock) -> None:
    _, intake = linked(2)
    with pytest.raises(SourceFailed, match="did not answer a drain within 30 s, which trigger availableNow needs"):
        await intake.collect_queued(0, 2, 25.0)


async def test_a_drain_that_is_slow_but_alive_is_waited_for(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(3)

    async def slow() -> None:
        await intake.subscribed()
        for body in (b"1", b"2"):
            await trio.sleep(20)
            link.send(body)
        await trio.sleep(20)
        link.on_drain = Queue(link).drained
        link.drains.pop()()

    nursery.start_soon(slow)
    assert bodies(await intake.collect_queued(0, 3, 25.0)) == [b"1", b"2"]
    assert trio.current_time() == pytest.approx(60.0)


async def test_a_link_lost_in_a_drain_ends_it(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(3)
    link.on_drain = lambda: link.error(ConnectionLost("gone"))
    with pytest.raises(SourceFailed, match=r"^ConnectionLost: gone"):
        await intake.collect_queued(0, 3, 25.0)


async def test_a_message_with_a_broken_encoding_is_unparsable_and_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    broken = decoder(100)(b"\x00\x53\x75\xa0")
    assert isinstance(broken, RemoteProtocolError)
    link, intake = linked(3, reject=True)
    await intake.collect(0, 3, 0.0)
    link.next(broken, Message(body=b"sound"))
    assert bodies(await intake.collect(0, 3, 0.0)) == [b"sound"]
    assert link.outcomes == ["failed", None]

    link, intake = linked(3)
    await intake.collect(0, 3, 0.0)
    link.next(broken)
    with pytest.raises(UnparsableMessage, match=r"message 1 of this link cannot be made a row: .*amqp:decode-error"):
        await intake.collect(0, 3, 0.0)
    assert link.outcomes == [None]


async def test_available_now_hands_out_what_came_where_the_peer_waits_for_settlement(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(3)
    link.on_drain = lambda: link.send(b"1")  # and it answers the drain only when that is settled
    assert bodies(await intake.collect_queued(0, 3, 0.25)) == [b"1"]
    assert trio.current_time() == pytest.approx(0.25)
    link.on_request = lambda _: link.send(b"2")
    assert bodies(await intake.collect_queued(1, 3, 0.25)) == [b"2"]
    link.on_request = lambda _: link.drains.pop()()
    link.on_drain = lambda: link.drains.pop()()  # noqa: PLW0108 - the list is empty yet
    assert await intake.collect_queued(2, 3, 0.25) == []
    assert link.outcomes == ["done", "done"]


async def test_available_now_requests_no_more_than_was_counted(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(3, reject=True)
    intake.take_only(4)
    queue = Queue(link, b"1", b"2", b"3", [4], b"5")
    assert bodies(await intake.collect_queued(0, 3, 1.0)) == [b"1", b"2", b"3"]
    assert await intake.collect_queued(3, 3, 1.0) == []
    assert link.requests == [3, 1]
    assert link.outcomes == ["done"] * 3 + ["failed"]
    assert queue.messages == [b"5"]


def numbered(first: int, last: int) -> list[Message]:
    return [Message(body=b"%d" % n, id=f"m-{n}") for n in range(first, last)]


async def test_after_a_loss_messages_of_a_batch_take_the_place_of_the_lost_ones(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await intake.collect(0, 5, 0.0)
    link.next(*numbered(0, 2))
    assert len(await intake.collect(0, 5, 0.0)) == 2
    link.next(*numbered(2, 4))  # these wait
    intake.on_away()
    assert link.outcomes == [None, None, "released", "released"]
    assert link.outstanding == 3, "as many as wait, and those that had not come"
    intake.on_back()
    link.next(*numbered(0, 3))
    assert link.outcomes[:2] == ["done", "done"], "the lost ones are let go of"
    assert link.outcomes[4:] == [None] * 3
    assert bodies(await intake.collect(0, 5, 0.0)) == [b"2"]
    assert bodies(await intake.collect(2, 5, 0.0)) == []
    assert link.outcomes[4:] == ["done", "done", None]
    assert link.outstanding + link.unsettled == 5
    link.next(*numbered(0, 1))  # the same id again, without a loss in between, is another message
    assert bodies(await intake.collect(3, 5, 0.0)) == [b"0"]


async def test_a_message_that_was_committed_just_before_a_loss_is_accepted_when_it_comes_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    link.on_request = lambda n: link.next(*numbered(len(link.outcomes), len(link.outcomes) + n))
    assert len(await intake.collect(0, 2, 0.0)) == 2
    link.on_request = None
    intake.settle(2)
    assert link.outcomes == ["done", "done"]
    intake.on_away()
    intake.on_back()
    link.next(*numbered(0, 2))
    assert link.outcomes == ["done"] * 4
    assert await intake.collect(2, 2, 0.0) == []
    assert link.outstanding == 2


async def test_an_unparsable_message_is_forgotten_at_a_loss_and_found_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(3)
    await intake.collect(0, 3, 0.0)
    link.send(b"1", [2], b"3")
    intake.on_away()
    intake.on_back()
    assert link.outstanding == 3
    assert await intake.collect(0, 3, 0.0) == []
    link.send(b"1", [2])
    assert bodies(await intake.collect(0, 3, 0.0)) == [b"1"]
    with pytest.raises(UnparsableMessage):
        await intake.collect(1, 3, 0.0)


@given(
    limit=st.integers(1, 6),
    moves=st.lists(st.sampled_from(["send", "batch", "settle", "lose"]), max_size=40),
)
def test_through_losses_the_limit_holds_and_each_message_comes_once(limit: int, moves: list[str]) -> None:
    async def play() -> None:
        link, intake = linked(limit)
        queue = numbered(0, 30)  # at the peer, in order
        sent: list[tuple[int, Message]] = []  # on this connection: the place in `link.outcomes`
        got: list[object] = []
        committed = 0

        def unsettled() -> list[tuple[int, Message]]:
            return [(place, message) for place, message in sent if link.outcomes[place] is None]

        for move in moves:
            if move == "send" and queue and link.outstanding:
                sent.append((len(link.outcomes), queue[0]))
                link.next(queue.pop(0))
            elif move == "batch":
                got += bodies(await intake.collect(committed, limit, 0.0))
            elif move == "settle":
                committed = len(got)
                intake.settle(committed)
            elif move == "lose":
                queue[:0] = [message for _, message in unsettled()]
                sent.clear()
                intake.on_away()
                intake.on_back()
            assert link.outstanding + len(unsettled()) <= limit
        assert got == [b"%d" % n for n in range(len(got))]

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_batch_comes_in_parts_within_its_delay(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(10)

    async def trickle() -> None:
        for body in range(9):
            link.send(b"%d" % body)
            await trio.sleep(0.1)

    await intake.collect(0, 10, 0.0)
    nursery.start_soon(trickle)
    parts = [bodies(await intake.collect(0, 3, 0.45, goes_on=goes_on)) for goes_on in (False, True, True)]
    assert parts == [[b"0", b"1", b"2"], [b"3", b"4"], []]
    assert trio.current_time() == pytest.approx(IDLE_WAIT_S + 0.45)


async def test_an_unparsable_message_behind_a_part_ends_the_batch_and_fails_the_next_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(10)
    await intake.collect(0, 10, 0.0)
    link.send(b"1", [2])
    assert bodies(await intake.collect(0, 1, 0.0)) == [b"1"]
    assert await intake.collect(0, 1, 0.0, goes_on=True) == []
    with pytest.raises(UnparsableMessage):
        await intake.collect(1, 1, 0.0)


async def test_a_queued_batch_comes_in_parts_while_the_drain_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5)
    queue = Queue(link, *[b"%d" % n for n in range(7)])
    sizes = [len(await intake.collect_queued(0, 2, 1.0, goes_on=goes_on)) for goes_on in (False, True)]
    sizes.append(len(await intake.collect_queued(0, 1, 1.0, goes_on=True)))
    assert sizes == [2, 2, 1]
    assert len(await intake.collect_queued(5, 2, 1.0)) == 2
    assert await intake.collect_queued(5, 2, 1.0, goes_on=True) == []
    assert await intake.collect_queued(7, 2, 1.0) == []
    assert queue.messages == []


async def test_messages_of_an_earlier_run_are_accepted_and_not_handed_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    intake.know(["m-0", "7", "late"])
    await intake.collect(0, 2, 0.0)
    link.next(Message(body=b"x", id="m-0"), Message(body=b"y", id=7))
    assert link.outcomes == ["done", "done"]
    link.next(*numbered(1, 3))
    assert bodies(await intake.collect(0, 2, 0.0)) == [b"1", b"2"]
    for first in range(3, 13, 2):
        assert await intake.collect(first - 1, 2, 0.0) == []
        link.next(*numbered(first, first + 2))
        assert len(await intake.collect(first - 1, 2, 0.0)) == 2
    await intake.collect(12, 2, 0.0)
    link.next(Message(body=b"z", id="late"))  # the peer has noticed the end of the old connection only now
    assert link.outcomes[-1] == "done"
    assert await intake.collect(12, 2, 0.0) == []
