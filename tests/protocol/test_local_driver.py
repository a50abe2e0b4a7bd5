"""The local driver: frames in order, credit as section 2.6.7 counts it, no recursion, and a cut that both ends hear."""

from __future__ import annotations

import pytest

from rstreams.errors import ConnectionLost, LinkDetached
from rstreams.protocol.frames import Attach, Detach, Lost, Role, Settlement
from rstreams.protocol.refusal import end_link, refuse
from rstreams.protocol.states import State
from rstreams.testing import ProbeSubscriber
from rstreams.testing.local_driver import LocalDriver
from tests.protocol.played import LOST, LocalPair


@pytest.mark.parametrize("publish", [True, False])
def test_a_whole_subscription(publish: bool) -> None:  # noqa: FBT001
    pair = LocalPair(publish=publish, probe=ProbeSubscriber(5))
    assert pair.source.requests == [5]
    pair.source.next(1, 2, 3)
    assert pair.probe.items == [1, 2, 3]
    assert pair.source.outcomes == ["done"] * 3
    pair.source.complete()
    assert pair.probe.completed
    assert pair.finished == [None]
    assert pair.sender.accepted == 3


def test_both_ends_know_the_credit() -> None:
    pair = LocalPair(window=4, probe=ProbeSubscriber(10, hold=True))
    assert (pair.receiving.credit(), pair.sending.credit()) == (4, 4)
    pair.source.next(1, 2, 3)
    assert (pair.receiving.credit(), pair.sending.credit()) == (1, 1)
    for hold in pair.probe.holds:
        hold.done()
    assert (pair.receiving.credit(), pair.sending.credit()) == (3, 3), "topped up at half the window, and above it not"
    assert (pair.receiving.queued(), pair.sending.queued()) == (0, 0)


def test_a_drain_takes_the_credit_from_both_ends() -> None:
    drained: list[int] = []
    pair = LocalPair(probe=ProbeSubscriber(5))
    pair.source.next(1)
    pair.receiver.drain(lambda: drained.append(pair.receiving.credit()))
    assert drained == [0]
    assert (pair.receiving.credit(), pair.sending.credit()) == (4, 4), "and it is granted again"


def test_at_most_once() -> None:
    pair = LocalPair(settlement=Settlement.AT_MOST_ONCE, probe=ProbeSubscriber(5, hold=True))
    pair.source.next(1, 2)
    assert pair.source.outcomes == ["done", "done"]
    assert pair.probe.items == [1, 2]
    assert pair.receiver.ledger.unsettled == 0


def test_a_refused_link() -> None:
    probe = ProbeSubscriber[int](5)
    pair = LocalPair.unattached(probe)
    receiving, sending = pair
    attach = Attach("local", Role.RECEIVER, "a", "")
    sending.bind(refuse(sending, attach, "amqp:not-found", "no address 'a' here"))
    assert isinstance(probe.error, LinkDetached)
    assert probe.error.description == "no address 'a' here"
    assert receiving.credit() == 0


@pytest.mark.parametrize("completed", [False, True])
def test_a_link_that_is_ended_without_its_end_is_detached_once_and_hears_nothing_more(*, completed: bool) -> None:
    pair = LocalPair(probe=ProbeSubscriber(5, hold=True))
    pair.source.next(1, 2)
    if completed:
        pair.source.complete()
        assert pair.sending_link.state is State.DETACH_SENT
    end_link(pair.sending_link, pair.sending, Detach(condition="amqp:link:stolen", description="attached elsewhere"))
    pair.probe.holds[0].done()
    pair.probe.holds[1].release()
    assert pair.receiving_link.state is State.DETACHED
    if completed:
        assert pair.probe.completed
    else:
        assert isinstance(pair.probe.error, LinkDetached)
        assert pair.probe.error.condition == "amqp:link:stolen"
    assert (pair.source.outcomes, pair.finished) == ([None, None], []), "the end goes on with another link"
    pair.sending_link.lose(Lost(LOST))
    assert pair.source.outcomes == ["failed", "failed"]


@pytest.mark.slow
def test_an_exchange_of_any_length_does_not_recurse() -> None:
    depth = deepest = 0

    def answer(n: int) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        pair.source.next(*[1] * n)
        depth -= 1

    pair = LocalPair(window=1, probe=ProbeSubscriber(on_item=lambda _: pair.probe.request(1)))
    pair.source.on_request = answer
    pair.probe.on_item = lambda _: pair.probe.request(1) if len(pair.probe.items) < 5000 else None
    pair.probe.request(1)
    assert len(pair.probe.items) == 5000
    assert deepest == 1


def test_a_cut_is_heard_by_both_ends_and_nothing_arrives_after_it() -> None:
    pair = LocalPair(probe=ProbeSubscriber(5, hold=True))
    pair.source.next(1, 2)
    pair.receiving.cut(LOST)
    assert repr(pair.probe.error) == repr(LOST)
    assert pair.source.cancelled
    assert pair.source.outcomes == ["failed", "failed"]
    (error,) = pair.finished
    assert isinstance(error, ConnectionLost)
    assert error.outcome_unknown == 2
    pair.probe.holds[0].done()
    pair.probe.request(3)
    pair.probe.cancel()
    pair.receiving.wake()
    pair.sending.wake()
    assert pair.probe.signals == ["on_subscribe", "on_next", "on_next", "on_error"]


def test_what_is_under_way_when_the_connection_is_cut_does_not_arrive() -> None:
    def cut(item: int) -> None:
        if item == 1:
            pair.probe.request(1)  # a flow is to be sent behind the cut
            pair.receiving.cut(LOST)

    pair = LocalPair(window=2, probe=ProbeSubscriber(2, on_item=cut))
    pair.source.next(1)
    assert pair.source.requests == [2]
    assert pair.probe.items == [1]
    assert repr(pair.probe.error) == repr(LOST)
    assert pair.sender.outcome_unknown == 1


def test_what_is_to_be_called_later_is_called_soon_for_there_is_no_clock() -> None:
    called = list[str]()
    LocalDriver.pair()[0].call_after(5.0, lambda: called.append("called"))
    assert called == ["called"]


def test_a_driver_without_a_link_lets_everything_pass() -> None:
    one, other = LocalDriver.pair()
    one.wake()
    one.cut(LOST)
    assert other.credit() == 0
    with pytest.raises(AssertionError, match="bind"):
        _ = one._role
