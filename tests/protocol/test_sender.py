"""The sending end, its publisher a probe and its peer the test: how it begins, credit, outcomes, drain."""

from __future__ import annotations

import pytest

from rstreams._core.demand import SLICE
from rstreams.abc import Subscriber
from rstreams.errors import (
    Condition,
    DeliveryFailed,
    LinkDetached,
    SpecViolation,
)
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED, Outcome
from rstreams.protocol.frames import Attach, Detach, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.states import State
from rstreams.testing import ManualPublisher
from tests.protocol.played import (
    LOST,
    REFUSED_BY_RECEIVER,
    REJECTED,
    PlayedSender,
    Source,
    counting,
)

# how it begins


def test_the_publisher_is_subscribed_when_the_peer_has_attached() -> None:
    played = PlayedSender(attached=False)
    assert played.source.subscriptions == 0
    played.attach()
    assert played.source.subscriptions == 1
    assert played.source.requests == []


@pytest.mark.parametrize("condition", ["amqp:not-found", None])
def test_a_refusal_subscribes_nothing_and_is_told(condition: str | None) -> None:
    played = PlayedSender(attached=False)
    played.driver.receive(REFUSED_BY_RECEIVER, Detach(condition=condition, description="no such address"))
    (error,) = played.finished
    assert isinstance(error, LinkDetached)
    assert error.condition == (condition or Condition.LINK_DETACH_FORCED)
    assert played.source.subscriptions == 0
    assert played.detach == Detach()
    assert played.link.state is State.DETACHED


def test_credit_that_comes_before_the_publishers_subscription_is_asked_for_when_it_comes() -> None:
    """A link as publisher signals `on_subscribe` when its own peer has answered: later than our credit."""
    taken: list[Subscriber[int]] = []

    class Late:
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            taken.append(subscriber)

    played = PlayedSender(publisher=Late())
    played.grant(5)
    assert played.end.ledger.owed == 0
    played.source.subscribe(taken[0])
    played.driver.turn()
    assert played.source.requests == [5]


def test_a_second_subscription_is_cancelled() -> None:
    played = PlayedSender()
    second = ManualPublisher[int]()
    second.subscribe(played.end._publisher)
    assert second.cancelled
    assert not played.source.cancelled


def test_a_publisher_whose_subscribe_raises_fails_the_stream() -> None:
    class Broken:
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            raise KeyError(subscriber)

    played = PlayedSender(publisher=Broken())
    assert played.finished == []
    detach = played.driver.link and played.driver.link.state
    assert detach is State.DETACH_SENT
    played.driver.receive(Detach())
    assert isinstance(played.finished[0], KeyError)


# credit


def test_credit_is_asked_of_the_publisher_and_no_more() -> None:
    played = PlayedSender()
    played.grant(5)
    played.grant(5)
    played.grant(8)
    assert played.source.requests == [5, 3]


def test_items_of_one_turn_leave_as_one_run() -> None:
    played = PlayedSender()
    played.grant(5)
    played.source.next(1, 2, 3)
    played.driver.turn()
    assert played.driver.sent == [Transfer(range(3), [b"1", b"2", b"3"])]
    played.source.next(4)
    played.driver.turn()
    assert played.driver.sent[1] == Transfer(range(3, 4), [b"4"])


def test_a_link_is_woken_once_for_what_comes_between_its_turns() -> None:
    played = PlayedSender()
    played.grant(5)
    for items in ((1, 2), (3,)):
        for item in items:
            played.source.next(item)
            assert played.driver.awake is (item != 2), "the second one comes when it is awake"
            played.driver.awake = False
        played.driver.turn()
    assert played.transferred == [1, 2, 3]


def test_a_link_is_woken_for_what_comes_after_it_was_woken_in_vain() -> None:
    played = PlayedSender(resends=True)
    played.grant(5)
    played.source.next(1)
    played.link.lose(Lost(LOST, returns=True))
    played.source.next(2)
    played.driver.wire = 0
    played.link = played.driver.link = played.end.bind("test", played.driver)
    played.link.send(Attach("test", Role.SENDER, "", "a"))
    played.attach()
    played.grant(5)
    played.source.next(3)
    assert played.driver.awake
    played.driver.turn()
    assert played.transferred == [1, 2, 3]


def test_nothing_is_sent_beyond_credit_and_what_waits_goes_first() -> None:
    played = PlayedSender()
    played.grant(4)
    played.driver.wire = 1  # the receiver has withdrawn three
    played.source.next(1, 2, 3, 4)
    played.driver.turn()
    assert played.transferred == [1]
    assert (played.end.ledger.held, played.end.ledger.owed) == (3, 0)
    played.grant(5)
    assert played.transferred == [1, 2, 3, 4]
    assert played.source.requests == [4, 2]


def test_a_publisher_that_answers_inside_request_is_asked_a_slice_at_a_time() -> None:
    source = Source(counting)
    played = PlayedSender(publisher=source)
    played.driver.wire = 3 * SLICE
    played.link.receive(Flow(3 * SLICE))
    played.link.work()
    assert len(played.transferred) == SLICE
    assert played.driver.awake, "there is more: the driver lets others have their turn first"
    played.driver.turn()
    assert len(played.transferred) == 3 * SLICE
    assert sum(source.requests) == 3 * SLICE


def test_a_turn_inside_of_a_request_leaves_everything_to_the_turn_that_is_under_way() -> None:
    """A driver may work for an item of another link, sent inside of the request; this link has its turn then, too."""

    def answer(source: Source, n: int) -> None:
        source.subscriber.on_next(1)
        played.link.work()
        sent.append(len(played.driver.sent))
        for item in range(2, n + 1):
            source.subscriber.on_next(item)

    sent: list[int] = []
    source = Source(answer)
    played = PlayedSender(publisher=source)
    played.grant(3)
    assert (source.requests, sent) == ([3], [0])
    assert played.driver.sent == [Transfer(range(3), [b"1", b"2", b"3"])]


def test_no_more_is_asked_for_than_the_driver_has_room_for() -> None:
    played = PlayedSender()
    played.driver.room = 100_000
    played.grant(1000)
    assert played.source.requests == [6], "16 KiB each, as long as nothing is known about them"
    played.source.next(*range(100, 106))
    played.driver.turn()
    assert sum(played.source.requests) == 6 + 994, "3 bytes each"


def test_a_full_driver_is_left_alone_until_it_wakes_the_link() -> None:
    source = Source(counting)
    played = PlayedSender(publisher=source)
    played.driver.room = 0
    played.grant(10, drain=True)
    assert source.requests == []
    assert played.driver.sent == [], "a drain is not answered while there may be items to send"
    played.driver.room = 100_000
    played.driver.turn()
    assert len(played.transferred) == 10
    assert played.driver.sent[-1] == Flow(0, drain=True)


def test_a_publisher_that_sends_unasked_ends_its_stream() -> None:
    """1.1: else it would fill this end, whatever the receiver's credit."""

    def twice_as_many(source: Source, n: int) -> None:
        counting(source, 2 * n)

    source = Source(twice_as_many)
    played = PlayedSender(publisher=source)
    played.grant(3)
    detach = played.detach
    assert detach is not None
    assert detach.condition == Condition.NOT_ALLOWED
    assert source.cancels == 1
    played.driver.receive(Detach())
    assert isinstance(played.finished[0], SpecViolation)
    assert played.finished[0].rule == "1.1"
    assert played.transferred == []


def test_a_publisher_whose_request_raises_ends_its_stream_after_what_it_sent() -> None:
    def raises(source: Source, n: int) -> None:
        source.subscriber.on_next(n)
        raise KeyError(n)

    source = Source(raises)
    played = PlayedSender(publisher=source)
    played.grant(3)
    assert played.transferred == [3]
    assert source.cancels == 1
    played.settle(ACCEPTED, 0)
    assert played.detach == Detach(condition="amqp:internal-error", description="the publisher failed")
    played.driver.receive(Detach())
    assert isinstance(played.finished[0], KeyError)


def test_a_publisher_whose_cancel_raises_harms_nobody() -> None:
    class Broken(Source):
        def cancel(self) -> None:
            super().cancel()
            raise KeyError

    source = Broken(counting)
    played = PlayedSender(publisher=source, publish=False)
    played.driver.receive(Detach())
    assert isinstance(played.finished[0], KeyError)
    assert source.cancels == 1

    source = Broken(counting)
    played = PlayedSender(publisher=source)
    played.driver.lose(LOST)
    assert repr(played.finished) == repr([LOST])


# outcomes


def test_each_outcome_reaches_the_items_hold() -> None:
    played = PlayedSender(publish=False)
    played.grant(5)
    played.source.next(0, 1, 2, 3, 4)
    played.driver.turn()
    assert played.end.unsettled == 5
    played.settle(ACCEPTED, 0, 3)
    played.settle(RELEASED, 1)
    played.settle(FAILED, 2)
    played.settle(REJECTED, 4)
    assert played.source.outcomes == ["done", "released", "failed", "done", "failed"]
    rejection = played.source.errors[4]
    assert isinstance(rejection, DeliveryFailed)
    assert (rejection.outcome, rejection.condition, rejection.description) == ("rejected", "x:bad", "unreadable")
    assert played.end.accepted == 2
    assert played.end.unsettled == 0
    assert played.detach is None, "a served stream goes on after a refused item"


def test_an_outcome_that_nobody_waits_for_is_counted_and_changes_nothing() -> None:
    played = PlayedSender()
    played.grant(1)
    played.source.next(7)
    played.driver.turn()
    played.settle(ACCEPTED, 9, 0)
    played.settle(ACCEPTED, 0, 5)
    played.settle(RELEASED, 0)
    assert played.end.late == 4
    assert played.end.accepted == 1
    assert played.source.outcomes == ["done"]
    assert not played.source.cancelled


def test_a_sending_end_whose_owner_knows_no_reason_gives_none_for_a_stall() -> None:
    assert PlayedSender().end._publisher.stall() == ""


def test_nothing_has_room_where_nothing_comes() -> None:
    assert PlayedSender().end.intake is None


def test_at_most_once_sends_settled_and_takes_no_hold() -> None:
    played = PlayedSender(settlement=Settlement.AT_MOST_ONCE)
    played.grant(2)
    played.source.next(1, 2)
    assert played.source.outcomes == ["done", "done"]
    played.driver.turn()
    assert played.driver.sent == [Transfer(range(2), [b"1", b"2"], settled=True)]
    played.source.complete()
    played.driver.turn()
    assert played.detach == Detach()
    played.driver.receive(Detach())
    assert played.finished == [None]
    assert (played.end.accepted, played.end.outcome_unknown) == (2, 0)


def test_a_source_without_holds_is_served_the_same() -> None:
    played = PlayedSender(publisher=Source(counting))
    played.grant(3)
    played.settle(ACCEPTED, 0, 1, 2)
    assert played.end.accepted == 3


def gave_up(told: str) -> Detach:
    return Detach(condition="amqp:link:detach-forced", description=f"the publisher gave up after an item was {told}")


@pytest.mark.parametrize(("outcome", "told"), [(RELEASED, "released"), (FAILED, "modified"), (REJECTED, "rejected")])
def test_publish_ends_with_the_first_item_that_is_not_accepted(outcome: Outcome, told: str) -> None:
    played = PlayedSender()
    played.grant(4)
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.settle(ACCEPTED, 0)
    played.settle(outcome, 1)
    assert played.source.cancelled
    assert played.detach is None, "one outcome is still to come"
    played.settle(REJECTED, 2)
    assert played.detach == gave_up(told)
    played.driver.receive(Detach())
    (error,) = played.finished
    assert isinstance(error, DeliveryFailed)
    assert (error.outcome, error.condition, error.accepted) == (told, outcome.condition, 1)


def test_what_waits_for_credit_when_an_item_is_refused_is_given_back() -> None:
    played = PlayedSender()
    played.grant(3)
    played.driver.wire = 1
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.settle(REJECTED, 0)
    assert played.source.outcomes == ["failed", "released", "released"]
    assert played.detach == gave_up("rejected")
    assert (played.end.ledger.held, played.end.ledger.owed) == (0, 0)


# drain


def test_law_3_a_drain_is_answered_at_once_and_what_is_owed_takes_the_next_credit() -> None:
    played = PlayedSender()
    played.grant(5)
    played.source.next(0)
    played.driver.wire = 5
    played.driver.receive(Flow(5, drain=True))
    assert played.driver.sent == [Transfer(range(1), [b"0"]), Flow(0, drain=True)]
    played.driver.wire = 0
    played.source.next(1, 2)
    played.driver.turn()
    assert len(played.driver.sent) == 2
    assert (played.end.ledger.held, played.end.ledger.owed) == (2, 2)
    played.grant(3)
    assert played.transferred == [0, 1, 2]
    assert played.source.requests == [5]


def test_an_item_may_be_sent_at_once_unless_a_drain_waits_for_its_answer() -> None:
    """Inside of a signal nobody knows whether the publisher is about to send another item."""
    source = Source(lambda _source, _n: None)
    source.comes_later = True
    played = PlayedSender(publisher=source)
    played.grant(3)
    source.subscriber.on_next(1)
    assert played.driver.for_item
    played.driver.turn()
    played.grant(2, drain=True)
    source.subscriber.on_next(2)
    assert played.driver.awake
    assert not played.driver.for_item
    source.comes_later = False
    played.driver.turn()
    assert played.transferred == [1, 2]
    assert played.driver.sent[-1] == Flow(0, drain=True)


def test_a_drain_is_answered_once() -> None:
    played = PlayedSender()
    played.grant(5, drain=True)
    played.driver.turn()
    assert played.driver.sent == [Flow(0, drain=True)]


def test_a_drain_taken_back_is_not_answered() -> None:
    played = PlayedSender(publisher=Source(counting))
    played.driver.room = 0
    played.grant(5, drain=True)
    played.driver.room = 100_000
    played.grant(5)
    assert played.driver.sent == [Transfer(range(5), [b"1"] * 5)]


def test_a_drain_of_a_publisher_that_answers_at_once_sends_all_there_is() -> None:
    def three(source: Source, n: int) -> None:
        for _ in range(min(n, 3)):
            source.subscriber.on_next(1)

    played = PlayedSender(publisher=Source(three))
    played.grant(10, drain=True)
    assert len(played.transferred) == 3
    assert played.driver.sent[-1] == Flow(0, drain=True)
