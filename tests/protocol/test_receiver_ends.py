"""How a receiving end ends: by its subscriber, its publisher, its connection, and by user code that raises."""

from __future__ import annotations

import pytest

from rstreams._core.claims import NO_HOLD
from rstreams.errors import (
    BufferOverflow,
    Condition,
    ConnectionClosed,
    LinkDetached,
    LocalProtocolError,
    PublisherFailed,
    RemoteProtocolError,
)
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Role, Transfer
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import (
    LOST,
    REFUSED_BY_SENDER,
    PlayedReceiver,
    decode,
    never,
)

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
    played.driver.receive(REFUSED_BY_SENDER)
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
    assert repr(played.probe.error) == repr(cause)
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
    end._items.emitting = True  # as if a signal were under way
    played.transfer(2)
    played.transfer(2, settled=True)
    end._items.emitting = False
    assert played.probe.items == []
    played.driver.lose(LOST)
    assert played.probe.items == [2, 3]
    assert repr(played.probe.error) == repr(LOST)
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
        played.driver.receive(REFUSED_BY_SENDER)
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
    end = LinkSubscription(ProbeSubscriber[int](), ReceivingOptions(decode=decode, window=8), never)
    end.request(3)
    assert end.ledger.demand == 3


# leave


def test_who_leaves_before_it_was_attached_has_come_to_its_end() -> None:
    probe = ProbeSubscriber[int](3)
    end = LinkSubscription(probe, ReceivingOptions(decode=decode, window=4), never)
    end.leave()
    assert probe.completed
    assert not end.wants_link
