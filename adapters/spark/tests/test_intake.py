"""The intake against a link played by hand, in virtual time: batches, their limit and their end."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._intake import ANSWER_WAIT_S, CREDIT_WAIT_S, IDLE_WAIT_S, RowIntake
from rstreams_spark._record_batches import RecordBatches
from rstreams_spark.errors import SourceFailed

from adapters.spark.tests.played_link import Queue, bodies, collect, collect_queued, linked
from rstreams.errors import ConfigError, LinkDetached


async def test_nothing_is_requested_before_the_first_batch(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5)
    assert link.requested == 0
    assert await collect(intake, 0, 5, 1.0) == []
    assert link.requested == 5
    assert trio.current_time() == pytest.approx(CREDIT_WAIT_S)


async def test_a_peer_has_a_second_after_it_got_credit_and_later_spark_waits_shortly(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(5)

    async def answer() -> None:
        await trio.sleep(0.9)
        link.send(b"1")

    nursery.start_soon(answer)
    assert await collect(intake, 0, 5, 0.0) == [b"1"]
    began = trio.current_time()
    assert await collect(intake, 0, 5, 0.0) == []
    assert trio.current_time() - began == pytest.approx(IDLE_WAIT_S)


async def test_a_full_batch_waits_for_nothing(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(3)
    link.on_request = lambda n: link.send(*[b"x"] * n)
    assert await collect(intake, 0, 3, 60.0) == [b"x"] * 3
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
    assert await collect(intake, 0, 10, 0.06) == [b"1", b"2"]
    assert trio.current_time() == pytest.approx(0.11)


async def test_messages_are_settled_when_their_batch_is_committed_and_only_then_replaced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(4)
    link.on_request = lambda n: link.send(*[b"x"] * n)
    assert len(await collect(intake, 0, 4, 1.0)) == 4
    assert link.requests == [4]
    assert link.outcomes == [None] * 4
    assert len(await collect(intake, 4, 4, 1.0)) == 4
    assert link.requests == [4, 4]
    assert link.outcomes == ["done"] * 4 + [None] * 4


async def test_demand_left_over_from_a_batch_is_not_requested_again(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(10)
    await collect(intake, 0, 10, 0.0)
    link.send(b"1", b"2", b"3")
    assert await collect(intake, 0, 10, 0.0) == [b"1", b"2", b"3"]
    link.send(b"4")  # while the batch runs: demand is left for it
    assert await collect(intake, 3, 10, 0.0) == [b"4"]
    assert link.requests == [10, 3]
    assert link.outstanding + link.unsettled == 10


@pytest.mark.slow
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
                rows = await collect(intake, settled, limit, 0.0)
                taken += len(rows)
                got += rows
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
    intake = RowIntake(1, RecordBatches("a"), largest=100, reject_unparsable=False)
    with pytest.raises(SourceFailed, match="the peer did not answer the attach within 30 s"):
        await intake.subscribed()
    assert trio.current_time() == pytest.approx(ANSWER_WAIT_S)


async def test_a_stream_that_completes_gives_what_came_and_then_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await collect(intake, 0, 5, 0.0)
    link.send(b"1")
    link.complete()
    assert await collect(intake, 0, 5, 600.0) == [b"1"]
    assert await collect(intake, 1, 5, 600.0) == []
    assert link.outcomes == ["done"]
    assert link.requests == [5]


async def test_giving_back_releases_what_is_not_committed_and_cancels(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5)
    await collect(intake, 0, 5, 0.0)
    link.send(b"1", b"2")
    assert len(await collect(intake, 0, 5, 0.0)) == 2
    link.send(b"3")
    intake.give_back()
    assert link.outcomes == ["released"] * 3
    assert link.cancelled


@pytest.mark.parametrize("queued", [0, 1, 2, 3, 4, 7])
async def test_available_now_reads_what_is_queued_in_batches_and_then_nothing(
    autojump_clock: trio.testing.MockClock, queued: int
) -> None:
    link, intake = linked(3)
    queue = Queue(link, *[b"%d" % n for n in range(queued)])
    got: list[object] = []
    rows = await collect_queued(intake, 0, 3, 25.0)
    while rows:
        assert link.unsettled == len(rows) <= 3
        got += rows
        rows = await collect_queued(intake, len(got), 3, 25.0)
    assert got == [b"%d" % n for n in range(queued)]
    assert link.outcomes == ["done"] * queued
    queue.messages.append(b"late")
    assert await collect_queued(intake, 0, 3, 25.0) == []
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
        await collect_queued(intake, 0, 3, 25.0)


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
    while rows := await collect_queued(intake, taken, 10, 25.0):
        taken += len(rows)
    assert taken == 20


async def test_a_peer_that_does_not_answer_a_drain_is_named(autojump_clock: trio.testing.MockClock) -> None:
    _, intake = linked(2)
    with pytest.raises(SourceFailed, match="did not answer a drain within 30 s, which trigger availableNow needs"):
        await collect_queued(intake, 0, 2, 25.0)


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
    assert await collect_queued(intake, 0, 3, 25.0) == [b"1", b"2"]
    assert trio.current_time() == pytest.approx(60.0)


async def test_available_now_hands_out_what_came_where_the_peer_waits_for_settlement(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(3)
    link.on_drain = lambda: link.send(b"1")  # and it answers the drain only when that is settled
    assert await collect_queued(intake, 0, 3, 0.25) == [b"1"]
    assert trio.current_time() == pytest.approx(0.25)
    link.on_request = lambda _: link.send(b"2")
    assert await collect_queued(intake, 1, 3, 0.25) == [b"2"]
    link.on_request = lambda _: link.drains.pop()()
    link.on_drain = lambda: link.drains.pop()()  # noqa: PLW0108 - the list is empty yet
    assert await collect_queued(intake, 2, 3, 0.25) == []
    assert link.outcomes == ["done", "done"]


async def test_available_now_requests_no_more_than_was_counted(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(3, reject=True)
    intake.take_only(4)
    queue = Queue(link, b"1", b"2", b"3", [4], b"5")
    assert await collect_queued(intake, 0, 3, 1.0) == [b"1", b"2", b"3"]
    assert await collect_queued(intake, 3, 3, 1.0) == []
    assert link.requests == [3, 1]
    assert link.outcomes == ["done"] * 3 + ["failed"]
    assert queue.messages == [b"5"]


async def test_a_batch_comes_in_parts_within_its_delay(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(10)

    async def trickle() -> None:
        for body in range(9):
            link.send(b"%d" % body)
            await trio.sleep(0.1)

    await collect(intake, 0, 10, 0.0)
    nursery.start_soon(trickle)
    parts = [await collect(intake, 0, 3, 0.45, goes_on=goes_on) for goes_on in (False, True, True)]
    assert parts == [[b"0", b"1", b"2"], [b"3", b"4"], []]
    assert trio.current_time() == pytest.approx(CREDIT_WAIT_S + 0.45)


async def test_a_queued_batch_comes_in_parts_while_the_drain_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5)
    queue = Queue(link, *[b"%d" % n for n in range(7)])
    sizes = [len(await collect_queued(intake, 0, 2, 1.0, goes_on=goes_on)) for goes_on in (False, True)]
    sizes.append(len(await collect_queued(intake, 0, 1, 1.0, goes_on=True)))
    assert sizes == [2, 2, 1]
    assert len(await collect_queued(intake, 5, 2, 1.0)) == 2
    assert await collect_queued(intake, 5, 2, 1.0, goes_on=True) == []
    assert await collect_queued(intake, 7, 2, 1.0) == []
    assert queue.messages == []


async def test_a_part_is_a_full_record_batch_and_the_last_one_the_rest(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5, most_rows=2)
    link.on_request = lambda n: link.send(*[b"x"] * n)
    parts = [await intake.collect(0, 5, 60.0), await intake.collect(0, 3, 60.0, goes_on=True)]
    assert [(len(bodies(part)), part.ends) for part in parts] == [(5, True), (0, True)]
    await collect(intake, 5, 5, 60.0)
    link.on_request = None
    assert trio.current_time() == pytest.approx(60.0)


async def test_a_batch_ahead_is_taken_in_parts_and_ends_when_it_is_asked_for(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(10, most_rows=2)
    await collect(intake, 0, 5, 0.0)
    intake.plan_ahead()
    link.send(b"1", b"2", b"3")
    part = await intake.collect_ahead(5, 60.0)
    assert (bodies(part), part.ends) == ([b"1", b"2"], False)

    async def ask() -> None:
        await trio.sleep(100.0)
        link.send(b"4")
        intake.ask()

    nursery.start_soon(ask)
    part = await intake.collect_ahead(3, 60.0, goes_on=True)
    assert (bodies(part), part.ends) == ([b"3", b"4"], False)
    part = await intake.collect_ahead(1, 60.0, goes_on=True)
    assert (bodies(part), part.ends) == ([], True)
    assert trio.current_time() == pytest.approx(CREDIT_WAIT_S + 100.0)
    assert link.outstanding + link.unsettled == 10


async def test_a_full_batch_ahead_waits_until_it_is_asked_for(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(4)
    await collect(intake, 0, 2, 0.0)
    intake.plan_ahead()
    link.send(b"1", b"2", b"3", b"4")
    with trio.move_on_after(600.0):
        await intake.collect_ahead(2, 0.0)
    assert trio.current_time() == pytest.approx(CREDIT_WAIT_S + 600.0)
    intake.ask()
    part = await intake.collect_ahead(2, 60.0)
    assert (bodies(part), part.ends) == ([b"1", b"2"], True)
    assert await collect(intake, 2, 2, 60.0) == [b"3", b"4"]


async def test_queued_messages_are_read_ahead(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(4, most_rows=2)
    Queue(link, *[b"%d" % n for n in range(5)])
    assert await collect_queued(intake, 0, 2, 25.0) == [b"0", b"1"]
    intake.plan_ahead()
    intake.settle(2)
    with trio.move_on_after(600.0) as scope:
        await intake.collect_queued_ahead(2, 25.0)
    assert scope.cancelled_caught, "it ends when it is asked for"
    intake.ask()
    assert bodies(await intake.collect_queued_ahead(2, 25.0)) == [b"2", b"3"]
    assert await collect_queued(intake, 4, 2, 25.0) == [b"4"]
    assert await collect_queued(intake, 5, 2, 25.0) == []


async def test_where_packs_come_a_batch_ends_when_no_pack_has_room(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(10)
    intake.expect_packs(3)
    await collect(intake, 0, 10, 0.0)
    assert link.requests == [8], "a pack is unsettled until all of it is settled"
    link.send(*[b"x"] * 6)
    assert len(await collect(intake, 0, 10, 600.0)) == 6
    assert trio.current_time() == pytest.approx(CREDIT_WAIT_S)
