"""A link whose peer detaches it because it is about to close the connection: no end, if the connection returns."""

from __future__ import annotations

import pytest

from rstreams.errors import AnswerTimeout, LinkDetached, PeerClosed, RStreamsError, SessionEnded
from rstreams.protocol.delivery import ACCEPTED, RELEASED
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement
from tests.protocol.played import (
    LOST,
    REFUSED_BY_RECEIVER,
    REFUSED_BY_SENDER,
    PlayedDriver,
    PlayedReceiver,
    PlayedSender,
)

FORCED = Detach(condition="amqp:connection:forced", description="going down")


def returning(played: PlayedReceiver | PlayedSender) -> list[PeerClosed | AnswerTimeout]:
    """Say that the connection returns; return what is told when the link is to be attached later."""
    told: list[PeerClosed | AnswerTimeout] = []
    played.end.attach_later = told.append
    return told


def attached_again(played: PlayedReceiver | PlayedSender) -> PlayedDriver:
    """Give a played end another link, attached."""
    driver = played.driver = PlayedDriver()
    driver.link = played.link = played.end.bind("test", driver)
    role, other = (Role.SENDER, Role.RECEIVER) if isinstance(played, PlayedSender) else (Role.RECEIVER, Role.SENDER)
    driver.link.send(Attach("test", role, "a", "a"))
    driver.take_sent()
    driver.receive(Attach("test", other, "a", "a"))
    return driver


# the receiving end


def test_what_came_is_handed_over_and_settled_before_the_link_is_left_for_another() -> None:
    played = PlayedReceiver(request=3, hold=True)
    told = returning(played)
    played.transfer(2)
    played.probe.request(2)
    played.driver.receive(FORCED)
    assert (played.probe.ended, played.detach, told) == (False, None, [])

    for hold in played.probe.holds:
        hold.done()
    played.driver.turn()
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED}
    assert played.detach == Detach(), "behind the outcomes"
    [error] = told
    assert isinstance(error, LinkDetached)
    assert "going down" in str(error)

    assert attached_again(played).sent == [Flow(3)], "the demand that is not met"
    played.transfer(3)
    assert played.probe.items == [0, 1, 2, 3, 4]
    assert (played.end.late, played.probe.ended) == (0, False)


@pytest.mark.parametrize("settled", [True, False])
def test_what_nobody_has_asked_for_yet_is_waited_for(settled: bool) -> None:  # noqa: FBT001
    played = PlayedReceiver(request=2)
    told = returning(played)
    played.driver.wire = 4
    played.transfer(4, settled=settled)
    played.driver.receive(FORCED)
    assert (played.probe.items, told, played.detach) == ([0, 1], [], None)
    played.probe.request(3)
    played.driver.turn()
    assert (played.probe.items, len(told), played.detach) == ([0, 1, 2, 3], 1, Detach())
    assert attached_again(played).sent == [Flow(1)]


def test_a_refusal_is_none_if_the_peer_is_about_to_close() -> None:
    played = PlayedReceiver(request=2, attached=False)
    told = returning(played)
    played.driver.receive(REFUSED_BY_SENDER, FORCED)
    assert (len(told), played.probe.ended, played.detach) == (1, False, Detach())
    assert attached_again(played).sent == [Flow(2)]
    assert not played.probe.ended


@pytest.mark.parametrize("returns", [True, False])
def test_a_loss_that_comes_before_all_is_settled_is_a_loss(returns: bool) -> None:  # noqa: FBT001
    played = PlayedReceiver(request=3, hold=True)
    told = returning(played)
    played.transfer(1)
    played.driver.receive(FORCED)
    played.link.lose(Lost(LOST, returns=returns))
    assert told == []
    assert repr(played.probe.error) == repr(None if returns else LOST)
    if returns:
        assert attached_again(played).sent == [Flow(2)]
        played.probe.holds[0].done()
        played.driver.turn()
        assert (played.end.late, told) == (1, [])


def test_the_end_of_its_session_behind_it_is_none_either() -> None:
    played = PlayedReceiver(request=3, hold=True)
    told = returning(played)
    played.transfer(1)
    played.driver.receive(FORCED)
    session_ended = SessionEnded("amqp:connection:forced", "going down")
    played.link.lose(Lost(session_ended))
    [error] = told
    assert isinstance(error, LinkDetached)
    assert not played.probe.ended
    played.probe.holds[0].done()
    assert played.end.late == 1, "the peer has it back"
    assert attached_again(played).sent == [Flow(2)]

    played.transfer(1)
    played.link.lose(Lost(session_ended))
    assert repr(played.probe.error) == repr(session_ended), "without such a word it is the end"
    assert told == [error]


def test_who_cancels_meanwhile_wants_no_other_link() -> None:
    played = PlayedReceiver(request=3, hold=True)
    told = returning(played)
    played.transfer(1)
    played.driver.receive(FORCED)
    played.end.cancel()
    played.probe.holds[0].release()
    played.driver.turn()
    assert (played.detach, played.outcomes, told) == (Detach(), {0: RELEASED}, [])
    assert not played.end.wants_link


@pytest.mark.parametrize("drains", [True, False])
def test_who_leaves_meanwhile_completes(drains: bool) -> None:  # noqa: FBT001
    played = PlayedReceiver(request=3)
    told = returning(played)
    played.end.leave()
    if drains:
        played.driver.turn()
        assert played.driver.sent[-1] == Flow(3, drain=True)
    played.driver.receive(FORCED)
    assert (played.probe.completed, played.detach, told) == (True, Detach(), [])


@pytest.mark.parametrize("condition", ["amqp:link:detach-forced", "amqp:internal-error", None])
def test_another_detach_is_the_end(condition: str | None) -> None:
    played = PlayedReceiver(request=1)
    told = returning(played)
    played.driver.receive(Detach(condition=condition))
    assert (played.probe.ended, told) == (True, [])


def test_without_a_connection_that_returns_it_is_an_error_at_once() -> None:
    played = PlayedReceiver(request=1)
    played.driver.receive(FORCED)
    assert isinstance(played.probe.error, LinkDetached)
    sender = PlayedSender()
    sender.driver.receive(FORCED)
    assert isinstance(sender.finished[0], LinkDetached)


# the sending end


def test_what_is_unsettled_is_sent_again() -> None:
    played = PlayedSender(resends=True)
    told = returning(played)
    played.grant(3)
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.settle(ACCEPTED, 0)
    played.driver.receive(FORCED)
    assert (played.finished, played.detach, len(told)) == ([], Detach(), 1)
    attached_again(played)
    played.grant(5)
    assert played.transferred == [1, 2]
    assert (played.source.subscriptions, played.end.resent) == (1, 2)


def test_a_sender_that_is_refused_subscribes_when_it_is_attached() -> None:
    played = PlayedSender(attached=False)
    told = returning(played)
    played.driver.receive(REFUSED_BY_RECEIVER, FORCED)
    assert (played.source.subscriptions, played.finished, len(told)) == (0, [], 1)
    attached_again(played)
    assert played.source.subscriptions == 1


def test_what_cannot_be_sent_again_ends_it() -> None:
    played = PlayedSender(resends=False)
    told = returning(played)
    played.grant(1)
    played.source.next(0)
    played.driver.turn()
    played.driver.receive(FORCED)
    [error] = played.finished
    assert isinstance(error, RStreamsError)
    assert (error.outcome_unknown, told) == (1, [])


def test_a_publisher_that_is_through_needs_no_other_link() -> None:
    played = PlayedSender(resends=True)
    told = returning(played)
    played.grant(1)
    played.source.next(0)
    played.source.complete()
    played.driver.turn()
    played.driver.receive(Disposition([0], ACCEPTED))
    played.driver.receive(FORCED)  # it crosses the detach
    assert (played.finished, told) == ([None], [])


@pytest.mark.parametrize("settlement", Settlement)
def test_an_aborted_publisher_wants_no_other_link(settlement: Settlement) -> None:
    played = PlayedSender(resends=True, settlement=settlement)
    told = returning(played)
    played.end.abort()
    played.driver.receive(FORCED)
    assert told == []
    assert len(played.finished) == 1
