"""The receiving end takes its credit back: a drain is answered, a pause withdraws what is not used up."""

from __future__ import annotations

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import DemandError
from rstreams.protocol.frames import Detach, Flow
from tests.protocol.played import PlayedReceiver

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
