"""Items that a stage gathers while another one holds them, too: both must be through with them."""

from __future__ import annotations

import pytest

from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams.abc import Hold, Subscription
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED, Outcome
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import PlayedReceiver


class Gatherer(ProbeSubscriber[int]):
    """Gathers each item, and holds those in `held` besides, as a line does that uses an item in two ways."""

    def __init__(self, *held: int, gathers_first: bool = True, loose: bool = False) -> None:
        super().__init__(20)
        self.also_held: dict[int, Hold] = {}
        self.ends_in_hand = False
        self._held = held
        self._gathers_first = gathers_first
        self._loose = loose

    def on_subscribe(self, subscription: Subscription) -> None:
        claims = gather(subscription, loose=self._loose)
        assert claims is not None
        self.claims: ClaimsInOrder = claims
        super().on_subscribe(subscription)

    def on_next(self, item: int) -> None:
        super().on_next(item)
        if self._gathers_first:
            self.claims.keep()
            self.claims.keep()  # it is kept already: this changes nothing
        if self.ends_in_hand:
            self.claims.done()
        if item in self._held:
            assert self.subscription is not None
            self.also_held[item] = self.subscription.hold()
        if not self._gathers_first:
            self.claims.keep()


def end(claim: Hold | ClaimsInOrder, how: str) -> None:
    if how == "done":
        claim.done()
    elif how == "fail":
        claim.fail(ValueError("no"))
    else:
        claim.release()


@pytest.mark.parametrize("gathers_first", [True, False])
@pytest.mark.parametrize("hold_first", [True, False])
@pytest.mark.parametrize(
    ("gathered", "held", "outcome"),
    [
        ("done", "done", ACCEPTED),
        ("done", "release", RELEASED),
        ("done", "fail", FAILED),
        ("release", "done", RELEASED),
        ("fail", "done", FAILED),
        ("fail", "release", FAILED),
    ],
)
def test_an_item_that_is_also_held_waits_for_both_and_the_worst_counts(
    gathered: str, held: str, outcome: Outcome, *, hold_first: bool, gathers_first: bool
) -> None:
    gatherer = Gatherer(1, gathers_first=gathers_first)
    played = PlayedReceiver(probe=gatherer)
    played.transfer(3)
    assert (len(gatherer.claims), played.outcomes) == (3, {})
    others = {"done": ACCEPTED, "release": RELEASED, "fail": FAILED}[gathered]
    if hold_first:
        end(gatherer.also_held[1], held)
        played.driver.turn()
        assert played.outcomes == {}
    end(gatherer.claims, gathered)
    played.driver.turn()
    if not hold_first:
        assert played.outcomes == {0: others, 2: others}
        end(gatherer.also_held[1], held)
        played.driver.turn()
    assert played.outcomes == {0: others, 1: outcome, 2: others}
    assert (len(gatherer.claims), played.end.ledger.unsettled) == (0, 0)


@pytest.mark.parametrize("gathers_first", [True, False])
def test_what_comes_when_the_result_is_through_waits_only_for_who_else_holds_it(*, gathers_first: bool) -> None:
    gatherer = Gatherer(0, gathers_first=gathers_first)
    gatherer.ends_in_hand = True
    played = PlayedReceiver(probe=gatherer)
    played.transfer(2)
    assert played.outcomes == {1: ACCEPTED}
    gatherer.also_held[0].done()
    played.driver.turn()
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED}


@pytest.mark.parametrize("later", [True, False])
def test_a_link_makes_room_with_an_item_that_is_also_held_when_only_the_result_needs_it(*, later: bool) -> None:
    gatherer = Gatherer(0, loose=not later)
    played = PlayedReceiver(probe=gatherer, window=2)
    played.transfer(2)
    if later:
        assert (played.outcomes, played.driver.wire) == ({}, 0)
        gatherer.claims.loosen()
        played.end.request(1)  # anything that gives the link a turn
        played.driver.turn()
    assert (played.outcomes, played.driver.wire) == ({1: ACCEPTED}, 1), "the oldest that nobody else holds"
    assert not gatherer.claims.gone
    gatherer.also_held[0].done()
    played.driver.turn()
    assert played.outcomes == {1: ACCEPTED}, "there is room"
    played.transfer(1)
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED}
    assert not gatherer.claims.gone, "the newest is still kept"
    gatherer.claims.done()
    played.driver.turn()
    assert played.outcomes == dict.fromkeys(range(3), ACCEPTED)
    assert played.end.ledger.unsettled == 0
