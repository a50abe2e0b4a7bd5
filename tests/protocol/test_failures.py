"""What becomes of an item that could not be decoded, or whose processing failed; and deliveries settled by hand."""

from __future__ import annotations

from typing import Any

import pytest

from rstreams._core.claims import NO_HOLD
from rstreams._core.sight import Counts
from rstreams.abc import Hold
from rstreams.errors import ConfigError, DeliveryFailed, LinkDetached
from rstreams.protocol.delivery import (
    ACCEPTED,
    ERROR_CONDITION,
    ERROR_DESCRIPTION,
    FAILED,
    RELEASED,
    Delivery,
    FailureStrategy,
    Outcome,
    failed,
    outcome_of,
    reject,
)
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.protocol.played import PlayedReceiver

REJECT = FailureStrategy(reject)


def decode_odd(payload: bytes) -> int:
    item = int(payload)
    if item % 2 == 0:
        raise KeyError(item)
    return item


def test_a_strategy_that_goes_on_passes_over_what_cannot_be_decoded() -> None:
    played = PlayedReceiver(window=8, request=3, decode=decode_odd, on_failure=REJECT)
    played.transfer(3)
    assert played.probe.items == [1]
    assert played.outcomes == {
        0: Outcome("rejected", "amqp:internal-error", "KeyError"),
        1: ACCEPTED,
        2: Outcome("rejected", "amqp:internal-error", "KeyError"),
    }
    assert played.driver.wire == 2, "the subscriber is still owed two items"
    assert played.end.counts() == Counts(3, 1, 0)
    assert not played.probe.ended


def test_a_failed_hold_has_the_strategys_outcome_and_one_with_an_outcome_its_own() -> None:
    played = PlayedReceiver(request=3, hold=True, on_failure=REJECT)
    played.transfer(3)
    played.probe.holds[0].fail(ValueError("secret"))
    played.probe.holds[1].fail(DeliveryFailed("released"))
    played.probe.holds[2].fail(DeliveryFailed("rejected", "a:b", "c"))
    played.driver.turn()
    assert played.outcomes == {
        0: Outcome("rejected", "amqp:internal-error", "ValueError"),
        1: RELEASED,
        2: Outcome("rejected", "a:b", "c"),
    }


def test_a_strategy_may_hand_the_message_to_somebody_else() -> None:
    forwarded: list[tuple[bytes, str, Hold]] = []
    strategy = FailureStrategy(
        outcome_of, forward=lambda payload, error, hold: forwarded.append((payload, str(error), hold))
    )
    played = PlayedReceiver(request=3, hold=True, on_failure=strategy)
    played.transfer(3)
    for number, hold in enumerate(played.probe.holds):
        hold.fail(ValueError(number))
    played.driver.turn()
    assert played.outcomes == {}
    assert [(payload, error) for payload, error, _ in forwarded] == [(b"0", "0"), (b"1", "1"), (b"2", "2")]

    forwarded[0][2].done()
    forwarded[1][2].fail(ValueError("no"))
    forwarded[2][2].release()
    played.driver.turn()
    assert played.outcomes == {0: ACCEPTED, 1: FAILED, 2: FAILED}


@pytest.mark.parametrize(
    ("condition", "told"), [("x:gone", {ERROR_CONDITION: "x:gone"}), ("größer", {}), ("", {}), ("x" * 256, {})]
)
def test_a_failed_item_has_a_note_of_the_errors_condition_if_that_can_be_sent(
    condition: str, told: dict[str, str]
) -> None:
    outcome = failed(LinkDetached(condition, "of a line behind this one"))
    assert outcome == Outcome("modified", delivery_failed=True, annotations={ERROR_DESCRIPTION: "LinkDetached", **told})


# by hand


def delivered() -> tuple[ManualPublisher[int], Delivery[int]]:
    source = ManualPublisher[int]()
    deliveries: list[Delivery[int]] = []
    probe = ProbeSubscriber[int](1, on_item=lambda item: deliveries.append(Delivery(item, source.hold())))
    source.subscribe(probe)
    source.next(7)
    return source, deliveries[0]


def test_only_the_first_word_counts() -> None:
    source, delivery = delivered()
    assert repr(delivery) == "<unsettled delivery of 7>"
    delivery.accept()
    delivery.release()
    delivery.reject()
    delivery.modify()
    delivery.fail(ValueError("no"))
    assert delivery.settled
    assert repr(delivery) == "<settled delivery of 7>"
    assert source.outcomes == ["done"]


class Log:
    """A hold that notes what was said."""

    def __init__(self) -> None:
        self.said: list[object] = []

    def done(self) -> None:
        self.said.append("done")

    def release(self) -> None:
        self.said.append("released")

    def fail(self, error: BaseException) -> None:
        self.said.append(outcome_of(error))


def test_each_word_is_an_outcome() -> None:
    log = Log()
    Delivery(1, log).accept()
    Delivery(2, log).release()
    Delivery(3, log).reject("a:b", "c")
    Delivery(4, log).modify(undeliverable_here=True, annotations={"x-opt-why": "no"})
    Delivery(5, log).modify(delivery_failed=False)
    Delivery(6, log).fail(ValueError("no"))
    assert log.said == [
        "done",
        "released",
        Outcome("rejected", "a:b", "c"),
        Outcome("modified", delivery_failed=True, undeliverable_here=True, annotations={"x-opt-why": "no"}),
        Outcome("modified"),
        FAILED,
    ]


def test_a_block_accepts_or_fails() -> None:
    log = Log()
    with Delivery(1, log) as item:
        assert item == 1
    with pytest.raises(KeyError), Delivery(2, log):
        raise KeyError(2)
    with Delivery(3, log):
        pass
    assert log.said == ["done", FAILED, "done"]


@pytest.mark.parametrize("condition", ["", "größer", "x" * 256, None])
def test_a_condition_that_is_none_is_named(condition: str) -> None:
    delivery = Delivery(1, NO_HOLD)
    with pytest.raises(ConfigError, match=r"reject\(condition=.*1 to 255"):
        delivery.reject(condition)
    assert not delivery.settled


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("delivery_failed", "no"),
        ("delivery_failed", None),
        ("undeliverable_here", 1),
        ("annotations", "x-opt-a"),
        ("annotations", {1: 1}),
    ],
)
def test_a_mark_that_is_none_is_named(option: str, value: Any) -> None:  # noqa: ANN401
    delivery = Delivery(1, NO_HOLD)
    with pytest.raises(ConfigError, match=rf"modify\({option}=.*: {option} must be "):
        delivery.modify(**{option: value})
    assert not delivery.settled


def test_annotations_that_cannot_be_sent_are_named() -> None:
    delivery = Delivery(1, NO_HOLD)
    with pytest.raises(ConfigError, match="object"):
        delivery.modify(annotations={"x-opt-a": object()})
    assert not delivery.settled
