"""The receiving end settles what it has received: holds become outcomes, and outcomes dispositions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rstreams._core.claims import DONE, NO_HOLD, Claims, Ending, Settles
from rstreams._core.claims import RELEASED as GIVEN_BACK
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Hold
from rstreams.errors import DeliveryFailed
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED, Forwarded, Outcome, outcome_of
from rstreams.protocol.frames import Attach, Disposition, Flow, Role, Settlement
from tests.protocol.played import PlayedReceiver


def test_the_disposition_waits_for_the_holds() -> None:
    played = PlayedReceiver(request=5, hold=True)
    played.transfer(5)
    assert played.outcomes == {}
    assert played.end.ledger.unsettled == 5

    played.probe.holds[3].done()
    played.probe.holds[0].fail(ValueError("no"))
    played.probe.holds[1].release()
    played.probe.holds[4].fail(DeliveryFailed("rejected", "x:bad", "unreadable"))
    played.driver.turn()
    rejected = Outcome("rejected", "x:bad", "unreadable")
    assert played.outcomes == {3: ACCEPTED, 0: FAILED, 1: RELEASED, 4: rejected}
    assert played.end.ledger.unsettled == 1

    played.probe.holds[2].done()
    played.probe.holds[2].fail(ValueError("too late"))
    played.driver.turn()
    assert played.outcomes[2] is ACCEPTED


def test_equal_outcomes_in_a_row_are_one_frame() -> None:
    played = PlayedReceiver(request=6, hold=True)
    played.transfer(6)
    played.driver.take_sent()
    for index in (5, 4, 0):
        played.probe.holds[index].release()
    played.probe.holds[1].fail(ValueError("no"))
    for index in (2, 3):
        played.probe.holds[index].done()
    played.driver.turn()
    assert played.driver.take_sent() == [
        Disposition([2, 3], ACCEPTED),
        Disposition([5, 4, 0], RELEASED),
        Disposition([1], FAILED),
    ]


def test_several_holds_on_one_item_the_worst_wins_and_the_last_settles() -> None:
    holds: list[Hold] = []

    def twice(_: int) -> None:
        assert played.probe.subscription is not None
        holds.extend([played.probe.subscription.hold(), played.probe.subscription.hold()])

    played = PlayedReceiver(request=1, on_item=twice)
    played.transfer(1)
    holds[0].release()
    assert played.outcomes == {}
    holds[1].done()
    played.driver.turn()
    assert played.outcomes == {0: RELEASED}


def test_hold_outside_on_next_holds_nothing() -> None:
    played = PlayedReceiver(request=1)
    played.transfer(1)
    assert played.end.hold() is NO_HOLD
    assert played.outcomes == {0: ACCEPTED}


def test_items_that_come_settled_need_no_hold_and_are_not_settled_again() -> None:
    played = PlayedReceiver(window=2, request=UNBOUNDED, hold=True)
    played.transfer(2, settled=True)
    assert played.probe.items == [0, 1]
    assert played.probe.holds == [NO_HOLD, NO_HOLD]
    assert played.driver.sent == [Flow(2), Flow(2)]


def test_the_window_is_what_can_be_held_at_once() -> None:
    played = PlayedReceiver(window=4, attached=False)
    played.driver.receive(Attach("test", Role.SENDER, "a", "", Settlement.AT_LEAST_ONCE))
    assert played.end.window == 4
    played = PlayedReceiver(window=4, attached=False)
    played.driver.receive(Attach("test", Role.SENDER, "a", "", Settlement.AT_MOST_ONCE))
    assert played.end.window == UNBOUNDED, "nobody holds what comes settled"


def test_what_is_held_counts_against_the_window() -> None:
    played = PlayedReceiver(window=4, request=UNBOUNDED, hold=True)
    played.transfer(4)
    assert played.driver.take_sent() == [Flow(4)]
    played.probe.holds[0].done()
    played.driver.turn()
    assert played.driver.take_sent() == [Disposition([0], ACCEPTED), Flow(1)]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("x"), FAILED),
        (DeliveryFailed("released"), RELEASED),
        (DeliveryFailed("modified"), FAILED),
        (DeliveryFailed("rejected"), Outcome("rejected", "amqp:internal-error")),
        (DeliveryFailed("rejected", "a:b", "c"), Outcome("rejected", "a:b", "c")),
    ],
)
def test_an_error_becomes_an_outcome(error: BaseException, outcome: Outcome) -> None:
    assert outcome_of(error) == outcome


@pytest.mark.parametrize("kind", ["rejected", "released", "modified"])
def test_an_outcome_becomes_an_error(kind: str) -> None:
    error = Outcome(kind, "a:b", "c").as_error(accepted=7)  # type: ignore[arg-type]
    assert (error.outcome, error.condition, error.description, error.accepted) == (kind, "a:b", "c", 7)


def test_accepted_is_no_error() -> None:
    with pytest.raises(ValueError, match="not a failure"):
        ACCEPTED.as_error()


class Log(Settles):
    """A source that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, object]] = []
        self.loose: list[Claims] = []

    def settle(self, epoch: int, places: Sequence[object], how: Ending) -> None:
        assert epoch == 7
        self.told += [(place, how if isinstance(how, str) else str(how)) for place in places]

    def loosen(self, claims: Claims) -> None:
        self.loose.append(claims)


def test_claims_tell_their_source_each_outcome_once() -> None:
    log = Log()
    claims = Claims(log, 7, [1, 2, 3, 4])
    claims.cut(1).done()
    claims.cut(1).release()
    claims.cut(1).fail(ValueError("no"))
    assert log.told == [(1, "done"), (2, "released"), (3, "no")]
    claims.loosen()
    assert log.loose == [claims]
    assert not claims.gone
    claims.cut(1).done()  # the source makes room
    assert claims.gone
    assert log.told[-1] == (4, "done")
    told = list(log.told)
    claims.loosen()
    claims.release()
    claims.fail(ValueError("too late"))
    claims.done()
    assert (log.told, log.loose) == (told, [claims])  # what is said later changes nothing
    assert claims.hold() is NO_HOLD


def raises(error: BaseException) -> None:
    raise error


def test_a_forwarded_delivery_is_accepted_only_if_somebody_else_has_it() -> None:
    log = Log()
    forwarded = Forwarded(log, raises)
    ways: list[Ending] = [DONE, GIVEN_BACK, ValueError("no")]
    for place, how in enumerate(ways):
        Claims(forwarded, 7, (place,)).end(how)
    failed = str(DeliveryFailed("modified", delivery_failed=True))
    assert log.told == [(0, "done"), (1, failed), (2, failed)]
    assert outcome_of(DeliveryFailed("modified", delivery_failed=True)) == FAILED


def test_a_window_that_has_become_smaller_does_not_hide_the_credit_that_is_left() -> None:
    played = PlayedReceiver(window=8, request=20, hold=True)
    played.transfer(5)
    played.end.ledger.window = 4
    assert played.end.waits_for == "the peer has credit for 3 deliveries"
    played.transfer(3)
    assert played.end.waits_for.startswith("it waits for the outcomes of 8 items in hand")
