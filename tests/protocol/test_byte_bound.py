"""The bytes a receiver has on hand, and the credit that is granted beside them, for whatever sizes come."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.protocol.byte_bound import MEMORY, ByteBound, require_window_bytes
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.delivery import FailureStrategy, reject
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import PlayedReceiver, decode

SIZES = st.one_of(st.integers(0, 20), st.integers(0, 2000))


class ByteLaws(RuleBasedStateMachine):
    """A ledger bounded in items and bytes beside an honest count of both, and a sender that sends what it likes."""

    @initialize(window=st.integers(1, 40), window_bytes=st.integers(1, 5000))
    def start(self, window: int, window_bytes: int) -> None:
        self.ledger = CreditLedger(window, window_bytes=window_bytes)
        self.ledger.request(UNBOUNDED)
        assert self.ledger.bound is not None
        self.bound = self.ledger.bound
        self.credit = 0
        self.number = 0
        self.on_hand: dict[int, int] = {}

    @rule()
    def grant(self) -> None:
        bound, before = self.bound, self.credit
        granted = self.ledger.grant(before)
        self.credit += granted
        assert granted >= 0
        room = self.ledger.window - len(self.on_hand)
        if granted:
            fits = self.credit * bound.expected <= bound.window_bytes - bound.on_hand
            alone = self.credit == 1 and not bound.on_hand
            assert fits or alone, "what is granted is expected to fit, or comes alone"
        elif before == 0:
            full = bound.on_hand and bound.on_hand + bound.expected > bound.window_bytes
            assert full or room <= 0, "at once when there is none and the rule allows one"

    @precondition(lambda self: self.credit)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        sizes = data.draw(st.lists(SIZES, min_size=1, max_size=min(self.credit, 20)))
        run = range(self.number, self.number + len(sizes))
        messages = [bytes(size) for size in sizes]
        self.number += len(sizes)
        self.credit -= len(sizes)
        self.bound.observe(messages)
        assert self.bound.expected >= max(*sizes, 1)
        self.bound.receive(zip(run, messages, strict=True))
        self.on_hand.update(zip(run, sizes, strict=True))
        self.ledger.receive(len(sizes))
        self.ledger.deliver()

    @precondition(lambda self: self.on_hand)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.on_hand)), unique=True, min_size=1))
        for key in keys:
            del self.on_hand[key]
        self.ledger.settle(len(keys))
        self.bound.settle(keys)

    @invariant()
    def the_bound_counts_right(self) -> None:
        if hasattr(self, "bound"):
            bound = self.bound
            assert bound.on_hand == sum(self.on_hand.values())
            assert bound.expected >= 1
            assert bound.room() == (bound.window_bytes - bound.on_hand if bound.on_hand else UNBOUNDED)


TestByteLaws = pytest.mark.slow(ByteLaws.TestCase)


@given(window=st.integers(1, 1000), window_bytes=st.integers(1, 2**63 - 1))
def test_one_delivery_is_granted_before_any_size_is_known(window: int, window_bytes: int) -> None:
    ledger = CreditLedger(window, window_bytes=window_bytes)
    ledger.request(UNBOUNDED)
    assert ledger.grant(0) == 1


def test_the_second_grant_follows_the_size_of_the_first_delivery() -> None:
    ledger = CreditLedger(256, window_bytes=10_000)
    ledger.request(UNBOUNDED)
    assert ledger.bound is not None
    ledger.bound.observe([bytes(100)])
    assert ledger.grant(0) == 100
    assert ledger.grant(51) == 0, "not before half of what fits is used"
    assert ledger.grant(50) == 50


def test_items_bound_where_bytes_do_not() -> None:
    ledger = CreditLedger(8, window_bytes=10_000)
    ledger.request(UNBOUNDED)
    assert ledger.bound is not None
    ledger.bound.observe([b"x"])
    assert ledger.grant(0) == 8


def test_a_pack_is_granted_only_if_it_fits() -> None:
    ledger = CreditLedger(100, window_bytes=1000)
    ledger.pack = 10
    ledger.request(3)
    bound = ledger.bound
    assert bound is not None
    bound.observe([bytes(400)])
    bound.receive([("kept", bytes(700))])
    assert ledger.grant(0) == 0
    bound.settle(["kept"])
    assert ledger.grant(0) == 1


def test_a_larger_delivery_is_expected_again_for_a_while_and_then_forgotten() -> None:
    bound = ByteBound(1000)
    bound.observe([bytes(10)])
    bound.observe([bytes(500)])
    assert bound.expected == 500
    falling = []
    for _ in range(100):
        bound.observe([bytes(10)])
        falling.append(bound.expected)
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > 450
    assert falling[-1] == 10
    bound.observe([bytes(500)])
    bound.observe([bytes(10)] * MEMORY)
    assert bound.expected == 10, "a run of many counts as much as many runs"


def test_what_came_settled_is_on_hand_until_it_is_let_go() -> None:
    bound = ByteBound(1000)
    bound.receive([(None, bytes(300)), (None, bytes(600))])
    assert bound.room() == 100
    bound.let_go(300)
    bound.let_go(600)
    assert bound.room() == UNBOUNDED


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("runs", [True, False])
def test_what_cannot_be_decoded_leaves_a_link_as_all_other_items_do(*, runs: bool, settled: bool) -> None:
    def odd_is_unreadable(payload: bytes) -> int:
        item = decode(payload)
        if item % 2:
            raise ValueError(item)
        return item

    seen: list[int] = []
    sink = ForEachSink[int](lambda: None, seen.append)
    probe = cast("Any", sink) if runs else ProbeSubscriber[int](9, on_item=seen.append)
    played = PlayedReceiver(
        probe=probe, decode=odd_is_unreadable, on_failure=FailureStrategy(reject), window=16, window_bytes=1000
    )
    sink.request(9)
    played.driver.turn()
    played.transfer(1, settled=settled)  # the first by itself: nobody knows how large it is
    played.transfer(3, settled=settled)
    played.driver.turn()
    assert (seen, played.end.ended) == ([0, 2], False)
    assert played.end.room_bytes() == UNBOUNDED
    assert played.end.ledger.unsettled == played.end.ledger.buffered == 0


@pytest.mark.parametrize("window_bytes", [0, -1, 2**63, True, 1.5, "1 MB"])
def test_a_bound_that_cannot_be_is_named_with_what_is_allowed(window_bytes: object) -> None:
    with pytest.raises(ConfigError, match=r"window_bytes=.*1 to 9223372036854775807 bytes, or None"):
        require_window_bytes(window_bytes)  # type: ignore[arg-type]
    assert require_window_bytes(None) == 0
