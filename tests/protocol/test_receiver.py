"""The receiving end, its subscriber a probe and its peer the test: how it begins, items and credit."""

from __future__ import annotations

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import Condition, DemandError, LinkDetached, RemoteProtocolError
from rstreams.protocol.delivery import ACCEPTED, RELEASED
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import LOST, REFUSED_BY_SENDER, PlayedDriver, PlayedReceiver, decode, never

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
    assert repr(played.probe.error) == repr(LOST)
    assert played.probe.signals == ["on_subscribe", "on_error"]


def test_a_subscription_that_never_got_a_link_is_told_what_happened() -> None:
    probe = ProbeSubscriber[int](3)
    end = LinkSubscription(probe, ReceivingOptions(decode=decode, window=8), never)
    end.on_lost(Lost(LOST))
    assert probe.signals == ["on_subscribe", "on_error"]
    assert repr(probe.error) == repr(LOST)
    probe.cancel()


def test_what_is_requested_while_on_subscribe_runs_is_granted_when_it_has_returned() -> None:
    """The driver may let the link work at once: the work waits for the signal, and is not forgotten."""

    class EagerDriver(PlayedDriver):
        def wake(self, *, for_item: bool = False) -> None:  # noqa: ARG002 - a driver's
            assert self.link is not None
            self.link.work()

    class Subscriber(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.request(3)
            assert driver.sent == []

    driver = EagerDriver()
    end = LinkSubscription(Subscriber(), ReceivingOptions(decode=decode, window=8), never)
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
    played = PlayedReceiver(window=50)
    for n in (1, 2, 3):
        played.probe.request(n)
    played.driver.turn()
    played.probe.request(UNBOUNDED)
    played.driver.turn()
    assert played.driver.sent == [Flow(6), Flow(50)]


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
