"""The receiving end, its subscriber a probe and its peer the test: how it begins, credit, settling, drain."""

from __future__ import annotations

import pytest

from rstreams._demand import UNBOUNDED
from rstreams._holds import NO_HOLD
from rstreams.abc import Hold, Subscription
from rstreams.errors import (
    Condition,
    DeliveryFailed,
    DemandError,
    LinkDetached,
    RemoteProtocolError,
)
from rstreams.protocol.delivery import (
    ACCEPTED,
    FAILED,
    RELEASED,
    DeliveryHold,
    ForwardedHold,
    Outcome,
    outcome_of,
)
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import (
    LOST,
    REFUSED_BY_SENDER,
    PlayedDriver,
    PlayedReceiver,
    decode,
    never,
)

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
    played.driver.receive(REFUSED_BY_SENDER)
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
    played.driver.receive(REFUSED_BY_SENDER, Detach())
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

        def fail(self, delivery: object, payload: bytes, error: BaseException) -> None:
            self.told.append((delivery, Outcome("modified", payload.decode(), str(error))))

    log = Log()
    DeliveryHold(log, 1).done()
    DeliveryHold(log, 2).release()
    DeliveryHold(log, 3, b"encoded").fail(ValueError("no"))
    assert log.told == [(1, ACCEPTED), (2, RELEASED), (3, Outcome("modified", "encoded", "no"))]


def test_a_forwarded_delivery_is_accepted_only_if_somebody_else_has_it() -> None:
    settled: list[tuple[object, Outcome]] = []

    class Log:
        def settle(self, delivery: object, outcome: Outcome) -> None:
            settled.append((delivery, outcome))

        def fail(self, delivery: object, payload: bytes, error: BaseException) -> None:
            raise AssertionError((delivery, payload, error))

    ForwardedHold(Log(), 1).done()
    ForwardedHold(Log(), 2).release()
    ForwardedHold(Log(), 3).fail(ValueError("no"))
    assert settled == [(1, ACCEPTED), (2, FAILED), (3, FAILED)]


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


# suspend and resume


def test_a_pause_drains_the_credit_and_grants_none() -> None:
    played = PlayedReceiver(window=8, request=5)
    played.driver.take_sent()
    played.end.suspend()
    played.driver.turn()
    assert played.driver.take_sent() == [Flow(5, drain=True)]
    played.transfer(2)
    assert played.probe.items == [0, 1], "what the sender had was asked for"
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    played.probe.request(10)
    played.driver.turn()
    assert not [frame for frame in played.driver.take_sent() if isinstance(frame, Flow)]
    assert played.end.ledger.demand == 13

    played.end.resume()
    played.driver.turn()
    assert played.driver.sent == [Flow(8)]


def test_a_pause_without_credit_says_nothing_and_grants_nothing() -> None:
    played = PlayedReceiver(window=8)
    played.end.suspend()
    played.probe.request(3)
    played.driver.turn()
    assert played.driver.sent == []
    played.end.suspend()
    played.end.resume()
    played.end.resume()
    played.driver.turn()
    assert played.driver.sent == [Flow(3)]


def test_a_pause_that_is_over_before_the_next_turn_never_was() -> None:
    played = PlayedReceiver(window=8, request=3)
    played.driver.take_sent()
    played.end.suspend()
    played.end.resume()
    played.driver.turn()
    assert played.driver.sent == []


def test_a_pause_that_ends_before_it_is_answered_goes_on_with_the_answer() -> None:
    played = PlayedReceiver(window=8, request=4)
    played.end.suspend()
    played.driver.turn()
    played.driver.take_sent()
    played.end.resume()
    played.driver.turn()
    assert played.driver.sent == [], "the drain is still under way"
    played.transfer(1)
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    assert played.driver.sent[-1] == Flow(3)


def test_a_peer_that_does_not_answer_goes_on_when_it_has_used_its_credit_up() -> None:
    played = PlayedReceiver(window=2, request=UNBOUNDED)
    played.end.suspend()
    played.driver.turn()
    played.end.resume()
    played.driver.take_sent()
    played.transfer(1)
    played.transfer(1)
    assert played.probe.items == [0, 1]
    assert played.driver.sent[-1] == Flow(2)


def test_a_drain_during_a_pause_is_over_when_the_credit_is_back_and_grants_none() -> None:
    drained: list[int] = []
    played = PlayedReceiver(window=8, request=4)
    played.end.suspend()
    played.driver.turn()
    played.driver.take_sent()
    played.end.drain(lambda: drained.append(len(played.probe.items)))
    played.driver.turn()
    assert drained == []
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    assert drained == [0]
    assert played.driver.sent == []


def test_a_pause_after_the_end_changes_nothing() -> None:
    played = PlayedReceiver(window=8, request=4)
    played.driver.receive(Detach())
    sent = list(played.driver.sent)
    played.end.suspend()
    played.end.resume()
    played.driver.turn()
    assert played.driver.sent == sent
