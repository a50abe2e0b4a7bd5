"""A link whose connection is lost and returns: what is sent again, what is dropped, and what still counts."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from rstreams.errors import ConnectionLost, RStreamsError
from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.sources import from_iterable
from rstreams.testing import ProbeSubscriber
from rstreams.testing.local_driver import LocalDriver
from tests.protocol.played import LOST, REJECTED, PlayedDriver, PlayedReceiver, PlayedSender, decode, encode, never

ITEMS = 12
WINDOW = 4


class Pair:
    """A publisher of `ITEMS` items and a subscriber that holds each, over connections that can be lost."""

    def __init__(self, settlement: Settlement) -> None:
        self.settlement = settlement
        self.finished: list[BaseException | None] = []
        self.probe = ProbeSubscriber[int](hold=True)
        self.receiver = LinkSubscription(self.probe, ReceivingOptions(decode=decode, window=WINDOW), never)
        self.sender = LinkSubscriber(
            from_iterable(range(ITEMS)),
            SendingOptions(
                encode=encode, settlement=settlement, settle_before_detach=True, expose_errors=True, resends=True
            ),
            self.finished.append,
        )
        self.connect()

    def connect(self) -> None:
        receiving, sending = LocalDriver.pair()
        receiving_link, sending_link = self.receiver.bind("local", receiving), self.sender.bind("local", sending)
        receiving.bind(receiving_link)
        sending.bind(sending_link)
        receiving_link.send(Attach("local", Role.RECEIVER, "a", "", self.settlement))
        sending_link.send(Attach("local", Role.SENDER, "a", "", self.settlement))
        self.sender.start()
        self.driver = receiving

    def lose(self) -> None:
        self.driver.cut(LOST, returns=True)

    @property
    def bound_holds(self) -> bool:
        ledger = self.receiver.ledger
        return ledger.buffered + ledger.unsettled + max(self.driver.credit(), 0) <= WINDOW


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["request", "settle", "lose", "connect"]), st.integers(1, 5)), min_size=5, max_size=40
)


@pytest.mark.slow
@settings(max_examples=60)
@given(ACTIONS, st.sampled_from(Settlement))
def test_whenever_it_is_lost_nothing_is_missing_and_the_order_is_kept(
    actions: list[tuple[str, int]], settlement: Settlement
) -> None:
    pair = Pair(settlement)
    connected = True
    settled = losses = 0
    for action, count in [*actions, ("connect", 1), *[("request", 5), ("settle", 5)] * 2 * ITEMS]:
        if action == "request":
            pair.probe.request(count)
        elif action == "settle":
            now = pair.probe.holds[settled : settled + count]
            settled += len(now)
            for hold in now:
                hold.done()
        elif action == "lose" and connected:
            connected = False
            losses += 1
            pair.lose()
        elif action == "connect" and not connected:
            connected = True
            pair.connect()
        assert pair.bound_holds
        if pair.finished:
            break
    event(f"losses: {min(losses, 3)}")
    assert pair.finished == [None]
    items = pair.probe.items
    assert pair.probe.completed
    if settlement is Settlement.AT_LEAST_ONCE:
        assert sorted(set(items)) == list(range(ITEMS))
        assert pair.sender.accepted == ITEMS
        assert len(items) <= ITEMS + pair.sender.resent
    else:
        assert items == sorted(set(items))
        assert losses or len(items) == ITEMS


def returned(played: PlayedSender | PlayedReceiver) -> PlayedDriver:
    """Lose the connection of a played end, and give it a new one, attached."""
    assert played.driver.link is not None
    played.driver.link.lose(Lost(LOST, returns=True))
    driver = PlayedDriver()
    driver.link = played.end.bind("test", driver)
    if isinstance(played, PlayedSender):
        driver.link.send(Attach("test", Role.SENDER, "", "a"))
        driver.take_sent()
        driver.receive(Attach("test", Role.RECEIVER, "", "a"))
    else:
        driver.link.send(Attach("test", Role.RECEIVER, "a", ""))
        driver.take_sent()
        driver.receive(Attach("test", Role.SENDER, "a", ""))
    played.driver = driver
    return driver


def test_what_is_unsettled_is_sent_again_first_and_in_order() -> None:
    played = PlayedSender(resends=True)
    played.grant(5)
    played.source.next(0, 1, 2, 3)
    played.driver.turn()
    played.settle(ACCEPTED, 1)
    returned(played)
    assert played.finished == []
    assert played.end.unsettled == 3

    played.grant(9)
    played.source.next(4)
    played.driver.turn()
    assert played.transferred == [0, 2, 3, 4]
    assert played.end.resent == 3
    assert played.source.subscriptions == 1


@pytest.mark.parametrize("how", ["refused", "given up", "aborted", "refused item"])
def test_what_was_to_be_sent_again_and_is_not_has_an_unknown_outcome(how: str) -> None:
    played = PlayedSender(resends=True)
    played.grant(4)
    played.source.next(0, 1, 2)
    played.driver.turn()
    played.link.lose(Lost(LOST, returns=True))
    driver = played.driver if how == "given up" else returned(played)
    played.source.next(3)
    if how == "given up":
        played.end.on_lost(Lost(LOST))
    elif how == "aborted":
        played.end.abort()
        driver.receive(Detach())
    elif how == "refused":
        driver.receive(Detach(condition="amqp:not-found"))
    else:
        played.grant(1)
        driver.turn()
        played.settle(REJECTED, 3)
        driver.receive(Detach())
    assert played.source.outcomes == ["failed", "failed", "failed", "released"]
    unknown = 2 if how == "refused item" else 3
    assert played.end.outcome_unknown == unknown
    assert played.end.unsettled == 0
    [error] = played.finished
    assert how == "aborted" or (isinstance(error, RStreamsError) and error.outcome_unknown == unknown)


def test_what_was_sent_settled_is_not_sent_again() -> None:
    played = PlayedSender(resends=True, settlement=Settlement.AT_MOST_ONCE)
    played.grant(5)
    played.source.next(0, 1)
    played.driver.turn()
    returned(played)
    played.grant(9)
    assert played.transferred == []


@pytest.mark.parametrize("settled", [True, False])
def test_a_publisher_that_is_through_needs_no_new_link(settled: bool) -> None:  # noqa: FBT001
    played = PlayedSender(resends=True)
    played.grant(5)
    played.source.next(0)
    played.source.complete()
    played.driver.turn()
    if settled:
        played.settle(ACCEPTED, 0)
    played.link.lose(Lost(LOST, returns=True))
    assert played.finished == ([None] if settled else [])


def test_an_aborted_publisher_needs_no_new_link() -> None:
    played = PlayedSender(resends=True)
    played.grant(5)
    played.source.next(0)
    played.driver.turn()
    played.end.abort()
    played.link.lose(Lost(LOST, returns=True))
    assert [type(error) for error in played.finished] == [ConnectionLost]
    assert played.end.outcome_unknown == 1


def test_unmet_demand_is_the_credit_of_the_new_link_and_what_was_not_handed_over_is_dropped() -> None:
    played = PlayedReceiver(window=8, request=2, hold=True)
    played.transfer(2)
    played.probe.request(4)
    played.driver.turn()
    driver = returned(played)
    assert driver.sent == [Flow(4)]
    assert played.end.ledger.unsettled == 2

    played.probe.holds[0].done()
    played.probe.holds[1].fail(ValueError("no"))
    driver.turn()
    assert [frame for frame in driver.sent if isinstance(frame, Disposition)] == []
    assert played.end.late == 2
    assert played.end.ledger.unsettled == 0


def test_what_is_still_worked_on_keeps_its_place_in_the_window() -> None:
    played = PlayedReceiver(window=4, request=9, hold=True)
    played.transfer(3)
    driver = returned(played)
    assert driver.wire == 1
    for hold in played.probe.holds:
        hold.done()
    driver.turn()
    assert driver.wire == 4


def test_outcomes_that_were_not_told_come_too_late() -> None:
    played = PlayedReceiver(request=4, hold=True)
    played.transfer(1)
    played.driver.take_sent()
    played.probe.holds[0].done()
    driver = returned(played)
    driver.turn()
    assert played.end.late == 1
    assert not any(isinstance(frame, Disposition) for frame in driver.sent)


def test_a_drain_under_way_begins_again() -> None:
    drained: list[int] = []
    played = PlayedReceiver(request=4)
    played.end.drain(lambda: drained.append(1))
    played.driver.turn()
    driver = returned(played)
    assert driver.sent == [Flow(4, drain=True)]
    driver.wire = 0
    driver.receive(Flow(0, drain=True))
    assert drained == [1]


def test_a_link_that_is_lost_inside_of_a_signal_takes_no_items_of_the_next_one_with_it() -> None:
    played = PlayedReceiver(request=4, hold=True)
    link = played.driver.link
    assert link is not None
    played.end.drain(lambda: link.lose(Lost(LOST, returns=True)))
    played.driver.turn()
    played.driver.wire = 0
    played.driver.receive(Flow(0, drain=True))
    assert played.end.losses == 1

    returned(played)
    played.transfer(2)
    for hold in played.probe.holds:
        hold.done()
    played.driver.turn()
    assert [frame.outcome for frame in played.driver.sent if isinstance(frame, Disposition)] == [ACCEPTED]
    assert played.end.late == 0


def test_a_cancelled_subscription_needs_no_new_link() -> None:
    played = PlayedReceiver(request=4, hold=True)
    played.transfer(1)
    played.probe.cancel()
    played.driver.link.lose(Lost(LOST, returns=True))  # type: ignore[union-attr]
    assert played.end.ended
    assert played.probe.error is None
