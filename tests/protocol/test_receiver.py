"""The receiving end, its subscriber a probe and its peer the test: refusal, credit, holds, drain, all ways to end."""

from __future__ import annotations

import pytest

from rstreams._demand import UNBOUNDED
from rstreams._holds import NO_HOLD
from rstreams.abc import Hold, Subscription
from rstreams.errors import (
    BufferOverflow,
    Condition,
    ConnectionClosed,
    ConnectionLost,
    DeliveryFailed,
    DemandError,
    LinkDetached,
    LocalProtocolError,
    PublisherFailed,
    RemoteProtocolError,
)
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED, DeliveryHold, Outcome, outcome_of
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import PlayedDriver, PlayedReceiver, decode

REFUSED = Attach("test", Role.SENDER, None, None)
LOST = ConnectionLost("the connection broke")


def never(error: BaseException) -> None:
    raise AssertionError(error)


# how it begins


def test_nothing_is_signalled_or_granted_before_the_peer_has_attached() -> None:
    played = PlayedReceiver(request=5, attached=False)
    played.driver.turn()
    assert played.probe.signals == []
    assert played.driver.take_sent() == [Attach("test", Role.RECEIVER, "a", "")]

    played.attach()
    assert played.probe.signals == ["on_subscribe"]
    assert played.driver.sent == [Flow(5)]


def test_a_refusal_grants_nothing_and_is_an_error_after_the_detach() -> None:
    played = PlayedReceiver(request=5, attached=False)
    played.driver.take_sent()
    played.driver.receive(REFUSED)
    assert played.probe.signals == []
    assert played.driver.sent == []

    played.driver.receive(Detach(condition="amqp:not-found", description="no such address", info={"a": 1}))
    assert played.probe.signals == ["on_subscribe", "on_error"]
    error = played.probe.error
    assert isinstance(error, LinkDetached)
    assert (error.condition, error.description, dict(error.info)) == ("amqp:not-found", "no such address", {"a": 1})
    assert played.driver.sent == [Detach()]
    assert played.link.state is State.DETACHED


def test_a_refusal_that_does_not_say_why_is_an_error_too() -> None:
    played = PlayedReceiver(attached=False)
    played.driver.receive(REFUSED, Detach())
    assert isinstance(played.probe.error, LinkDetached)
    assert played.probe.error.condition == Condition.LINK_DETACH_FORCED
    assert "refused" in str(played.probe.error)


def test_a_detach_instead_of_an_answer_is_an_error() -> None:
    played = PlayedReceiver(attached=False)
    played.driver.receive(Detach(condition="amqp:not-allowed"))
    assert isinstance(played.probe.error, LinkDetached)
    assert played.detach == Detach()


def test_a_connection_lost_before_the_answer_is_an_error_after_on_subscribe_has_returned() -> None:
    """1.3, serial: the subscriber requests in `on_subscribe`, and is not told of the end before it has returned."""
    log: list[str] = []

    class Subscriber(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.request(5)
            log.append("on_subscribe returns")

        def on_error(self, error: BaseException) -> None:
            log.append("on_error")
            super().on_error(error)

    played = PlayedReceiver(probe=Subscriber(), attached=False)
    played.driver.lose(LOST)
    assert log == ["on_subscribe returns", "on_error"]
    assert played.probe.error is LOST
    assert played.probe.signals == ["on_subscribe", "on_error"]


def test_a_subscription_that_never_got_a_link_is_told_what_happened() -> None:
    probe = ProbeSubscriber[int](3)
    end = LinkSubscription(probe, decode=decode, window=8, on_raised=never)
    end.on_lost(Lost(LOST))
    assert probe.signals == ["on_subscribe", "on_error"]
    assert probe.error is LOST
    probe.cancel()


def test_what_is_requested_while_on_subscribe_runs_is_granted_when_it_has_returned() -> None:
    """The driver may let the link work at once: the work waits for the signal, and is not forgotten."""

    class EagerDriver(PlayedDriver):
        def wake(self) -> None:
            assert self.link is not None
            self.link.work()

    class Subscriber(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.request(3)
            assert driver.sent == []

    driver = EagerDriver()
    end = LinkSubscription(Subscriber(), decode=decode, window=8, on_raised=never)
    driver.link = end.bind("test", driver)
    driver.link.receive(Attach("test", Role.SENDER, "", "a"))
    driver.link.send(Attach("test", Role.RECEIVER, "", "a"))
    driver.take_sent()
    end.start()
    assert driver.sent == [Flow(3)]


# items and credit


def test_items_are_handed_over_accepted_and_granted_again() -> None:
    played = PlayedReceiver(window=4, request=6)
    assert played.driver.take_sent() == [Flow(4)]
    played.transfer(4)
    assert played.probe.items == [0, 1, 2, 3]
    assert played.driver.take_sent() == [Disposition([0, 1, 2, 3], ACCEPTED), Flow(2)]


def test_an_empty_transfer_changes_nothing() -> None:
    played = PlayedReceiver(request=2)
    played.transfer(0)
    assert played.driver.sent == [Flow(2)]


def test_demand_adds_up() -> None:
    played = PlayedReceiver(window=100)
    for n in (1, 2, 3):
        played.probe.request(n)
    played.driver.turn()
    played.probe.request(UNBOUNDED)
    played.driver.turn()
    assert played.driver.sent == [Flow(6), Flow(100)]


def test_request_inside_on_next_does_not_recurse() -> None:
    depth = deepest = 0

    def again(_: int) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        played.probe.request(1)
        played.driver.turn()
        depth -= 1

    played = PlayedReceiver(window=8, request=4, on_item=again)
    for _ in range(3):
        played.transfer(played.driver.credit())
    assert deepest == 1
    assert len(played.probe.items) == 12


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "3", None])
def test_required_3_09_a_bad_request_is_an_error_and_detaches(n: object) -> None:
    played = PlayedReceiver(request=2)
    assert played.probe.subscription is not None
    played.probe.subscription.request(n)  # type: ignore[arg-type]
    assert isinstance(played.probe.error, DemandError)
    played.driver.turn()
    assert played.driver.sent == [Flow(2), Flow(0), Detach()]


def test_a_peer_that_sends_more_than_its_credit_is_detached_with_the_condition() -> None:
    played = PlayedReceiver(request=2)
    played.transfer(3)
    assert isinstance(played.probe.error, RemoteProtocolError)
    assert played.probe.error.condition == "amqp:link:transfer-limit-exceeded"
    assert "'test'" in str(played.probe.error)
    assert played.outcomes == dict.fromkeys(range(3), RELEASED)
    detach = played.detach
    assert detach is not None
    assert detach.condition == "amqp:link:transfer-limit-exceeded"
    assert detach.closed


def test_a_peer_that_sends_when_there_is_no_credit_cannot_fill_the_buffer() -> None:
    played = PlayedReceiver()
    for _ in range(3):
        played.transfer(1)
    assert isinstance(played.probe.error, RemoteProtocolError)
    assert played.end.ledger.buffered == 0
    assert played.probe.items == []


# settling


def test_the_disposition_waits_for_the_holds() -> None:
    played = PlayedReceiver(request=5, hold=True)
    played.transfer(5)
    assert played.outcomes == {}
    assert played.end.ledger.unsettled == 5

    played.probe.holds[3].done()
    played.probe.holds[0].fail(ValueError("no"))
    played.probe.holds[1].release()
    played.probe.holds[4].fail(DeliveryFailed("rejected", "x:bad", "unreadable"))
    played.driver.turn()
    rejected = Outcome("rejected", "x:bad", "unreadable")
    assert played.outcomes == {3: ACCEPTED, 0: FAILED, 1: RELEASED, 4: rejected}
    assert played.end.ledger.unsettled == 1

    played.probe.holds[2].done()
    played.probe.holds[2].fail(ValueError("too late"))
    played.driver.turn()
    assert played.outcomes[2] is ACCEPTED


def test_equal_outcomes_in_a_row_are_one_frame() -> None:
    played = PlayedReceiver(request=6, hold=True)
    played.transfer(6)
    played.driver.take_sent()
    for index in (5, 4, 0):
        played.probe.holds[index].release()
    played.probe.holds[1].fail(ValueError("no"))
    for index in (2, 3):
        played.probe.holds[index].done()
    played.driver.turn()
    assert played.driver.take_sent() == [
        Disposition([2, 3], ACCEPTED),
        Disposition([5, 4, 0], RELEASED),
        Disposition([1], FAILED),
    ]


def test_several_holds_on_one_item_the_worst_wins_and_the_last_settles() -> None:
    holds: list[Hold] = []

    def twice(_: int) -> None:
        assert played.probe.subscription is not None
        holds.extend([played.probe.subscription.hold(), played.probe.subscription.hold()])

    played = PlayedReceiver(request=1, on_item=twice)
    played.transfer(1)
    holds[0].release()
    assert played.outcomes == {}
    holds[1].done()
    played.driver.turn()
    assert played.outcomes == {0: RELEASED}


def test_hold_outside_on_next_holds_nothing() -> None:
    played = PlayedReceiver(request=1)
    played.transfer(1)
    assert played.end.hold() is NO_HOLD
    assert played.outcomes == {0: ACCEPTED}


def test_items_that_come_settled_need_no_hold_and_are_not_settled_again() -> None:
    played = PlayedReceiver(window=2, request=UNBOUNDED, hold=True)
    played.transfer(2, settled=True)
    assert played.probe.items == [0, 1]
    assert played.probe.holds == [NO_HOLD, NO_HOLD]
    assert played.driver.sent == [Flow(2), Flow(2)]


def test_the_window_is_what_can_be_held_at_once() -> None:
    played = PlayedReceiver(window=4, attached=False)
    played.driver.receive(Attach("test", Role.SENDER, "a", "", Settlement.AT_LEAST_ONCE))
    assert played.end.window == 4
    played = PlayedReceiver(window=4, attached=False)
    played.driver.receive(Attach("test", Role.SENDER, "a", "", Settlement.AT_MOST_ONCE))
    assert played.end.window == UNBOUNDED, "nobody holds what comes settled"


def test_what_is_held_counts_against_the_window() -> None:
    played = PlayedReceiver(window=4, request=UNBOUNDED, hold=True)
    played.transfer(4)
    assert played.driver.take_sent() == [Flow(4)]
    played.probe.holds[0].done()
    played.driver.turn()
    assert played.driver.take_sent() == [Disposition([0], ACCEPTED), Flow(1)]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("x"), FAILED),
        (DeliveryFailed("released"), RELEASED),
        (DeliveryFailed("modified"), FAILED),
        (DeliveryFailed("rejected"), Outcome("rejected", "amqp:internal-error")),
        (DeliveryFailed("rejected", "a:b", "c"), Outcome("rejected", "a:b", "c")),
    ],
)
def test_an_error_becomes_an_outcome(error: BaseException, outcome: Outcome) -> None:
    assert outcome_of(error) == outcome


@pytest.mark.parametrize("kind", ["rejected", "released", "modified"])
def test_an_outcome_becomes_an_error(kind: str) -> None:
    error = Outcome(kind, "a:b", "c").as_error(accepted=7)  # type: ignore[arg-type]
    assert (error.outcome, error.condition, error.description, error.accepted) == (kind, "a:b", "c", 7)


def test_accepted_is_no_error() -> None:
    with pytest.raises(ValueError, match="no failure"):
        ACCEPTED.as_error()


def test_a_delivery_hold_tells_its_link_each_outcome() -> None:
    class Log:
        def __init__(self) -> None:
            self.told: list[tuple[object, Outcome]] = []

        def settle(self, delivery: object, outcome: Outcome) -> None:
            self.told.append((delivery, outcome))

    log = Log()
    DeliveryHold(log, 1).done()
    DeliveryHold(log, 2).release()
    DeliveryHold(log, 3).fail(ValueError("no"))
    assert log.told == [(1, ACCEPTED), (2, RELEASED), (3, FAILED)]


# drain


def test_a_drain_grants_what_it_may_and_ends_when_the_sender_has_used_it_up() -> None:
    drained: list[int] = []
    played = PlayedReceiver(window=4, request=3)
    played.driver.take_sent()
    played.end.drain(lambda: drained.append(len(played.probe.items)))
    played.driver.turn()
    assert played.driver.sent == [Flow(3, drain=True)]
    played.transfer(2)
    assert drained == []
    played.transfer(1)
    assert drained == [3]


def test_what_the_sender_gives_back_returns_to_demand_and_is_granted_again() -> None:
    drained: list[int] = []
    played = PlayedReceiver(window=8, request=5)
    played.driver.take_sent()
    played.end.drain(lambda: drained.append(len(played.probe.items)))
    played.driver.turn()
    played.transfer(2)
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    assert drained == [2]
    assert played.driver.sent[-1] == Flow(3)
    assert played.end.ledger.demand == 3


def test_a_drain_without_demand_is_over_at_once() -> None:
    drained: list[str] = []
    played = PlayedReceiver()
    played.end.drain(lambda: drained.append("now"))
    played.driver.turn()
    assert drained == ["now"]
    assert played.driver.sent == []


def test_no_credit_is_granted_while_a_drain_is_under_way() -> None:
    played = PlayedReceiver(window=8, request=4)
    played.end.drain(lambda: None)
    played.driver.turn()
    played.driver.take_sent()
    played.probe.request(4)
    played.transfer(3)
    assert not [frame for frame in played.driver.sent if isinstance(frame, Flow)]
    played.transfer(1)
    assert played.driver.sent[-1] == Flow(4)


def test_a_drain_asked_for_during_another_is_one_of_its_own() -> None:
    """The first answer may have been on its way already: it does not say what has been queued since."""
    drained: list[str] = []
    played = PlayedReceiver(window=8, request=4)
    played.end.drain(lambda: drained.append("first"))
    played.end.drain(lambda: drained.append("with it"))
    played.driver.turn()
    played.driver.take_sent()
    played.end.drain(lambda: drained.append("second"))
    played.driver.turn()
    assert played.driver.sent == []
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    assert drained == ["first", "with it"]
    assert played.driver.take_sent() == [Flow(4, drain=True)]
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    assert drained == ["first", "with it", "second"]


def test_after_the_end_no_drain_is_answered() -> None:
    played = PlayedReceiver(window=8, request=4)
    played.end.drain(lambda: pytest.fail("the stream has ended"))
    played.driver.turn()
    played.driver.receive(Detach())
    assert played.probe.completed
    played.end.drain(lambda: pytest.fail("it had ended before"))
    played.driver.turn()


def test_a_drain_callback_that_cancels_silences_the_others() -> None:
    played = PlayedReceiver()
    played.end.drain(played.end.cancel)
    played.end.drain(lambda: pytest.fail("cancelled before"))
    played.driver.turn()
    assert played.detach == Detach()


def test_a_drain_callback_that_raises_loses_the_subscription() -> None:
    def raises() -> None:
        raise KeyError

    played = PlayedReceiver()
    played.end.drain(raises)
    played.driver.turn()
    assert [type(error) for error in played.raised] == [KeyError]
    assert played.detach == Detach()


def test_a_bad_request_in_a_drain_callback_ends_it_there() -> None:
    played = PlayedReceiver()
    played.end.drain(lambda: played.end.request(0))
    played.driver.turn()
    assert isinstance(played.probe.error, DemandError)
    assert played.detach == Detach()


# cancel


def test_cancel_withdraws_the_credit_and_detaches() -> None:
    played = PlayedReceiver(request=5)
    played.driver.take_sent()
    played.probe.cancel()
    played.probe.cancel()
    played.driver.turn()
    assert played.driver.sent == [Flow(0), Detach()]
    assert played.link.state is State.DETACH_SENT

    played.driver.receive(Detach())
    assert played.link.state is State.DETACHED
    assert played.probe.signals == ["on_subscribe"]


def test_after_cancel_nothing_more_is_granted_or_heard() -> None:
    played = PlayedReceiver(request=5, hold=True)
    played.transfer(1)
    played.probe.cancel()
    played.probe.request(10)
    played.probe.request(0)
    played.driver.turn()
    played.transfer(2)
    played.driver.receive(Flow(0))
    assert played.probe.items == [0]
    assert played.outcomes == {1: RELEASED, 2: RELEASED}
    assert played.detach is None, "one item is held still"

    played.probe.holds[0].done()
    played.driver.turn()
    assert played.outcomes[0] is ACCEPTED
    assert played.detach == Detach()
    assert not played.probe.ended


def test_what_crosses_the_detach_is_left_to_the_sender() -> None:
    played = PlayedReceiver(request=5)
    played.probe.cancel()
    played.driver.turn()
    played.transfer(2)
    assert played.outcomes == {}
    played.driver.receive(Detach(condition="amqp:internal-error"))
    assert not played.probe.ended


def test_cancel_inside_on_next_accepts_the_item_in_hand_and_releases_the_others() -> None:
    played = PlayedReceiver(request=5, on_item=lambda item: played.probe.cancel() if item == 1 else None)
    played.transfer(4)
    assert played.probe.items == [0, 1]
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: RELEASED, 3: RELEASED}
    assert played.detach == Detach()
    assert (played.end.ledger.buffered, played.end.ledger.unsettled) == (0, 0)


def test_settled_items_that_were_not_handed_over_are_dropped_by_cancel() -> None:
    played = PlayedReceiver(request=5, on_item=lambda _: played.probe.cancel())
    played.transfer(4, settled=True)
    assert played.probe.items == [0]
    assert played.outcomes == {}
    assert played.detach == Detach()


def test_cancel_before_the_answer_detaches_and_hears_no_more() -> None:
    played = PlayedReceiver(attached=False)
    played.end.cancel()
    played.driver.turn()
    assert played.detach == Detach()
    played.driver.receive(Attach("test", Role.SENDER, "a", ""), Detach())
    assert played.probe.signals == []
    assert played.link.state is State.DETACHED


def test_cancel_after_a_refusal_detaches_and_hears_no_more() -> None:
    played = PlayedReceiver(attached=False)
    played.driver.receive(REFUSED)
    played.end.cancel()
    played.driver.turn()
    assert played.detach == Detach()
    played.driver.receive(Detach(condition="amqp:not-found"))
    assert played.probe.signals == []


# the publisher's end


def test_a_detach_without_error_completes_after_the_last_item() -> None:
    played = PlayedReceiver(request=5)
    played.transfer(2)
    played.driver.receive(Detach())
    assert played.probe.signals == ["on_subscribe", "on_next", "on_next", "on_complete"]
    assert played.driver.sent[-2:] == [Disposition([0, 1], ACCEPTED), Detach()]


def test_law_5_the_answer_to_a_detach_waits_until_all_is_settled() -> None:
    played = PlayedReceiver(request=5, hold=True)
    played.transfer(2)
    played.driver.receive(Detach())
    assert played.probe.completed
    assert played.detach is None
    played.probe.holds[1].fail(ValueError("no"))
    played.driver.turn()
    assert played.detach is None
    played.probe.holds[0].done()
    played.driver.turn()
    assert played.detach == Detach()
    assert played.outcomes == {1: FAILED, 0: ACCEPTED}


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    ("condition", "kind"),
    [("amqp:internal-error", PublisherFailed), ("amqp:link:stolen", LinkDetached), ("shop:sold-out", PublisherFailed)],
)
def test_condition_description_and_info_survive(closed: bool, condition: str, kind: type[LinkDetached]) -> None:  # noqa: FBT001
    played = PlayedReceiver(request=5)
    played.driver.receive(Detach(closed, condition, "why", {"left": 3}))
    error = played.probe.error
    assert type(error) is kind
    assert (error.condition, error.description, dict(error.info)) == (condition, "why", {"left": 3})


def test_a_detach_that_leaves_the_subscription_is_an_error() -> None:
    played = PlayedReceiver()
    played.driver.receive(Detach(closed=False))
    assert isinstance(played.probe.error, LinkDetached)
    assert played.probe.error.condition == Condition.LINK_DETACH_FORCED
    assert not played.probe.completed


def test_terminal_once_whatever_follows() -> None:
    played = PlayedReceiver(request=1)
    played.driver.receive(Detach())
    played.driver.lose(LOST)
    played.probe.request(5)
    played.probe.request(0)
    played.probe.cancel()
    played.driver.turn()
    assert played.probe.signals == ["on_subscribe", "on_complete"]


# the connection's end


def test_a_lost_connection_is_an_error_with_its_cause() -> None:
    cause = ConnectionClosed("amqp:connection:forced", "maintenance")
    played = PlayedReceiver(request=1)
    played.driver.lose(cause)
    assert played.probe.error is cause
    played.driver.lose(LOST)
    assert played.probe.signals == ["on_subscribe", "on_error"]


def test_a_connection_lost_after_the_publishers_end_changes_nothing() -> None:
    played = PlayedReceiver(request=1, hold=True)
    played.transfer(1)
    played.driver.receive(Detach())
    played.driver.lose(LOST)
    assert played.probe.signals == ["on_subscribe", "on_next", "on_complete"]
    played.probe.holds[0].done()
    assert played.detach is None


def test_late_outcomes_after_the_loss_do_nothing() -> None:
    played = PlayedReceiver(request=3, hold=True)
    played.transfer(3)
    played.driver.take_sent()
    played.driver.lose(LOST)
    for hold, end in zip(played.probe.holds, ("done", "fail", "release"), strict=True):
        if end == "fail":
            hold.fail(ValueError("late"))
        else:
            getattr(hold, end)()
    assert played.driver.sent == []
    assert played.end.ledger.unsettled == 0


def test_lost_inside_on_next_what_is_unsettled_stays_with_the_peer_and_the_end_comes_after() -> None:
    """The run in hand is finished: at least once; its items are the peer's again, and nothing is said to it."""
    order: list[str] = []

    def lose(item: int) -> None:
        order.append(f"item {item}")
        if item == 0:
            played.driver.lose(LOST)
            order.append("lost")

    played = PlayedReceiver(request=8, on_item=lose)
    played.driver.take_sent()
    played.transfer(3)
    assert order == ["item 0", "lost", "item 1", "item 2"]
    assert played.probe.signals[-1] == "on_error"
    assert played.driver.sent == []
    assert (played.end.ledger.buffered, played.end.ledger.unsettled) == (0, 0)


def test_lost_while_some_items_wait_those_that_came_settled_are_handed_over_before_the_end() -> None:
    """Only a subscriber in the middle of an item leaves any waiting: what came for more demand than there was."""
    played = PlayedReceiver(request=8)
    end = played.end
    end._emitting = True  # as if a signal were under way
    played.transfer(2)
    played.transfer(2, settled=True)
    end._emitting = False
    assert played.probe.items == []
    played.driver.lose(LOST)
    assert played.probe.items == [2, 3]
    assert played.probe.error is LOST
    assert (end.ledger.buffered, end.ledger.unsettled) == (0, 0)


# user code that raises


def test_a_decoder_that_raises_ends_the_stream_and_gives_the_item_back_as_failed() -> None:
    def refuse(payload: bytes) -> int:
        if payload == b"1":
            raise BufferOverflow(payload)
        return int(payload)

    played = PlayedReceiver(request=5, decode=refuse)
    played.transfer(3)
    assert played.probe.items == [0]
    assert isinstance(played.probe.error, BufferOverflow)
    assert played.outcomes == {0: ACCEPTED, 1: FAILED, 2: RELEASED}
    assert played.detach == Detach()


def test_a_decoder_that_cancels_and_raises_has_cancelled() -> None:
    def refuse(payload: bytes) -> int:
        played.probe.cancel()
        raise ValueError(payload)

    played = PlayedReceiver(request=5, decode=refuse)
    played.transfer(2)
    assert played.probe.signals == ["on_subscribe"]
    assert played.outcomes == {0: FAILED, 1: RELEASED}


def test_a_malformed_message_is_told_to_the_peer() -> None:
    def refuse(_: bytes) -> int:
        raise RemoteProtocolError(Condition.DECODE_ERROR.value, "no AMQP message")

    played = PlayedReceiver(request=5, decode=refuse)
    played.transfer(1)
    assert isinstance(played.probe.error, RemoteProtocolError)
    assert played.detach == Detach(condition="amqp:decode-error", description="no AMQP message")
    assert played.outcomes == {0: FAILED}


def test_a_hold_taken_in_on_error_claims_nothing() -> None:
    class Confused(ProbeSubscriber[int]):
        def on_error(self, _error: BaseException) -> None:
            assert self.subscription is not None
            self.holds.append(self.subscription.hold())

    probe = Confused(5)
    played = PlayedReceiver(probe=probe, decode=lambda payload: int(payload + b"x"))
    played.transfer(1)
    assert probe.holds == [NO_HOLD]
    assert played.outcomes == {0: FAILED}


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("holds", [True, False])
def test_a_subscriber_that_raises_loses_its_subscription_and_fails_the_item(settled: bool, holds: bool) -> None:  # noqa: FBT001
    def on_item(item: int) -> None:
        if item == 1:
            raise KeyError(item)

    played = PlayedReceiver(request=5, on_item=on_item, hold=holds)
    played.transfer(3, settled=settled)
    assert played.probe.items == [0, 1]
    assert not played.probe.ended
    assert [type(error) for error in played.raised] == [KeyError]
    for hold in played.probe.holds:
        hold.done()
    played.driver.turn()
    assert played.outcomes == ({} if settled else {0: ACCEPTED, 1: FAILED, 2: RELEASED})
    assert played.detach == Detach()


@pytest.mark.parametrize("signal", ["on_subscribe", "on_error", "on_complete"])
def test_a_subscriber_that_raises_from_any_other_signal_is_told_once_and_detached(signal: str) -> None:
    def raises(*_: object) -> None:
        raise KeyError(signal)

    probe = ProbeSubscriber[int]()
    setattr(probe, signal, raises)
    played = PlayedReceiver(probe=probe)
    played.driver.turn()
    if signal == "on_error":
        played.driver.receive(Detach(condition="amqp:internal-error"))
    elif signal == "on_complete":
        played.driver.receive(Detach())
    assert [type(error) for error in played.raised] == [KeyError]
    assert played.detach == Detach()


def test_what_is_no_exception_is_not_kept_in() -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    played = PlayedReceiver(request=5, on_item=interrupt)
    with pytest.raises(KeyboardInterrupt):
        played.transfer(3)
    played.driver.turn()
    assert played.outcomes == {0: FAILED, 1: RELEASED, 2: RELEASED}
    assert played.detach == Detach()


# what a link never hears


@pytest.mark.parametrize("kind", ["disposition from a sender", "transfer after a refusal"])
def test_what_the_peer_may_not_send_is_refused_before_it_reaches_the_subscription(kind: str) -> None:
    played = PlayedReceiver(attached=kind == "disposition from a sender")
    if kind == "transfer after a refusal":
        played.driver.receive(REFUSED)
        frame: Transfer | Disposition = Transfer([1], [b"1"])
    else:
        frame = Disposition([1], ACCEPTED)
    with pytest.raises(RemoteProtocolError):
        played.link.receive(frame)
    assert played.probe.items == []


def test_a_receiver_cannot_send_transfers() -> None:
    played = PlayedReceiver()
    with pytest.raises(LocalProtocolError, match="receiver"):
        played.link.send(Transfer([1], [b"1"]))


def test_an_unbound_subscription_waits_for_its_link() -> None:
    end = LinkSubscription(ProbeSubscriber[int](), decode=decode, window=8, on_raised=never)
    end.request(3)
    assert end.ledger.demand == 3
