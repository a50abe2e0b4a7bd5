"""What a sending link may have unsettled: a bound of its own, and what the links of a connection and a node share."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

import pytest

from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED
from rstreams.protocol.frames import Attach, Disposition, Flow, Lost, Role, Settlement
from rstreams.protocol.unsettled import GUARANTEED_BYTES, OVERHEAD_BYTES, Budget, Share, UnsettledLimits
from rstreams.sources import from_iterable
from tests.protocol.played import LOST, PlayedDriver, PlayedSender

MOST_CREDIT = 2**31 - 1
COST = OVERHEAD_BYTES + 1


def sending(*items: int, credit: int = MOST_CREDIT, **options: Any) -> PlayedSender:  # noqa: ANN401 - of the sender
    """Return a sender of an endless source, or of these items, whose receiver has granted credit."""
    played = PlayedSender(publisher=from_iterable(items or repeat(1)), publish=False, **options)
    played.grant(credit)
    return played


def accept(played: PlayedSender, first: int, end: int) -> None:
    played.driver.receive(Disposition(range(first, end), ACCEPTED))


def test_who_never_settles_gets_no_more_than_the_bound_and_goes_on_when_some_are_settled() -> None:
    played = sending(*range(100), unsettled=UnsettledLimits(5))
    assert played.transferred == [0, 1, 2, 3, 4]
    assert played.end.waits_for == "waits for settlement: 5 unsettled"
    accept(played, 0, 2)
    assert played.transferred == [0, 1, 2, 3, 4, 5, 6]
    assert played.end.unsettled == 5
    accept(played, 2, 7)
    assert played.end.unsettled == 5


@pytest.mark.parametrize("outcome", [FAILED, RELEASED])
def test_any_outcome_makes_room_for_the_next_item(outcome: Any) -> None:  # noqa: ANN401 - an outcome
    played = sending(*range(100), unsettled=UnsettledLimits(2))
    played.settle(outcome, 1)
    assert played.transferred == [0, 1, 2]
    assert played.end.unsettled == 2


def test_an_item_that_is_held_by_the_publisher_counts_like_any_other() -> None:
    played = PlayedSender(publish=False, unsettled=UnsettledLimits(3))
    played.grant(MOST_CREDIT)
    assert played.source.requests == [3]
    played.source.next(0, 1, 2)
    played.driver.turn()
    assert played.source.requests == [3]
    played.settle(ACCEPTED, 1)
    assert played.source.requests == [3, 1]


def test_the_bound_in_bytes_counts_each_message_as_large_as_it_is() -> None:
    played = sending(1, 22, 333, 4444, 55555, unsettled=UnsettledLimits(size=6))
    assert played.transferred == [1, 22, 333]
    accept(played, 0, 1)
    assert played.transferred == [1, 22, 333], "5 bytes are on hand, and the next message has 4"
    accept(played, 1, 3)
    assert played.transferred == [1, 22, 333, 4444]


def test_a_message_larger_than_the_bound_goes_alone() -> None:
    played = sending(1234567, 2, unsettled=UnsettledLimits(size=3))
    assert played.transferred == [1234567]
    accept(played, 0, 1)
    assert played.transferred == [1234567, 2]


def test_what_is_sent_settled_has_no_bound_but_credit() -> None:
    played = sending(credit=50, unsettled=UnsettledLimits(5), settlement=Settlement.AT_MOST_ONCE)
    assert len(played.transferred) == 50
    assert not played.end.waits_for


def test_a_drain_is_answered_when_all_that_there_is_has_been_sent() -> None:
    played = PlayedSender(publisher=from_iterable(chain(range(7))), publish=True, unsettled=UnsettledLimits(3))
    played.grant(20, drain=True)
    assert played.transferred == [0, 1, 2]
    assert not drained(played), "there is more, and to say otherwise would be wrong"
    accept(played, 0, 3)
    assert (len(played.transferred), drained(played)) == (6, False)
    accept(played, 3, 4)
    assert (len(played.transferred), drained(played)) == (7, True)


def test_a_drain_is_answered_at_once_if_the_last_item_reaches_the_bound() -> None:
    played = sending(*range(3), unsettled=UnsettledLimits(3), credit=0)
    played.grant(20, drain=True)
    assert (len(played.transferred), drained(played)) == (3, True)


def test_a_publisher_that_is_asked_what_more_there_is_for_a_drain_is_asked_once() -> None:
    played = PlayedSender(publish=False, unsettled=UnsettledLimits(2))
    played.grant(20)
    played.source.next(0, 1)
    played.driver.turn()
    played.grant(20, drain=True)
    assert played.source.requests == [2, 1]
    assert drained(played)
    played.grant(20, drain=True)
    assert played.source.requests == [2, 1]


def test_a_link_that_is_lost_and_returns_counts_what_it_sends_again_once() -> None:
    played = PlayedSender(publisher=from_iterable(repeat(1)), publish=True, resends=True, unsettled=UnsettledLimits(4))
    played.grant(MOST_CREDIT)
    assert played.end.unsettled == 4
    played.link.lose(Lost(LOST, returns=True))
    played.driver = PlayedDriver()
    played.link = played.driver.link = played.end.bind("again", played.driver)
    played.link.send(Attach("again", Role.SENDER, "", "a"))
    played.driver.receive(Attach("again", Role.RECEIVER, "", "a"))
    assert played.end.unsettled == 4, "they are held, to be sent again"
    played.grant(MOST_CREDIT)
    assert (played.end.unsettled, played.end.resent, len(played.transferred)) == (4, 4, 4)


# what links share


def test_a_connection_alone_gets_half_of_the_budget_and_the_next_ones_parts_of_what_is_left() -> None:
    budget = Budget(12_000_000)
    shares = [Share(budget) for _ in range(3)]
    for share in shares:
        while share.room() > 0:
            share.take(min(share.room(), 1000))
    assert [share.kept for share in shares] == [6_000_000, 3_000_000, 1_500_000]


def test_who_comes_when_nothing_is_left_still_gets_what_is_guaranteed() -> None:
    budget = Budget(10)
    first, second = Share(budget), Share(budget)
    first.take(GUARANTEED_BYTES)
    assert first.room() == 0
    assert second.room() == GUARANTEED_BYTES


def test_what_a_connection_has_used_it_may_use_again_and_gives_back_at_its_end() -> None:
    budget = Budget(8_000_000)
    first, second = Share(budget), Share(budget)
    first.take(4_000_000)
    first.give(4_000_000)
    assert budget.taken == 4_000_000, "the engine keeps the memory of settled deliveries"
    assert first.room() >= 4_000_000
    assert second.room() == 2_000_000
    first.end()
    assert budget.taken == 0
    assert second.room() == 4_000_000


def test_a_link_that_waits_goes_on_with_what_an_ended_connection_gives_back() -> None:
    budget = Budget(8_000_000)
    ended, share = Share(budget), Share(budget)
    ended.take(8_000_000 - GUARANTEED_BYTES)
    one, waiting = (
        sending(share=share, unsettled=UnsettledLimits(100)),
        sending(share=share, unsettled=UnsettledLimits(100)),
    )
    assert one.end.unsettled + waiting.end.unsettled <= GUARANTEED_BYTES // COST + 1
    one.driver.awake = waiting.driver.awake = False
    ended.end()
    assert (one.driver.awake, waiting.driver.awake) == (True, True)
    one.driver.turn()
    waiting.driver.turn()
    assert (one.end.unsettled, waiting.end.unsettled) == (100, 100)


def test_of_the_links_that_wait_for_the_connections_share_each_has_its_turn() -> None:
    share = Share(Budget(10))
    woken: list[str] = []

    def first() -> None:
        woken.append("first")

    share.take(GUARANTEED_BYTES)
    share.wait(first)
    share.wait(lambda: woken.append("second"))
    assert woken == []
    share.give(COST)
    assert woken == ["first"]
    share.give(COST)
    assert woken == ["first"]
    share.go_on(first)  # it has taken the room that it needs
    assert woken == ["first", "second"]


def test_as_many_links_are_woken_as_there_is_room_for() -> None:
    share = Share(Budget(10))
    woken: list[int] = []
    cost = GUARANTEED_BYTES // 10
    while share.room() > 0:
        share.take(cost)
    for number in range(300):
        share.wait(lambda number=number: woken.append(number))  # type: ignore[misc]
    share.give(3 * cost)
    assert woken == [0, 1, 2]
    share.give(cost)
    assert woken == [0, 1, 2, 3]


def test_a_link_takes_no_room_before_those_that_wait() -> None:
    share = Share(Budget(10))
    one, waiting = sending(share=share), sending(share=share)
    assert waiting.end.unsettled == 0
    accept(one, 0, 10)
    sent = one.end.unsettled
    accept(one, 10, 20)
    assert waiting.driver.awake
    assert one.end.unsettled == sent - 10
    waiting.driver.turn()
    assert waiting.end.unsettled > 0


def test_links_of_one_connection_share_and_another_connection_does_not_notice() -> None:
    budget = Budget(10)
    mine, other = Share(budget), Share(budget)
    most = GUARANTEED_BYTES // COST
    one, waiting = sending(share=mine), sending(share=mine)
    assert one.end.unsettled in {most, most + 1}
    assert waiting.end.unsettled <= 1
    assert waiting.end.waits_for == f"waits for settlement: {waiting.end.unsettled} unsettled"
    stranger = sending(share=other)
    assert stranger.end.unsettled == one.end.unsettled
    waiting.driver.awake = False
    one.driver.receive(Disposition(range(10), ACCEPTED))
    one.link.receive(Disposition(range(10, 20), ACCEPTED))
    assert waiting.driver.awake, "before the link that has made room"
    waiting.driver.turn()
    assert waiting.end.unsettled > 0


def test_a_link_that_ends_leaves_its_part_of_the_share_to_those_that_wait() -> None:
    share = Share(Budget(10))
    one, waiting = sending(share=share), sending(share=share)
    before = waiting.end.unsettled
    waiting.driver.awake = False
    one.driver.lose(LOST)
    assert waiting.driver.awake
    assert share.used == before * COST


@pytest.mark.parametrize("tags", [[3], [0, 2], [4, 1]])
def test_sizes_are_exact_in_whatever_order_items_are_settled(tags: list[int]) -> None:
    share = Share(Budget(10**9))
    items = [1, 22, 333, 4444, 55555]
    played = sending(*items, credit=5, share=share)
    played.settle(ACCEPTED, *tags)
    left = [len(str(item)) for at, item in enumerate(items) if at not in tags]
    assert share.used == sum(left) + OVERHEAD_BYTES * len(left)
    assert played.end.unsettled == len(left)


def test_what_is_given_back_later_is_counted_as_gone_at_once() -> None:
    given: list[Any] = []
    played = PlayedSender(publish=False, unsettled=UnsettledLimits(3), finish_later=given.append)
    played.grant(3)
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.driver.lose(LOST)
    assert (played.end.unsettled, played.end.outcome_unknown) == (0, 3)
    (ends,) = given
    assert len(list(ends)) == 3


def drained(played: PlayedSender) -> bool:
    return any(isinstance(frame, Flow) and frame.drain for frame in played.driver.sent)
