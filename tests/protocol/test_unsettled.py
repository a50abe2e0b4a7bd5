"""What a sending link may have unsettled: a bound of its own, and what the links of a connection and a node share."""

from __future__ import annotations

import pytest

from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Disposition, Flow, Settlement
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.unsettled import GUARANTEED_BYTES, OVERHEAD_BYTES, Budget, Share
from rstreams.sources import from_iterable
from tests.protocol.played import PlayedDriver
from tests.protocol.sending import sending_to

MOST_CREDIT = 2**31 - 1


def test_who_never_settles_gets_no_more_than_the_bound_and_goes_on_when_some_are_settled() -> None:
    driver, end = sending_to(from_iterable(range(100)), credit=MOST_CREDIT, max_unsettled=5)
    driver.turn()
    assert payloads(driver) == [b"0", b"1", b"2", b"3", b"4"]
    assert end.waits_for == "waits for settlement: 5 unsettled"
    settle(driver, range(1, 3))
    assert payloads(driver)[5:] == [b"5", b"6"]
    assert end.unsettled == 5


def test_the_bound_in_bytes_counts_each_message_as_large_as_it_is() -> None:
    driver, end = sending_to(from_iterable([1, 22, 333, 4444, 55555]), credit=MOST_CREDIT, max_unsettled_bytes=6)
    driver.turn()
    assert payloads(driver) == [b"1", b"22", b"333"]
    settle(driver, range(1, 2))  # 4 bytes are on hand, and the next one has 4
    assert payloads(driver)[3:] == []
    settle(driver, range(2, 3))
    assert payloads(driver)[3:] == [b"4444"]
    assert end.unsettled == 2


def test_a_message_larger_than_the_bound_goes_alone() -> None:
    driver, _ = sending_to(from_iterable([1234567, 2]), credit=MOST_CREDIT, max_unsettled_bytes=3)
    driver.turn()
    assert payloads(driver) == [b"1234567"]
    settle(driver, range(1))
    assert payloads(driver)[1:] == [b"2"]


def test_what_is_sent_settled_has_no_bound_but_credit() -> None:
    driver, end = sending_to(
        from_iterable(range(100)), credit=50, max_unsettled=5, settlement=Settlement.AT_MOST_ONCE
    )
    driver.turn()
    assert len(payloads(driver)) == 50
    assert not end.waits_for


def test_a_drain_is_answered_when_all_that_there_is_has_been_settled_and_sent() -> None:
    driver, _ = sending_to(from_iterable(range(7)), credit=0, max_unsettled=3, completes=False)
    driver.wire = 20
    driver.hear(Flow(20, drain=True))
    driver.turn()
    assert len(payloads(driver)) == 3
    assert drained(driver) == 0, "there is more, and it is held back: to say otherwise would be wrong"
    settle(driver, range(3))
    assert (len(payloads(driver)), drained(driver)) == (6, 0)
    settle(driver, range(3, 4))
    assert (len(payloads(driver)), drained(driver)) == (7, 1)


def test_a_drain_is_answered_at_once_if_the_bound_is_reached_by_the_last_item() -> None:
    driver, _ = sending_to(from_iterable(range(3)), credit=0, max_unsettled=3, completes=False)
    driver.wire = 20
    driver.hear(Flow(20, drain=True))
    driver.turn()
    assert (len(payloads(driver)), drained(driver)) == (3, 1)


def test_a_link_that_is_lost_and_returns_counts_what_it_sends_again_once() -> None:
    driver, end = sending_to(from_iterable(range(9)), credit=4, max_unsettled=4, resends=True)
    driver.turn()
    assert end.unsettled == 4
    again = PlayedDriver()
    driver.lose(returns=True)
    again.attach(end, credit=MOST_CREDIT)
    again.turn()
    assert payloads(again) == [b"0", b"1", b"2", b"3"]
    assert end.unsettled == 4


# what links share

COST = OVERHEAD_BYTES + 1


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


def test_of_the_links_that_wait_for_the_connections_share_each_has_its_turn() -> None:
    share = Share(Budget(10))
    woken: list[str] = []
    share.take(GUARANTEED_BYTES)
    share.wait(lambda: woken.append("first"))
    share.wait(lambda: woken.append("second"))
    assert woken == []
    share.give(COST)
    assert woken == ["first"]
    share.pass_on()  # the first one has taken what it needs
    assert woken == ["first", "second"]


def test_links_of_one_connection_share_and_another_connection_does_not_notice() -> None:
    budget = Budget(10)
    mine, other = Share(budget), Share(budget)
    most = -(-GUARANTEED_BYTES // COST)
    one, end = sending_to(from_iterable(iter(lambda: 1, 2)), credit=MOST_CREDIT, share=mine)
    one.turn()
    assert end.unsettled == most
    two, waiting = sending_to(from_iterable(iter(lambda: 1, 2)), credit=MOST_CREDIT, share=mine)
    two.turn()
    assert (waiting.unsettled, waiting.waits_for) == (0, "waits for settlement: 0 unsettled")
    three, stranger = sending_to(from_iterable(iter(lambda: 1, 2)), credit=MOST_CREDIT, share=other)
    three.turn()
    assert stranger.unsettled == most
    two.awake = False
    settle(one, range(10), turns=False)
    assert two.awake
    two.turn()
    assert waiting.unsettled > 0


def test_a_link_that_ends_leaves_its_part_of_the_share_to_those_that_wait() -> None:
    share = Share(Budget(10))
    one, _ = sending_to(from_iterable(iter(lambda: 1, 2)), credit=MOST_CREDIT, share=share)
    one.turn()
    two, waiting = sending_to(from_iterable(iter(lambda: 1, 2)), credit=MOST_CREDIT, share=share)
    two.turn()
    assert waiting.unsettled == 0
    two.awake = False
    one.lose(returns=False)
    assert two.awake
    assert share.used == 0


@pytest.mark.parametrize("tags", [[3], [0, 2], [4, 1]])
def test_sizes_are_exact_in_whatever_order_items_are_settled(tags: list[int]) -> None:
    share = Share(Budget(10**9))
    items = [1, 22, 333, 4444, 55555]
    driver, end = sending_to(from_iterable(items), credit=5, share=share, completes=False)
    driver.turn()
    driver.hear(Disposition(tags, ACCEPTED, settled=True))
    left = [len(str(item)) for at, item in enumerate(items) if at not in tags]
    assert share.used == sum(left) + OVERHEAD_BYTES * len(left)
    assert end.unsettled == len(left)


def payloads(driver: PlayedDriver) -> list[bytes]:
    return [payload for frame in driver.transfers for payload in frame.payloads]


def drained(driver: PlayedDriver) -> int:
    return sum(isinstance(frame, Flow) for frame in driver.sent)


def settle(driver: PlayedDriver, tags: range, *, turns: bool = True) -> None:
    driver.hear(Disposition(tags, ACCEPTED, settled=True))
    if turns:
        driver.turn()


assert LinkSubscriber
