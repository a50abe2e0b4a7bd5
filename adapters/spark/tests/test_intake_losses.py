"""The intake against a link played by hand: messages that are no rows, lost connections, and their messages again."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._intake import BatchLost, BatchPart
from rstreams_spark.errors import SourceFailed, UnparsableMessage

from adapters.spark.tests.played_link import BROKEN, Queue, bodies, collect, collect_queued, linked, numbered
from rstreams.errors import ConnectionLost, DeliveryFailed
from rstreams.message import Message, encode_item


async def test_a_lost_link_fails_the_next_batch_and_hands_out_nothing_that_comes_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await collect(intake, 0, 5, 0.0)
    link.send(b"1", b"2")
    link.error(ConnectionLost("the peer has gone"))
    with pytest.raises(
        SourceFailed, match=r"^ConnectionLost: the peer has gone; messages that Spark has not committed"
    ):
        await collect(intake, 0, 5, 0.0)


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
        await collect(intake, 0, 5, 600.0)
    assert trio.current_time() == pytest.approx(0.02)


async def test_rows_before_an_unparsable_message_go_out_first_and_it_stays_unsettled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    await collect(intake, 0, 5, 0.0)
    link.send(b"1")
    link.send([1])
    link.send(b"3")
    assert await collect(intake, 0, 5, 600.0) == [b"1"]
    with pytest.raises(UnparsableMessage) as caught:
        await collect(intake, 1, 5, 600.0)
    assert str(caught.value) == (
        "message 2 of this link cannot be made a row: the peer sent bytes that AMQP cannot decode: it ends too early "
        "(amqp:decode-error). It was not settled. Set option onUnparsable=reject to have such messages rejected, or "
        "take it out of the queue"
    )
    assert link.outcomes == ["done", None, None]
    intake.give_back()
    assert link.outcomes == ["done", "released", "released"]


async def test_reject_takes_an_unparsable_message_out_and_another_in(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(2, reject=True)
    await collect(intake, 0, 2, 0.0)
    link.send(b"1", [2], b"3")
    assert await collect(intake, 0, 2, 600.0) == [b"1", b"3"]
    assert link.outcomes == [None, "failed", None]
    error = link.errors[1]
    assert isinstance(error, DeliveryFailed)
    assert (error.outcome, error.condition) == ("rejected", "amqp:decode-error")
    assert error.description.startswith("not a row: the peer sent bytes that AMQP cannot decode")


async def test_available_now_does_not_end_where_a_whole_batch_was_rejected(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2, reject=True)
    Queue(link, [1], [2], [3], b"4")
    assert await collect_queued(intake, 0, 2, 25.0) == [b"4"]
    assert await collect_queued(intake, 1, 2, 25.0) == []
    assert link.outcomes == ["failed"] * 3 + ["done"]


async def test_a_link_lost_in_a_drain_ends_it(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(3)
    link.on_drain = lambda: link.error(ConnectionLost("gone"))
    with pytest.raises(SourceFailed, match=r"^ConnectionLost: gone"):
        await collect_queued(intake, 0, 3, 25.0)


async def test_a_message_with_a_broken_encoding_is_unparsable_and_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(3, reject=True)
    await collect(intake, 0, 3, 0.0)
    link.next(BROKEN, encode_item(Message(body=b"sound")))
    assert await collect(intake, 0, 3, 0.0) == [b"sound"]
    assert link.outcomes == ["failed", None]

    link, intake = linked(3)
    await collect(intake, 0, 3, 0.0)
    link.next(BROKEN)
    with pytest.raises(UnparsableMessage, match=r"message 1 of this link cannot be made a row: .*amqp:decode-error"):
        await collect(intake, 0, 3, 0.0)
    assert link.outcomes == [None]


async def test_with_a_log_messages_of_a_batch_take_the_place_of_the_lost_ones_after_a_loss(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(5)
    intake.know(())
    await collect(intake, 0, 5, 0.0)
    link.next(*numbered(0, 2))
    assert len(await collect(intake, 0, 5, 0.0)) == 2
    link.next(*numbered(2, 4))  # these wait
    intake.on_away()
    assert link.outcomes == ["released"] * 4, "the peer has them back, and hears nothing of this"
    assert link.outstanding == 3, "as many as wait, and those that had not come"
    intake.on_back()
    link.next(*numbered(0, 3))
    assert link.outcomes[4:] == [None] * 3
    assert await collect(intake, 0, 5, 0.0) == [b"2"]
    assert await collect(intake, 2, 5, 0.0) == []
    assert link.outcomes[4:] == ["done", "done", None]
    assert link.outstanding + link.unsettled == 5
    link.next(*numbered(0, 1))  # the same id again, without a loss in between, is another message
    assert await collect(intake, 3, 5, 0.0) == [b"0"]


async def test_with_a_log_a_message_that_was_settled_just_before_a_loss_is_accepted_when_it_comes_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    intake.know(())
    link.on_request = lambda n: link.next(*numbered(len(link.outcomes), len(link.outcomes) + n))
    assert len(await collect(intake, 0, 2, 0.0)) == 2
    link.on_request = None
    intake.settle(2)
    assert link.outcomes == ["done", "done"]
    intake.on_away()
    intake.on_back()
    link.next(*numbered(0, 2))
    assert link.outcomes == ["done"] * 4
    assert await collect(intake, 2, 2, 0.0) == []
    assert link.outstanding == 2
    assert intake.counts().repeated == 2, "the driver's log tells it"


async def test_with_a_log_as_many_settled_messages_are_known_as_the_link_has_credit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A peer has two packs unsettled, of which the first one was granted with less than the limit of the intake."""
    link, intake = linked(20)
    intake.expect_packs(10)
    intake.know(())
    await collect(intake, 0, 1, 0.0)
    link.next(*numbered(0, 10))
    for committed in range(20):
        if committed == 10:
            assert link.outstanding >= 10, "of the first pack all messages are settled but one"
            link.next(*numbered(10, 20))
        assert await collect(intake, committed, 1, 0.0) == [b"%d" % committed]
    await collect(intake, 20, 1, 0.0)
    intake.on_away()
    intake.on_back()
    link.next(*numbered(0, 20))
    assert await collect(intake, 20, 20, 0.0) == []
    assert intake.counts().repeated == 20


async def test_with_a_log_a_message_that_came_again_is_known_after_the_next_loss(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    intake.know(["m-0"])
    await collect(intake, 0, 2, 0.0)
    for _ in range(3):
        link.next(*numbered(0, 1))
        assert link.outcomes[-1] == "done"
        intake.on_away()  # and the peer has not heard it
        intake.on_back()
    link.next(*numbered(0, 2))
    assert await collect(intake, 0, 2, 0.0) == [b"1"]


async def test_an_unparsable_message_is_forgotten_at_a_loss_and_found_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(3)
    await collect(intake, 0, 3, 0.0)
    link.send(b"1", [2], b"3")
    intake.on_away()
    intake.on_back()
    assert link.outstanding == 3
    assert await collect(intake, 0, 3, 0.0) == []
    link.send(b"1", [2])
    assert await collect(intake, 0, 3, 0.0) == [b"1"]
    with pytest.raises(UnparsableMessage):
        await collect(intake, 1, 3, 0.0)


def messages(count: int, ids: int) -> list[bytes]:
    """Return messages with so many ids; with none, they have none."""
    return [encode_item(Message(body=b"%d" % n, id=f"m-{n % ids}" if ids else None)) for n in range(count)]


@given(
    limit=st.integers(1, 6),
    ids=st.sampled_from([0, 1, 2, 7, 30]),
    with_log=st.booleans(),
    moves=st.lists(st.sampled_from(["send", "batch", "settle", "lose"]), max_size=40),
)
def test_through_losses_the_limit_holds_and_no_message_is_lost(
    *,
    limit: int,
    ids: int,
    with_log: bool,
    moves: list[str],
) -> None:
    """Without a write-ahead log whatever the ids are; with one each message comes once if its id is its own."""
    with_log &= ids == 30

    async def play() -> None:
        link, intake = linked(limit)
        if with_log:
            intake.know(())
        queue = messages(30, ids)  # at the peer, in order
        sent: list[tuple[int, bytes]] = []  # on this connection: the place in `link.outcomes`
        everything: list[tuple[int, bytes]] = []  # on all of them
        got: list[object] = []
        committed = 0

        def unsettled() -> list[tuple[int, bytes]]:
            return [(place, message) for place, message in sent if link.outcomes[place] is None]

        for move in moves:
            if move == "send" and queue and link.outstanding:
                sent.append((len(link.outcomes), queue[0]))
                everything.append(sent[-1])
                link.next(queue.pop(0))
            elif move == "batch":
                got += await collect(intake, committed, limit, 0.0)
            elif move == "settle":
                committed = len(got)
                intake.settle(committed)
            elif move == "lose":
                queue[:0] = [message for _, message in unsettled()]
                sent.clear()
                intake.on_away()
                intake.on_back()
            assert link.outstanding + len(unsettled()) <= limit
        firsts = list(dict.fromkeys(got))
        assert firsts == [b"%d" % n for n in range(len(firsts))]
        assert not with_log or firsts == got
        done = {message for place, message in everything if link.outcomes[place] == "done"}
        assert done <= set(messages(30, ids)[: len(firsts)]), "no other message was accepted"

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_an_unparsable_message_behind_a_part_ends_the_batch_and_fails_the_next_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(10)
    await collect(intake, 0, 10, 0.0)
    link.send(b"1", [2])
    assert await collect(intake, 0, 1, 0.0) == [b"1"]
    assert await collect(intake, 0, 1, 0.0, goes_on=True) == []
    with pytest.raises(UnparsableMessage):
        await collect(intake, 1, 1, 0.0)


async def test_messages_of_an_earlier_run_are_accepted_and_not_handed_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    intake.know(["m-0", "7", "late"])
    await collect(intake, 0, 2, 0.0)
    link.next(encode_item(Message(body=b"x", id="m-0")), encode_item(Message(body=b"y", id=7)))
    assert link.outcomes == ["done", "done"]
    link.next(*numbered(1, 3))
    assert await collect(intake, 0, 2, 0.0) == [b"1", b"2"]
    for first in range(3, 13, 2):
        assert await collect(intake, first - 1, 2, 0.0) == []
        link.next(*numbered(first, first + 2))
        assert len(await collect(intake, first - 1, 2, 0.0)) == 2
    await collect(intake, 12, 2, 0.0)
    link.next(encode_item(Message(body=b"z", id="late")))  # the peer has noticed the end of the old connection only now
    assert link.outcomes[-1] == "done"
    assert await collect(intake, 12, 2, 0.0) == []


@pytest.mark.parametrize("message_id", ["m-0", None])
async def test_without_a_log_a_message_of_a_batch_that_comes_again_gets_a_row(
    autojump_clock: trio.testing.MockClock, message_id: str | None
) -> None:
    """It cannot be told from a new message with the same id."""
    link, intake = linked(4)
    await collect(intake, 0, 4, 0.0)
    link.next(encode_item(Message(body=b"a", id=message_id)))
    assert await collect(intake, 0, 4, 0.0) == [b"a"]
    intake.on_away()
    intake.on_back()
    link.next(encode_item(Message(body=b"a", id=message_id)), encode_item(Message(body=b"b", id=message_id)))
    assert await collect(intake, 0, 4, 0.0) == [b"a", b"b"]
    await collect(intake, 3, 4, 0.0)
    assert link.outcomes == ["released", "done", "done"]
    assert link.outstanding == 4
    assert intake.counts().repeated == 0


async def test_counted_messages_that_come_again_are_counted_again(autojump_clock: trio.testing.MockClock) -> None:
    """Trigger availableNow: those behind them are read, too."""
    link, intake = linked(4)
    await intake.subscribed()
    intake.take_only(3)
    Queue(link, b"1", b"2", b"3")
    assert await collect_queued(intake, 0, 2, 25.0) == [b"1", b"2"]
    intake.on_away()
    intake.on_back()
    Queue(link, b"1", b"2", b"3", b"4")
    assert await collect_queued(intake, 2, 4, 25.0) == [b"1", b"2", b"3"]
    assert await collect_queued(intake, 5, 4, 25.0) == []


async def test_an_id_that_several_known_messages_have_is_not_known(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(20)
    intake.know(["a", "b", "a"])
    await collect(intake, 0, 20, 0.0)
    link.next(*(encode_item(Message(body=each, id=each)) for each in "abccd"))
    assert link.outcomes == [None, "done", None, None, None]
    assert await collect(intake, 0, 20, 0.0) == [b"a", b"c", b"c", b"d"]
    intake.on_away()
    intake.on_back()
    link.next(*(encode_item(Message(body=each, id=each)) for each in "acd"))
    assert await collect(intake, 0, 20, 0.0) == [b"a", b"c"]
    assert intake.counts().repeated == 2


async def test_a_batch_that_is_lost_while_it_comes_begins_anew(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(6, most_rows=2)
    await collect(intake, 0, 6, 0.0)
    link.next(*numbered(0, 3))
    assert await collect(intake, 0, 6, 60.0) == [b"0", b"1"]
    intake.on_away()
    intake.on_back()
    assert link.outstanding == 6
    with pytest.raises(BatchLost):
        await collect(intake, 0, 4, 60.0, goes_on=True)
    link.next(*numbered(0, 6))
    assert await collect(intake, 0, 6, 60.0) == [b"%d" % n for n in range(6)]
    assert await collect(intake, 6, 6, 0.0) == []
    assert link.outcomes[3:] == ["done"] * 6


async def test_a_batch_ahead_that_is_lost_waits_for_its_messages_again(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    link, intake = linked(4, most_rows=2)
    await collect(intake, 0, 2, 0.0)
    intake.plan_ahead()
    link.next(*numbered(0, 2))
    assert bodies(await intake.collect_ahead(4, 0.0)) == [b"0", b"1"]
    intake.on_away()
    intake.on_back()
    with pytest.raises(BatchLost):
        await intake.collect_ahead(2, 0.0, goes_on=True)
    link.next(*numbered(0, 3))
    intake.ask()
    assert bodies(await intake.collect_ahead(4, 0.0)) == [b"0", b"1"]
    assert bodies(await intake.collect_ahead(2, 0.0, goes_on=True)) == [b"2"]


@pytest.mark.parametrize("again", [0, 1, 2, 4])
@pytest.mark.parametrize("way", ["collect", "collect_ahead", "asked", "collect_queued", "collect_queued_ahead"])
async def test_a_loss_while_the_next_part_is_awaited_begins_the_batch_anew(
    way: str, again: int, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """However many of its messages have come again when the wait for the next part ends."""
    link, intake = linked(6, most_rows=2)
    await collect(intake, 0, 6, 0.0)

    async def part(*, goes_on: bool) -> object:
        match way:
            case "collect":
                return await intake.collect(0, 4, 0.5, goes_on=goes_on)
            case "collect_queued":
                return await intake.collect_queued(0, 4, 0.5, goes_on=goes_on)
            case "collect_queued_ahead":
                return await intake.collect_queued_ahead(4, 0.5, goes_on=goes_on)
            case _:
                return await intake.collect_ahead(4, 0.5, goes_on=goes_on)

    intake.plan_ahead()
    link.next(*numbered(0, 3))
    part_of_two = await part(goes_on=False)
    assert isinstance(part_of_two, BatchPart)
    assert bodies(part_of_two) == [b"0", b"1"]

    async def lose() -> None:
        await trio.sleep(0.1)
        intake.on_away()
        intake.on_back()
        await trio.sleep(0.1)
        link.next(*numbered(0, again))

        def answer() -> None:
            link.drains.pop()()

        link.on_drain = answer
        while link.drains:
            answer()
        await trio.sleep(0.5)
        intake.ask()

    if way == "asked":
        intake.ask()
    nursery.start_soon(lose)
    with trio.fail_after(60.0), pytest.raises(BatchLost):
        await part(goes_on=True)


@pytest.mark.slow
async def test_ids_of_an_earlier_run_and_of_long_ago_are_known_through_losses(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    intake.know(["late"])
    assert await collect(intake, 0, 2, 0.0) == []
    link.next(*numbered(0, 2))
    assert await collect(intake, 0, 2, 0.0) == [b"0", b"1"]
    intake.settle(2)  # the peer does not get these outcomes
    intake.on_away()
    intake.on_back()
    for first in range(2, 12, 2):
        intake.settle(first)
        link.next(*numbered(first, first + 2))
        assert len(await collect(intake, first, 2, 0.0)) == 2
    intake.settle(12)
    intake.on_away()  # the first two are no longer among the latest
    intake.on_back()
    again = [*numbered(0, 2), encode_item(Message(body=b"z", id="late"))]
    for message in again:
        link.next(message)
        assert link.outcomes[-1] == "done"
    assert await collect(intake, 12, 2, 0.0) == []


async def test_a_message_behind_known_ones_may_be_rare_or_unparsable(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(5, reject=True)
    intake.know(["m-0", "late"])
    assert await collect(intake, 0, 5, 0.0) == []
    link.next(*numbered(0, 2))
    link.send([2], {"a": 1})
    assert await collect(intake, 0, 5, 0.0) == [b"1", b'{"a":1}']
    assert link.outcomes == ["done", None, "failed", None]
    assert link.outstanding + link.unsettled == 5


async def test_a_drain_that_is_answered_after_a_detached_link_ends_its_absence(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, intake = linked(2)
    await intake.subscribed()
    Queue(link, b"1", b"2")
    intake.on_away()  # the link comes back, and nobody says so
    assert await collect_queued(intake, 0, 2, 25.0) == [b"1", b"2"]
    link.on_drain = lambda: None
    with trio.fail_after(1_000), pytest.raises(SourceFailed, match="did not answer a drain within 30 s"):
        await collect_queued(intake, 2, 2, 25.0)
