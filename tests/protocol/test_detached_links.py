"""A link that the peer detaches while the connection stays, for instance because its queue was deleted: it returns."""

from __future__ import annotations

import pytest

from rstreams.errors import AnswerTimeout, Condition, LinkDetached, PeerClosed, PublisherFailed, SessionEnded
from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Detach, Flow, Lost, Settlement
from tests.protocol.played import LOST, REFUSED_BY_RECEIVER, REFUSED_BY_SENDER, PlayedReceiver, PlayedSender
from tests.protocol.test_announced_losses import attached_again, returning
from tests.protocol.test_life import bound_again

DELETED = Detach(condition="amqp:resource-deleted", description="the queue was deleted")
MISSING = Detach(condition="amqp:not-found", description="no such queue")


def lasting(played: PlayedReceiver | PlayedSender) -> list[PeerClosed | AnswerTimeout]:
    """Say that the link outlives a detach; return the reasons for which it is to be attached later."""
    played.end.outlives_detach = True
    return returning(played)


def test_a_detach_is_answered_at_once_and_what_was_handed_over_keeps_its_place() -> None:
    played = PlayedReceiver(request=3, hold=True)
    told = lasting(played)
    played.transfer(2)
    played.driver.receive(DELETED)
    assert (played.probe.ended, played.detach) == (False, Detach())
    [error] = told
    assert isinstance(error, LinkDetached)
    assert attached_again(played).sent == [Flow(1)], "two of three are still in hand"
    for hold in played.probe.holds:
        hold.done()
    assert (played.end.late, played.probe.ended) == (2, False)


def test_a_refusal_after_that_is_waited_out() -> None:
    played = PlayedReceiver(request=2)
    told = lasting(played)
    played.driver.receive(DELETED)
    driver = attached_again(played)
    driver.receive(MISSING)
    assert (len(told), played.probe.ended) == (2, False)
    assert attached_again(played).sent == [Flow(2)]


def test_the_first_refusal_ends_it() -> None:
    played = PlayedReceiver(request=2, attached=False)
    told = lasting(played)
    played.driver.receive(REFUSED_BY_SENDER, MISSING)
    assert isinstance(played.probe.error, LinkDetached)
    assert told == []


@pytest.mark.parametrize(
    "condition", ["amqp:unauthorized-access", "amqp:not-allowed", "amqp:not-implemented", "amqp:internal-error"]
)
def test_conditions_that_another_link_would_meet_again_end_it(condition: str) -> None:
    played = PlayedReceiver(request=2)
    told = lasting(played)
    played.driver.receive(Detach(condition=condition))
    assert isinstance(played.probe.error, PublisherFailed if condition == "amqp:internal-error" else LinkDetached)
    assert told == []


def test_a_publisher_that_completes_ends_it() -> None:
    played = PlayedReceiver(request=2)
    told = lasting(played)
    played.driver.receive(Detach())
    assert (played.probe.completed, told) == (True, [])


def test_without_the_option_a_detach_ends_it() -> None:
    played = PlayedReceiver(request=2)
    told = returning(played)
    played.driver.receive(DELETED)
    assert isinstance(played.probe.error, LinkDetached)
    assert told == []


def test_the_end_of_the_session_is_waited_out_too() -> None:
    for played in (PlayedReceiver(request=2), PlayedSender()):
        told = lasting(played)
        error = SessionEnded("amqp:not-found", "no such queue")
        played.link.lose(Lost(error))
        assert repr(told) == repr([error])


def test_a_sender_sends_again_what_was_not_settled() -> None:
    played = PlayedSender(resends=True)
    told = lasting(played)
    played.grant(3)
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.settle(ACCEPTED, 0)
    played.driver.receive(DELETED)
    assert (played.finished, played.detach, len(told)) == ([], Detach(), 1)
    driver = attached_again(played)
    driver.receive(MISSING)
    assert (played.finished, len(told)) == ([], 2)
    attached_again(played)
    played.grant(5)
    assert played.transferred == [1, 2]


def test_the_first_refusal_ends_a_sender() -> None:
    played = PlayedSender(resends=True, attached=False)
    told = lasting(played)
    played.driver.receive(REFUSED_BY_RECEIVER, MISSING)
    assert isinstance(played.finished[0], LinkDetached)
    assert told == []


# a peer that has come back, and refuses the link for a while

PASSING = [
    *(Condition.NOT_FOUND, Condition.INTERNAL_ERROR, Condition.PRECONDITION_FAILED, Condition.RESOURCE_LOCKED),
    *(Condition.RESOURCE_DELETED, Condition.RESOURCE_LIMIT_EXCEEDED, Condition.ILLEGAL_STATE),
    *(Condition.LINK_DETACH_FORCED, Condition.SESSION_ERRANT_LINK, Condition.TRANSACTION_TIMEOUT, "x:starting"),
]
LASTING = [
    *(Condition.UNAUTHORIZED_ACCESS, Condition.NOT_ALLOWED, Condition.NOT_IMPLEMENTED, Condition.INVALID_FIELD),
    *(Condition.DECODE_ERROR, Condition.LINK_STOLEN, Condition.LINK_REDIRECT, Condition.LINK_MESSAGE_SIZE_EXCEEDED),
]


def refused(played: PlayedReceiver | PlayedSender, way: str, condition: str) -> None:
    refusal = REFUSED_BY_RECEIVER if isinstance(played, PlayedSender) else REFUSED_BY_SENDER
    match way:
        case "attach and detach":
            played.driver.receive(refusal, Detach(condition=condition))
        case "detach":
            played.driver.receive(Detach(condition=condition))
        case "end":
            played.link.lose(Lost(SessionEnded(condition, "")))


def lost(kind: str) -> tuple[PlayedReceiver | PlayedSender, list[PeerClosed | AnswerTimeout]]:
    """Return an end whose connection has returned, and whose next attach is on its way."""
    played: PlayedReceiver | PlayedSender
    played = PlayedReceiver(request=2) if kind == "receiver" else PlayedSender(resends=True)
    told = returning(played)
    played.link.lose(Lost(LOST, returns=True))
    bound_again(played)
    return played, told


def has_ended(played: PlayedReceiver | PlayedSender) -> bool:
    return played.probe.ended if isinstance(played, PlayedReceiver) else bool(played.finished)


@pytest.mark.parametrize("condition", [*PASSING, *LASTING])
@pytest.mark.parametrize("way", ["attach and detach", "detach", "end"])
@pytest.mark.parametrize("kind", ["receiver", "sender"])
def test_what_may_pass_is_waited_out_when_a_link_returns(kind: str, way: str, condition: str) -> None:
    played, told = lost(kind)
    for attempt in range(1, 4):
        refused(played, way, condition)
        if condition in LASTING:
            assert has_ended(played)
            assert told == []
            return
        assert [each.condition for each in told if isinstance(each, PeerClosed)] == [condition] * attempt
        bound_again(played)
    assert not has_ended(played)
    attached_again(played)


@pytest.mark.parametrize("condition", [Condition.NOT_FOUND, Condition.INTERNAL_ERROR])
@pytest.mark.parametrize("kind", ["receiver", "sender"])
def test_the_session_of_a_link_that_has_returned_may_end_before_anything_comes(kind: str, condition: str) -> None:
    played, told = lost(kind)
    for _ in range(2):
        attached_again(played)
        refused(played, "end", condition)
    assert len(told) == 2
    attached_again(played)
    if isinstance(played, PlayedReceiver):
        played.transfer(1)
    else:
        played.grant(1)
        played.source.next(0)
        played.driver.turn()
        played.settle(ACCEPTED, 0)
    refused(played, "end", condition)
    assert has_ended(played), "as before"
    assert len(told) == 2


SILENT = AnswerTimeout("the peer has not answered")


@pytest.mark.parametrize("kind", ["receiver", "sender"])
def test_a_peer_that_has_come_back_and_does_not_answer_is_waited_for(kind: str) -> None:
    played, told = lost(kind)
    for _ in range(3):
        played.link.lose(Lost(SILENT))
        bound_again(played)
    assert (repr(told), has_ended(played)) == (repr([SILENT] * 3), False)
    attached_again(played)
    played.link.lose(Lost(SILENT, final=True))
    assert (len(told), has_ended(played)) == (3, True)


@pytest.mark.parametrize("kind", ["receiver", "sender"])
@pytest.mark.parametrize("returns", [False, True])
def test_a_first_attach_without_an_answer_is_the_end(kind: str, returns: bool) -> None:  # noqa: FBT001 - a parameter
    played = PlayedReceiver(attached=False) if kind == "receiver" else PlayedSender(attached=False, resends=True)
    told = returning(played) if returns else []
    played.link.lose(Lost(SILENT))
    assert (told, has_ended(played)) == ([], True)


def test_the_detach_of_a_link_that_has_returned_is_sent_again() -> None:
    """Nothing has come on it, as before a session that ends."""
    played = PlayedSender(resends=True, settlement=Settlement.AT_MOST_ONCE)
    told = returning(played)
    played.source.complete()
    played.driver.turn()
    played.link.lose(Lost(LOST, returns=True))
    attached_again(played)
    played.driver.turn()
    assert played.detach == Detach()
    played.link.lose(Lost(SILENT))
    assert (repr(told), played.finished) == (repr([SILENT]), [])
    attached_again(played).turn()
    played.driver.receive(Detach())
    assert played.finished == [None]


@pytest.mark.parametrize("kind", ["receiver", "sender"])
def test_a_link_that_has_returned_and_is_detached_has_ended(kind: str) -> None:
    """The publisher itself has failed, or the queue was deleted."""
    played, told = lost(kind)
    attached_again(played)
    played.driver.receive(DELETED)
    assert has_ended(played)
    assert told == []


@pytest.mark.parametrize("kind", ["receiver", "sender"])
def test_what_is_given_up_is_not_attached_again(kind: str) -> None:
    played, told = lost(kind)
    refused(played, "end", Condition.NOT_FOUND)
    assert len(told) == 1
    played.end.on_lost(Lost(told[0], final=True))
    assert has_ended(played)
    assert len(told) == 1
