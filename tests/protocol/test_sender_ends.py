"""How a sending end ends, and how a link is refused."""

from __future__ import annotations

import pytest

from rstreams.abc import Subscriber
from rstreams.errors import (
    BufferOverflow,
    Condition,
    ConfigError,
    ConnectionLost,
    DemandError,
    LinkDetached,
    LocalProtocolError,
    PublisherFailed,
    RemoteProtocolError,
)
from rstreams.protocol.delivery import ACCEPTED, FAILED
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State
from rstreams.testing import ManualPublisher
from tests.protocol.played import (
    LOST,
    PlayedDriver,
    PlayedSender,
    Source,
    encode,
)

# how it ends


ABORTED = Detach(condition="amqp:link:detach-forced", description="the publisher was cancelled")


def test_completion_detaches_after_all_is_sent_and_settled() -> None:
    played = PlayedSender()
    played.grant(2)
    played.driver.wire = 1
    played.source.next(0, 1)
    played.source.complete()
    played.driver.turn()
    assert played.detach is None, "one item waits for credit"
    played.grant(1)
    assert played.detach is None, "two items wait for their outcome"
    played.settle(ACCEPTED, 0, 1)
    assert played.detach == Detach()
    assert played.finished == []
    played.driver.receive(Detach())
    assert played.finished == [None]
    assert not played.source.cancelled, "2.4: a source that has ended is left alone"


def test_a_served_stream_detaches_after_its_last_item_and_waits_for_outcomes_behind_it() -> None:
    played = PlayedSender(publish=False)
    played.grant(2)
    played.source.next(0, 1)
    played.source.complete()
    played.driver.turn()
    assert played.detach == Detach()
    played.settle(ACCEPTED, 1)
    played.settle(FAILED, 0)
    assert played.source.outcomes == ["failed", "done"]
    played.driver.receive(Detach())
    assert played.finished == [None]
    assert played.end.outcome_unknown == 0


def test_a_served_stream_that_completes_sends_what_waits_for_credit_first() -> None:
    played = PlayedSender(publish=False)
    played.grant(2)
    played.driver.wire = 1
    played.source.next(0, 1)
    played.source.complete()
    played.driver.turn()
    assert played.transferred == [0]
    assert played.detach is None
    played.grant(1)
    assert played.transferred == [0, 1]
    assert played.detach == Detach()


def test_nothing_queued_in_the_driver_when_it_detaches() -> None:
    played = PlayedSender()
    played.driver.waiting = 1
    played.source.complete()
    played.driver.turn()
    assert played.detach is None
    played.driver.waiting = 0
    played.driver.turn()
    assert played.detach == Detach()


@pytest.mark.parametrize(
    ("error", "expose", "condition", "description"),
    [
        (ValueError("secret"), False, "amqp:internal-error", "the publisher failed"),
        (ValueError("known"), True, "amqp:internal-error", "ValueError: known"),
        (PublisherFailed("shop:sold-out", "no more", {"left": 0}), False, "shop:sold-out", "no more"),
        (LinkDetached("amqp:link:stolen", "by another", {"left": 0}), False, "amqp:link:stolen", "by another"),
        (RemoteProtocolError("amqp:decode-error", "no message"), False, "amqp:decode-error", "no message"),
        (DemandError(0), False, "amqp:not-allowed", str(DemandError(0))),
        (BufferOverflow("full"), False, "amqp:resource-limit-exceeded", "full"),
        (ConfigError("window=0"), False, "amqp:invalid-field", "window=0"),
    ],
)
def test_the_publishers_error_travels(error: BaseException, expose: bool, condition: str, description: str) -> None:  # noqa: FBT001
    played = PlayedSender(expose_errors=expose)
    played.grant(1)
    played.source.next(0)
    played.source.error(error)
    played.driver.turn()
    assert played.transferred == [0]
    assert played.detach is None, "what was sent before is settled first"
    played.settle(ACCEPTED, 0)
    detach = played.detach
    assert detach is not None
    assert (detach.closed, detach.condition, detach.description) == (True, condition, description)
    assert dict(detach.info) == ({"left": 0} if "left" in str(getattr(error, "info", "")) else {})
    played.driver.receive(Detach())
    assert played.finished == [error]


def test_an_item_that_cannot_be_encoded_ends_the_stream_after_what_was_sent_before() -> None:
    played = PlayedSender()
    played.grant(3)
    played.source.next(0, "x", 2)  # type: ignore[arg-type]
    played.driver.turn()
    assert played.transferred == [0]
    assert played.source.cancelled
    assert played.source.outcomes == [None, "failed", "released"]
    played.settle(ACCEPTED, 0)
    detach = played.detach
    assert detach is not None
    assert detach.condition == "amqp:internal-error"
    played.driver.receive(Detach())
    assert isinstance(played.finished[0], TypeError)


def test_signals_after_the_publishers_end_are_ignored() -> None:
    played = PlayedSender()
    played.source.complete()
    played.source.complete()
    played.source.error(ValueError("late"))
    played.driver.turn()
    assert played.detach == Detach()
    played.driver.receive(Detach())
    played.source.error(ValueError("later"))
    assert played.finished == [None]


def test_a_receiver_that_detaches_cancels_a_served_stream() -> None:
    played = PlayedSender(publish=False)
    played.grant(3)
    played.source.next(0, 1)
    played.driver.turn()
    played.source.next(2)
    played.driver.wire = 0
    played.settle(ACCEPTED, 0)
    played.driver.receive(Detach())
    assert played.source.cancelled
    assert played.source.outcomes == ["done", "released", "released"], "what it has seen, it has settled before"
    assert played.detach == Detach()
    assert played.finished == [None]
    assert played.end.outcome_unknown == 1


def test_a_receiver_that_detaches_with_an_error_has_failed_what_it_has_not_settled() -> None:
    played = PlayedSender(publish=False)
    played.grant(3)
    played.source.next(0)
    played.driver.turn()
    played.source.next(1)
    played.driver.wire = 0
    played.driver.receive(Detach(condition="amqp:internal-error"))
    assert played.source.outcomes == ["failed", "released"]


def test_a_receiver_that_detaches_before_a_published_stream_is_through_fails_it() -> None:
    played = PlayedSender()
    played.grant(3)
    played.source.next(0, 1)
    played.driver.turn()
    played.settle(ACCEPTED, 0)
    played.driver.receive(Detach())
    (error,) = played.finished
    assert isinstance(error, LinkDetached)
    assert error.condition == Condition.LINK_DETACH_FORCED
    assert error.outcome_unknown == 1
    assert played.end.accepted == 1


def test_a_receiver_that_detaches_when_all_is_settled_has_failed_nothing() -> None:
    played = PlayedSender()
    played.grant(1)
    played.source.next(0)
    played.driver.turn()
    played.source.complete()
    played.link.receive(Disposition((0,), ACCEPTED))
    played.driver.receive(Detach())
    assert played.finished == [None]
    assert played.detach == Detach()


def test_detaches_that_cross_each_other() -> None:
    played = PlayedSender()
    played.source.complete()
    played.driver.turn()
    played.driver.receive(Flow(5), Detach(condition="amqp:link:transfer-limit-exceeded", description="too many"))
    (error,) = played.finished
    assert isinstance(error, LinkDetached)
    assert error.description == "too many"
    assert played.detach == Detach()


def test_a_receivers_error_reaches_the_publish_with_the_count_of_the_unknown() -> None:
    played = PlayedSender()
    played.grant(3)
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.driver.receive(Detach(condition="amqp:resource-deleted", description="gone", info={"x": 1}))
    (error,) = played.finished
    assert isinstance(error, LinkDetached)
    assert (error.condition, error.description, dict(error.info)) == ("amqp:resource-deleted", "gone", {"x": 1})
    assert error.outcome_unknown == 3


def test_law_5_what_is_unsettled_when_the_connection_is_lost_is_unknown_and_each_link_counts_its_own() -> None:
    first, second, third = PlayedSender(), PlayedSender(), PlayedSender()
    for played, items in ((first, 3), (second, 1), (third, 0)):
        played.grant(5)
        played.source.next(*range(items))
        played.driver.turn()
        played.driver.lose(LOST)
    for played, items in ((first, 3), (second, 1), (third, 0)):
        (error,) = played.finished
        assert type(error) is ConnectionLost
        assert str(error) == str(LOST)
        assert error.outcome_unknown == items
        assert played.source.cancelled
        assert played.source.outcomes == ["failed"] * items
    assert LOST.outcome_unknown == 0


@pytest.mark.parametrize("ends", ["complete", "error", "leave", "abort"])
def test_a_stream_that_ends_while_its_link_is_lost_needs_no_other_link_if_all_is_settled(ends: str) -> None:
    played = PlayedSender(resends=True)
    played.grant(3)
    played.source.next(0)
    played.driver.turn()
    played.settle(ACCEPTED, 0)
    played.link.lose(Lost(LOST, returns=True))
    assert played.finished == []
    failure = ValueError("no more")
    if ends == "error":
        played.source.error(failure)
    else:
        getattr(played.end if ends in ("leave", "abort") else played.source, ends)()
    assert played.finished == [failure if ends == "error" else None]
    assert not played.end.wants_link


@pytest.mark.parametrize("ends", ["complete", "leave"])
def test_a_stream_that_ends_while_its_link_is_lost_waits_for_another_link_for_what_is_unsettled(ends: str) -> None:
    played = PlayedSender(resends=True)
    played.grant(3)
    played.source.next(0)
    played.driver.turn()
    played.link.lose(Lost(LOST, returns=True))
    getattr(played.end if ends == "leave" else played.source, ends)()
    assert played.finished == []
    assert played.end.wants_link


def test_a_link_that_never_was_is_lost() -> None:
    finished: list[BaseException | None] = []
    end = LinkSubscriber(
        ManualPublisher[int](),
        SendingOptions(encode=encode, settle_before_detach=True, fail_on_refusal=True),
        finished.append,
    )
    end.on_lost(Lost(LOST))
    end.abort()
    end.on_lost(Lost(LOST))
    assert repr(finished) == repr([LOST])


def test_lost_while_the_publisher_is_asked() -> None:
    """What the publisher does inside `request` may end the connection: nothing is sent after that."""

    def ends(source: Source, n: int) -> None:
        source.subscriber.on_next(n)
        played.driver.lose(LOST)
        source.subscriber.on_next(n)

    source = Source(ends)
    played = PlayedSender(publisher=source)
    played.grant(3, drain=True)
    assert played.driver.sent == []
    assert repr(played.finished) == repr([LOST])
    assert source.cancels == 1
    played.driver.turn()
    assert played.driver.sent == []


def test_abort_cancels_and_detaches_without_waiting_for_outcomes() -> None:
    played = PlayedSender()
    played.grant(3)
    played.source.next(0)
    played.driver.turn()
    played.source.next(1)
    played.end.abort()
    assert played.source.cancelled
    assert played.source.outcomes == [None, "released"]
    played.driver.turn()
    assert played.detach == ABORTED
    played.settle(ACCEPTED, 0)
    assert played.source.outcomes == ["done", "released"]
    played.driver.receive(Detach())
    assert played.finished == [None]


def test_abort_before_the_peer_has_attached_subscribes_nothing() -> None:
    played = PlayedSender(attached=False)
    played.end.abort()
    played.driver.turn()
    played.attach()
    assert played.source.subscriptions == 0
    assert played.detach == ABORTED


def test_who_leaves_when_the_publisher_has_said_its_last_changes_nothing() -> None:
    played = PlayedSender()
    played.source.complete()
    played.end.leave(Detach(condition="x:left"))
    played.driver.turn()
    assert not played.end.left
    assert played.detach == Detach()


def test_abort_before_the_publisher_has_answered_cancels_it_then() -> None:
    taken: list[Subscriber[int]] = []

    class Late:
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            taken.append(subscriber)

    played = PlayedSender(publisher=Late())
    played.end.abort()
    played.source.subscribe(taken[0])
    assert played.source.cancelled


def test_items_that_cross_the_cancel_are_given_back() -> None:
    played = PlayedSender(publish=False)
    played.grant(3)
    played.driver.receive(Detach())
    played.source.next(0)
    assert played.source.outcomes == ["released"]
    assert played.driver.sent == [Detach()]


def test_a_hold_that_sends_when_it_is_released_is_served() -> None:
    """A queue hands over the next item inside the call that frees the last: in the middle of `on_disposition`."""
    played = PlayedSender(publish=False)
    played.grant(2)

    class Next:
        def done(self) -> None:
            played.source.next(2)

        def fail(self, error: BaseException) -> None:
            raise AssertionError(error)

        def release(self) -> None:
            raise AssertionError

    played.source.next(1)
    played.driver.turn()
    played.hold_first(Next())
    played.settle(ACCEPTED, 0)
    assert played.transferred == [1, 2]


# what a link never hears


def test_a_sender_hears_no_transfers_and_sends_no_dispositions() -> None:
    played = PlayedSender()
    with pytest.raises(RemoteProtocolError, match="it is the receiver of the link"):
        played.link.receive(Transfer([1], [b"1"]))
    with pytest.raises(LocalProtocolError, match="sender"):
        played.link.send(Disposition([1], ACCEPTED))


# refusing a link


@pytest.mark.parametrize("role", Role)
def test_a_link_is_refused_with_a_null_terminus_and_the_reason(role: Role) -> None:
    driver = PlayedDriver()
    mine = Role.SENDER if role is Role.RECEIVER else Role.RECEIVER
    attach = Attach("n", role, "a", "b", Settlement.AT_MOST_ONCE)
    link = driver.link = refuse(driver, attach, "amqp:not-found", "no address 'a' here")
    assert driver.sent == [
        Attach("n", mine, None, None, Settlement.AT_MOST_ONCE),
        Detach(condition="amqp:not-found", description="no address 'a' here"),
    ]
    assert link.role is mine

    late = Transfer([1], [b"x"]) if role is Role.SENDER else Disposition([1], ACCEPTED)
    driver.receive(Flow(5), late, Detach())
    assert link.state is State.DETACHED
    assert len(driver.sent) == 2


@pytest.mark.parametrize("role", Role)
def test_a_refused_link_that_is_lost_is_forgotten(role: Role) -> None:
    driver = PlayedDriver()
    link = refuse(driver, Attach("n", role, "a", "b"), "amqp:not-found", "")
    driver.link = link
    driver.receive(Attach("n", role, "a", "b"))
    driver.lose(LOST)
    assert link.state is State.DETACHED
