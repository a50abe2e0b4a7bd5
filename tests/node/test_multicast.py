"""The multicast address: everyone's own copy, at the pace of the slowest or with the oldest dropped."""

import itertools
import logging
from typing import Literal

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Suspendable
from rstreams.errors import ConfigError, DemandError
from rstreams.node.multicast import MulticastAddress
from rstreams.testing import ManualPublisher, ProbeSubscriber


def produced(address: MulticastAddress) -> ManualPublisher[bytes]:
    """Return a producer link of `address`, played by hand."""
    link = ManualPublisher[bytes]()
    link.subscribe(address.producer())
    return link


def subscribed(address: MulticastAddress, request: int = 0) -> ProbeSubscriber[bytes]:
    probe = ProbeSubscriber[bytes](request)
    address.subscribe(probe)
    return probe


# block


def test_each_subscriber_has_its_own_copy() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    one, two = subscribed(address, 3), subscribed(address, 3)
    link.next(b"a", b"b", b"c")
    assert one.items == two.items == [b"a", b"b", b"c"]
    assert link.outcomes == ["done"] * 3
    now = address.statistics()
    assert (now.enqueued, now.copies, now.delivered) == (3, 6, 6)


def test_without_a_subscriber_there_is_no_credit() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    assert link.requested == 0
    probe = subscribed(address)
    assert link.requested == 0
    probe.request(1)
    assert link.requested == 1


def test_the_credit_is_the_slowest_subscribers() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    fast = subscribed(address, 10)
    assert link.outstanding == 10
    slow = subscribed(address)
    link.next(*[b"x"] * 10)
    fast.request(20)
    assert (link.outstanding, address.statistics().subscribers[1].pending) == (0, 10)
    slow.request(13)
    assert link.outstanding == 3
    slow.request(4)
    assert link.outstanding == 7
    fast.request(100)
    assert link.outstanding == 7


def test_what_subscribers_ask_for_while_an_item_is_passed_on_is_granted_when_all_have_it() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    first = ProbeSubscriber[bytes](1, on_item=lambda _: first.request(1))
    second = ProbeSubscriber[bytes](1)
    address.subscribe(first)
    address.subscribe(second)
    link.next(b"a")
    assert link.outstanding == 0
    second.on_item = lambda _: second.request(1)
    second.request(1)
    link.next(b"b")
    assert link.outstanding == 1
    small = MulticastAddress("m", capacity=10)
    link = produced(small)
    first = ProbeSubscriber[bytes](8, on_item=lambda _: first.request(1))
    small.subscribe(first)
    link.next(b"a")
    assert link.requests == [8, 1]


def test_unbounded_demand_is_bounded_by_the_capacity() -> None:
    address = MulticastAddress("m", capacity=5)
    link = produced(address)
    probe = subscribed(address, UNBOUNDED)
    assert link.outstanding == 5
    for _ in range(100):
        link.next(b"x")
        assert 3 <= link.outstanding <= 5
    assert len(probe.items) == 100


def test_a_late_joiner_sees_new_items_only_and_what_was_granted_waits_for_it() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    early = subscribed(address, 4)
    link.next(b"a")
    late = subscribed(address)
    link.next(b"b", b"c")
    assert (early.items, late.items) == ([b"a", b"b", b"c"], [])
    late.request(1)
    assert late.items == [b"b"]
    early.request(10)
    assert link.outstanding == 1
    late.request(3)
    assert late.items == [b"b", b"c"]
    assert link.outstanding == 2


def test_who_leaves_is_no_longer_waited_for() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    slow, fast = subscribed(address), subscribed(address, 10)
    slow.request(1)
    assert link.outstanding == 1
    slow.cancel()
    assert link.outstanding == 10
    fast.cancel()
    assert (len(address.statistics().subscribers), link.outstanding) == (0, 10)


def test_what_arrives_after_the_last_subscriber_left_waits_for_the_next_one() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    probe = subscribed(address, 3)
    probe.cancel()
    link.next(b"a", b"b")
    assert link.outcomes == [None, None], "nobody has got them"
    now = address.statistics()
    assert (now.enqueued, now.unrouted, now.held, now.copies, now.credit) == (2, 0, 2, 0, 1)
    assert address.explain() == "multicast 'm': 0 subscribers, 0 items pending, 2 items held for the next subscriber"
    subscribed(address).cancel()
    assert address.statistics().held == 2, "it has not got them either"
    later = subscribed(address, 10)
    assert (later.items, link.outcomes) == ([b"a", b"b"], ["done", "done"])
    link.next(b"c")
    assert later.items == [b"a", b"b", b"c"]
    assert address.statistics().unrouted == 0


def test_producers_that_wait_for_a_first_subscriber_are_told_so() -> None:
    address = MulticastAddress("m")
    produced(address)
    assert address.explain() == "multicast 'm': 0 subscribers, 0 items pending; 1 producer waits for a subscriber"
    dropping = MulticastAddress("n", overflow="drop_oldest")
    produced(dropping)
    assert dropping.explain() == "multicast 'n': 0 subscribers, 0 items pending"


def test_a_node_that_is_drained_gives_back_what_nobody_is_there_for() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    subscribed(address, 3).cancel()
    link.next(b"a")
    address.on_drain()
    link.next(b"b")
    assert link.outcomes == ["released", "released"]
    assert address.statistics().held == 0


def test_what_waits_for_one_that_leaves_is_counted() -> None:
    address = MulticastAddress("m")
    link = produced(address)
    subscribed(address, 2)
    leaving = subscribed(address)
    link.next(b"a", b"b")
    leaving.cancel()
    leaving.cancel()
    now = address.statistics()
    assert (now.copies, now.delivered, now.abandoned, now.pending) == (4, 2, 2, 0)


def test_several_producers_share_the_credit_evenly() -> None:
    address = MulticastAddress("m")
    links = [produced(address) for _ in range(4)]
    subscribed(address, 40)
    assert [link.outstanding for link in links] == [10, 10, 10, 10]


def test_an_idle_producer_does_not_keep_others_from_sending() -> None:
    address = MulticastAddress("m")
    idle, busy = produced(address), produced(address)
    probe = subscribed(address)
    for number in range(10):
        probe.request(1)
        assert (idle.outstanding, busy.outstanding) == (1, 1)
        busy.next(bytes([number]))
    assert len(probe.items) == 10


def test_the_item_each_producer_may_send_waits_for_the_subscriber() -> None:
    address = MulticastAddress("m")
    links = [produced(address) for _ in range(3)]
    probe = subscribed(address, 1)
    for link in links:
        link.next(b"x")
    assert address.statistics().subscribers[0].pending == 2
    probe.request(2)
    assert len(probe.items) == 3
    assert not any(link.outstanding for link in links)


def test_pending_items_never_exceed_the_capacity_however_many_producers() -> None:
    address = MulticastAddress("m", capacity=3)
    links = [produced(address) for _ in range(5)]
    subscribed(address, 1)
    assert sum(link.outstanding for link in links) == 3
    late = subscribed(address)
    for link in links:
        link.next(*[b"x"] * link.outstanding)
    assert address.statistics().subscribers[1].pending == 3
    late.cancel()


def test_the_credit_of_a_producer_that_leaves_goes_to_the_others() -> None:
    address = MulticastAddress("m")
    one, two = produced(address), produced(address)
    subscribed(address, 10)
    assert (one.outstanding, two.outstanding) == (5, 5)
    one.complete()
    assert two.outstanding == 10
    assert (address.statistics().producers, address.statistics().credit) == (1, 10)


def test_producers_take_turns_at_what_is_left_beside_one_that_holds_too_much() -> None:
    address = MulticastAddress("m")
    hog = produced(address)
    probe = subscribed(address, 90)
    one, two = produced(address), produced(address)
    probe.request(10)
    assert (one.outstanding, two.outstanding) == (9, 1)
    one.next(*[b"x"] * 9)
    two.next(b"x")
    assert (one.outstanding, two.outstanding) == (1, 1)
    probe.request(11)
    assert (one.outstanding, two.outstanding) == (1, 10)
    assert hog.outstanding == 90


# drop_oldest


def test_with_drop_oldest_there_is_always_credit() -> None:
    address = MulticastAddress("m", "drop_oldest", capacity=8)
    link = produced(address)
    assert link.outstanding == 8
    for _ in range(100):
        link.next(b"x")
        assert link.outstanding >= 4
    assert len(link.requests) <= 26
    assert address.statistics().unrouted == 100


def test_the_oldest_are_dropped_and_counted_for_each_subscriber_and_in_all() -> None:
    address = MulticastAddress("m", "drop_oldest", capacity=3)
    link = produced(address)
    slow, slower, fast = subscribed(address, 1), subscribed(address), subscribed(address, 10)
    for item in b"abcdef":
        link.next(bytes([item]))
    now = address.statistics()
    assert [each.dropped for each in now.subscribers] == [2, 3, 0]
    assert [each.pending for each in now.subscribers] == [3, 3, 0]
    assert [each.arrived for each in now.subscribers] == [6, 6, 6]
    assert (now.dropped, now.copies, now.delivered, now.pending) == (5, 18, 7, 6)
    slow.request(10)
    slower.request(10)
    assert b"".join(slow.items) == b"adef"
    assert b"".join(slower.items) == b"def"
    assert b"".join(fast.items) == b"abcdef"
    slow.cancel()
    assert address.statistics().dropped == 5


def test_with_drop_oldest_a_late_joiner_sees_new_items_only() -> None:
    address = MulticastAddress("m", "drop_oldest")
    link = produced(address)
    link.next(b"a")
    late = subscribed(address, 5)
    link.next(b"b")
    assert late.items == [b"b"]


def test_with_drop_oldest_each_of_many_producers_has_credit() -> None:
    address = MulticastAddress("m", "drop_oldest", capacity=2)
    links = [produced(address) for _ in range(5)]
    assert all(link.outstanding for link in links)
    for link in links:
        link.next(b"x")
        assert link.outstanding


# both


@pytest.mark.parametrize("take_runs", [False, True])
def test_with_drop_oldest_a_suspended_subscriber_loses_its_oldest_items_too(*, take_runs: bool) -> None:
    address = MulticastAddress("m", "drop_oldest", capacity=3)
    link = produced(address)
    probe = ProbeSubscriber[bytes](100)
    if take_runs:
        probe.on_run = lambda run: probe.items.extend(run.items())  # type: ignore[attr-defined]
    address.subscribe(probe)
    subscription = probe.subscription
    assert isinstance(subscription, Suspendable)
    subscription.suspend()
    for item in (b"a", b"b", b"c", b"d", b"e"):
        link.next(item)
    assert (probe.items, address.statistics().pending, address.statistics().dropped) == ([], 3, 2)
    subscription.resume()
    link.next(b"f")
    assert probe.items == [b"c", b"d", b"e", b"f"]


MODES: tuple[Literal["block", "drop_oldest"], ...] = ("block", "drop_oldest")
both = pytest.mark.parametrize("overflow", MODES)


@both
def test_all_see_the_items_in_one_order_though_one_makes_a_producer_send(
    overflow: Literal["block", "drop_oldest"],
) -> None:
    address = MulticastAddress("m", overflow)
    link = produced(address)
    first = ProbeSubscriber[bytes](10, on_item=lambda item: link.next(b"b") if item == b"a" else None)
    address.subscribe(first)
    second = subscribed(address, 10)
    link.next(b"a")
    assert first.items == second.items == [b"a", b"b"]


@both
def test_request_inside_on_next_does_not_recurse(overflow: Literal["block", "drop_oldest"]) -> None:
    address = MulticastAddress("m", overflow, capacity=2000)
    link = produced(address)
    subscribed(address, 2000)
    late = subscribed(address)
    link.next(*[b"x"] * 2000)
    depth, deepest = 0, 0

    def more(_: bytes) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        late.request(1)
        depth -= 1

    late.on_item = more
    late.request(1)
    assert (len(late.items), deepest) == (2000, 1)


@both
def test_cancel_inside_on_next(overflow: Literal["block", "drop_oldest"]) -> None:
    address = MulticastAddress("m", overflow)
    link = produced(address)
    later = ProbeSubscriber[bytes](10)

    def cancel_both(_: bytes) -> None:
        first.cancel()
        later.cancel()

    first = ProbeSubscriber[bytes](10, on_item=cancel_both)
    address.subscribe(first)
    address.subscribe(later)
    link.next(b"a")
    link.next(b"b")
    assert (first.items, later.items) == ([b"a"], [])
    assert address.statistics().subscribers == ()


@both
def test_required_3_09_a_bad_request_ends_the_subscriber(overflow: Literal["block", "drop_oldest"]) -> None:
    address = MulticastAddress("m", overflow)
    probe = subscribed(address)
    probe.request(-1)
    assert isinstance(probe.error, DemandError)
    probe.request(1)
    assert probe.signals == ["on_subscribe", "on_error"]
    assert address.statistics().subscribers == ()


@both
def test_required_1_09_none_is_no_subscriber(overflow: Literal["block", "drop_oldest"]) -> None:
    with pytest.raises(TypeError, match=r"1\.9"):
        MulticastAddress("m", overflow).subscribe(None)  # type: ignore[arg-type]


@both
def test_required_2_13_a_subscriber_that_raises_is_ended_and_no_other_notices(
    overflow: Literal["block", "drop_oldest"], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: bytes) -> None:
        raise LookupError

    address = MulticastAddress("m", overflow)
    link = produced(address)
    broken = ProbeSubscriber[bytes](10, on_item=fail)
    address.subscribe(broken)
    sound = subscribed(address, 10)
    with caplog.at_level(logging.CRITICAL, "rstreams.node"):
        link.next(b"a", b"b")
    assert isinstance(broken.error, LookupError)
    assert broken.items == [b"a"]
    assert sound.items == [b"a", b"b"]
    assert link.outcomes == ["done", "done"]


@both
def test_a_copy_that_is_given_back_is_not_sent_again(overflow: Literal["block", "drop_oldest"]) -> None:
    address = MulticastAddress("m", overflow)
    link = produced(address)
    probe = ProbeSubscriber[bytes](10, hold=True)
    address.subscribe(probe)
    link.next(b"a")
    probe.holds[0].release()
    assert (probe.items, link.outcomes) == ([b"a"], ["done"])


def test_a_publisher_that_answers_at_once_is_held_to_the_limit() -> None:
    address = MulticastAddress("m")
    link = ManualPublisher[bytes]()
    link.on_request = lambda n: link.next(*[b"x"] * n)
    link.subscribe(address.producer())
    quick = ManualPublisher[bytes]()
    quick.on_request = lambda n: quick.next(*[b"y"] * n)
    quick.subscribe(address.producer())
    probe = subscribed(address, 7)
    assert len(probe.items) == 7
    assert address.statistics().subscribers[0].pending <= 1


def test_what_comes_while_an_item_is_handed_over_is_not_dropped() -> None:
    address = MulticastAddress("m", capacity=2)
    calm = produced(address)
    subscribed(address, 100)
    slow = ProbeSubscriber[bytes]()
    address.subscribe(slow)
    calm.next(b"1", b"2")  # both wait for `slow`
    eager = ManualPublisher[bytes]()
    more = iter([b"3", b"4"])
    eager.on_request = lambda _: eager.next(*itertools.islice(more, 1))
    eager.subscribe(address.producer())
    slow.on_item = lambda _: slow.request(1)
    slow.request(3)
    assert slow.items == [b"1", b"2", b"3", b"4"]
    assert address.statistics().dropped == 0


def test_an_overflow_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="multicast 'm': overflow='drop'"):
        MulticastAddress("m", "drop")  # type: ignore[arg-type]


def test_a_capacity_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"multicast 'm'\(capacity=0"):
        MulticastAddress("m", capacity=0)


def test_a_name_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"multicast\(name=''"):
        MulticastAddress("")
