"""The two ledgers of a link: laws 1 to 3 of the design, for whatever happens in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.protocol.credit import EVEN_ITEMS, GROWN_BYTES, MAX_CREDIT, CreditLedger, SenderLedger, require_window

WINDOWS = st.one_of(st.integers(1, 12), st.integers(60, 70), st.just(256), st.just(MAX_CREDIT))
DEMANDS = st.one_of(st.integers(1, 20), st.integers(1, UNBOUNDED), st.just(UNBOUNDED))


class ReceiverLaws(RuleBasedStateMachine):
    """A receiver's ledger beside an honest count of the same items, and a wire with the credit on it."""

    @initialize(window=WINDOWS)
    def start(self, window: int) -> None:
        self.ledger = CreditLedger(window)
        self.credit = 0
        self.demanded = 0
        self.handed = 0
        self.buffered = 0
        self.unsettled = 0

    @rule(items=DEMANDS)
    def request(self, items: int) -> None:
        self.demanded += items
        self.ledger.request(items)

    @rule()
    def grant(self) -> None:
        ledger = self.ledger
        granted = ledger.grant(self.credit)
        rule_allows = min(ledger.demand - ledger.buffered, ledger.window - ledger.buffered - ledger.unsettled)
        assert granted >= 0
        assert self.credit + granted <= max(rule_allows, self.credit)
        lacks, half = max(rule_allows - self.credit, 0), ledger.window // 2
        room = ledger.window - ledger.buffered - ledger.unsettled
        if self.credit > half:
            assert granted == 0, "not before half is used"
        elif (
            ledger.window < EVEN_ITEMS
            or lacks <= half
            or room > ledger.demand - ledger.buffered
            or (not self.credit and room == ledger.window)
        ):
            assert granted == lacks, "all that the rule allows, once half is used"
        else:
            assert granted == half * (lacks // half), "whole halves of a large window that is partly used"
        self.credit += granted

    @precondition(lambda self: self.credit > 0)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        items = data.draw(st.integers(1, min(self.credit, 50)))
        self.credit -= items
        self.buffered += items
        self.ledger.receive(items)

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        run = self.ledger.deliver()
        assert run == self.buffered, "what was granted was demanded, so all of it can be handed over"
        back = data.draw(st.integers(0, run))
        self.ledger.take_back(back)
        self.buffered = back
        self.unsettled += run - back
        self.handed += run - back

    @precondition(lambda self: self.unsettled)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        items = data.draw(st.integers(1, self.unsettled))
        self.unsettled -= items
        self.ledger.settle(items)

    @precondition(lambda self: self.credit > 0)
    @rule()
    def drained_or_withdrawn(self) -> None:
        """The credit goes back to unmet demand, where it never left: nothing is to be told to the ledger."""
        self.credit = 0

    @precondition(lambda self: self.buffered)
    @rule()
    def give_back(self) -> None:
        """The end: what is buffered goes back, and a ledger that went on would grant for it again."""
        self.ledger.give_back(self.buffered)
        self.buffered = 0

    @invariant()
    def the_ledger_counts_right(self) -> None:
        if hasattr(self, "ledger"):
            ledger = self.ledger
            assert (ledger.buffered, ledger.unsettled) == (self.buffered, self.unsettled)
            saturated = ledger.demand == UNBOUNDED
            assert saturated or ledger.demand == self.demanded - self.handed

    @invariant()
    def law_2_the_window_is_the_bound(self) -> None:
        if hasattr(self, "ledger"):
            ledger = self.ledger
            assert ledger.buffered + ledger.unsettled + self.credit <= ledger.window
            assert self.credit + ledger.buffered <= ledger.demand, "never ahead of demand"
            assert 0 <= self.credit <= MAX_CREDIT


TestReceiverLaws = ReceiverLaws.TestCase


@given(window=WINDOWS, demand=DEMANDS)
def test_the_first_grant_is_the_lesser_of_demand_and_window(window: int, demand: int) -> None:
    ledger = CreditLedger(window)
    ledger.request(demand)
    assert ledger.grant(0) == min(demand, window)


def test_unbounded_demand_never_shrinks_and_the_window_alone_bounds() -> None:
    ledger = CreditLedger(256)
    ledger.request(UNBOUNDED)
    ledger.request(UNBOUNDED)
    for _ in range(3):
        assert ledger.grant(0) == 256
        ledger.receive(256)
        assert ledger.deliver() == 256
        ledger.settle(256)
        assert ledger.demand == UNBOUNDED


def test_demand_beyond_what_the_engine_can_hold_is_granted_in_parts() -> None:
    ledger = CreditLedger(MAX_CREDIT)
    ledger.request(UNBOUNDED)
    assert ledger.grant(0) == MAX_CREDIT == 2**31 - 1


def test_links_with_the_same_window_ask_for_more_at_the_same_item() -> None:
    ledgers = [CreditLedger(256), CreditLedger(256)]
    marks: list[set[int]] = []
    for ledger, runs in zip(ledgers, ((64, 64, 64, 64), (100, 60, 96)), strict=True):
        ledger.request(UNBOUNDED)
        credit, sent, came = ledger.grant(0), 256, 0
        asked = set()
        for run in runs * 4:
            credit, came = credit - run, came + run
            ledger.receive(run)
            ledger.deliver()
            ledger.settle(run)
            granted = ledger.grant(credit)
            if granted:
                asked.add(sent := sent + granted)
            credit += granted
        marks.append(asked)
    assert marks[1] <= marks[0], "up to the same items"
    assert max(marks[0]) == max(marks[1]) == 5 * 256


def test_credit_is_topped_up_at_half_the_window() -> None:
    ledger = CreditLedger(10)
    ledger.request(UNBOUNDED)
    credit = ledger.grant(0)
    grants = []
    for _ in range(10):
        credit -= 1
        ledger.receive(1)
        ledger.deliver()
        ledger.settle(1)
        grants.append(ledger.grant(credit))
        credit += grants[-1]
    assert grants == [0, 0, 0, 0, 5, 0, 0, 0, 0, 5]


def test_one_item_is_granted_at_once_when_there_is_no_credit() -> None:
    ledger = CreditLedger(10)
    ledger.request(UNBOUNDED)
    ledger.receive(ledger.grant(0))
    ledger.deliver()
    assert ledger.grant(0) == 0
    ledger.settle(1)
    assert ledger.grant(0) == 1


@pytest.mark.parametrize("window", [0, -1, 2**31, True, 1.5, "256", None])
def test_a_window_that_cannot_be_is_named_with_what_is_allowed(window: object) -> None:
    with pytest.raises(ConfigError, match=r"window=.*1 to 2147483647 items") as raised:
        CreditLedger(window)  # type: ignore[arg-type]
    assert repr(window) in str(raised.value)
    with pytest.raises(ConfigError):
        require_window(window)  # type: ignore[arg-type]


class SenderLaws(RuleBasedStateMachine):
    """A sender's ledger, a publisher that owes, and a receiver that grants, drains and withdraws."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = SenderLedger()
        self.credit = 0
        self.most_credit = 0
        self.requested = 0
        self.published = 0
        self.sent = 0

    @rule(credit=st.integers(0, 40))
    def grant(self, credit: int) -> None:
        self.credit = max(self.credit, credit)
        self.most_credit = max(self.most_credit, self.credit)

    @rule()
    def drain_or_withdraw(self) -> None:
        self.credit = 0

    @rule(most=st.integers(0, 50))
    def request(self, most: int) -> None:
        owed, held = self.ledger.owed, self.ledger.held
        asked = self.ledger.request(self.credit, most)
        assert asked == max(0, min(self.credit - owed - held, most)), "law 3"
        self.requested += asked

    @precondition(lambda self: self.ledger.owed)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        items = data.draw(st.integers(1, self.ledger.owed))
        self.published += items
        self.ledger.receive(items)

    @precondition(lambda self: self.ledger.held and self.credit)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        items = data.draw(st.integers(1, min(self.ledger.held, self.credit)))
        self.credit -= items
        self.sent += items
        self.ledger.send(items)

    @invariant()
    def the_ledger_counts_right(self) -> None:
        assert self.ledger.owed == self.requested - self.published
        assert self.ledger.held == self.published - self.sent

    @invariant()
    def law_3_never_more_is_under_way_than_was_once_granted(self) -> None:
        assert 0 <= self.ledger.owed + self.ledger.held <= self.most_credit


TestSenderLaws = SenderLaws.TestCase


def test_credit_that_is_owed_or_held_already_asks_for_nothing() -> None:
    ledger = SenderLedger()
    ledger.pack = 2
    assert not ledger.may_request(0)
    assert ledger.may_request(2)
    assert ledger.request(2, 3) == 3
    assert ledger.may_request(2)
    assert ledger.request(2, 3) == 1
    assert not ledger.may_request(2)
    ledger.receive(4)
    assert not ledger.may_request(2), "held items have this credit"
    ledger.send(2)
    assert not ledger.may_request(1)


def test_what_is_owed_after_a_drain_takes_the_next_credit_first() -> None:
    ledger = SenderLedger()
    assert ledger.request(10, 100) == 10
    ledger.receive(3)
    ledger.send(3)
    # Drained: the credit is gone, the publisher still owes 7. New credit asks for what goes beyond that only.
    assert ledger.request(5, 100) == 0
    assert ledger.request(9, 100) == 2
    ledger.receive(4)
    assert ledger.request(9, 100) == 0
    assert (ledger.owed, ledger.held) == (5, 4)


def test_negative_credit_asks_for_nothing() -> None:
    ledger = SenderLedger()
    assert ledger.request(-5, 100) == 0
    assert (ledger.owed, ledger.held) == (0, 0)


# a window that grows


def test_a_growing_window_has_room_for_small_items_and_goes_back_for_large_ones() -> None:
    ledger = CreditLedger(256, grows=True)
    windows = []
    for size in (
        10,
        GROWN_BYTES // 1024,
        GROWN_BYTES // 1024 + 1,
        GROWN_BYTES // 512,
        GROWN_BYTES // 512 + 1,
        1,
        2**40,
    ):
        ledger.fit(10 * size, 10)
        windows.append(ledger.window)
    assert windows == [1024, 1024, 512, 512, 256, 1024, 256]


def test_a_window_that_has_grown_is_granted_in_whole_halves() -> None:
    ledger = CreditLedger(256, grows=True)
    ledger.request(UNBOUNDED)
    assert ledger.grant(0) == 256
    ledger.receive(100)
    ledger.deliver()
    ledger.fit(100, 100)
    assert ledger.grant(156) == 512, "100 are in hand, 156 are on their way, and there is room for 768 more"
