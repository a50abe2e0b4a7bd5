"""A publisher that can be suspended, while the credit that it owes items for is away."""

from __future__ import annotations

import pytest

from rstreams.protocol.frames import Flow
from rstreams.testing import ManualPublisher
from tests.protocol.played import PlayedSender


class Suspendable(ManualPublisher[int]):
    """Writes down what it is told; may raise when it is told `fails_at`."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.fails_at = ""

    def _hear(self, told: str) -> None:
        self.told.append(told)
        if told == self.fails_at:
            msg = "by the publisher"
            raise ValueError(msg)

    def suspend(self) -> None:
        self._hear("suspend")

    def resume(self) -> None:
        self._hear("resume")


@pytest.mark.parametrize("drain", [True, False])
def test_a_publisher_that_owes_items_is_suspended_while_the_credit_is_away(*, drain: bool) -> None:
    source = Suspendable()
    played = PlayedSender(publisher=source)
    played.grant(5)
    assert source.told == []
    played.grant(5 if drain else 0, drain=drain)
    assert source.told == ["suspend"]
    played.driver.turn()
    assert source.told == ["suspend"]
    played.grant(2)
    assert source.told == ["suspend", "resume"]
    assert source.requests == [5]
    source.next(1, 2)
    played.driver.turn()
    assert played.transferred == [1, 2]
    assert source.told == ["suspend", "resume", "suspend"], "three are owed, and no credit is left"


def test_a_publisher_that_owes_nothing_is_left_alone() -> None:
    source = Suspendable()
    played = PlayedSender(publisher=source)
    played.grant(2)
    source.next(1, 2)
    played.driver.turn()
    played.grant(0, drain=True)
    played.grant(2)
    assert source.told == []
    assert source.requests == [2, 2]


def test_what_a_publisher_sends_when_it_is_resumed_goes_out() -> None:
    class Eager(Suspendable):
        def resume(self) -> None:
            super().resume()
            self.next(1, 2)

    source = Eager()
    played = PlayedSender(publisher=source)
    played.grant(5)
    played.grant(5, drain=True)
    played.grant(5)
    assert source.told == ["suspend", "resume"]
    assert played.transferred == [1, 2]


@pytest.mark.parametrize("pack", [1, 64])
def test_a_drain_is_answered_behind_what_a_publisher_sends_when_it_is_resumed(pack: int) -> None:
    class Waiting(Suspendable):
        """Has five items by the time that it is resumed."""

        def resume(self) -> None:
            super().resume()
            self.next(*range(5))

    source = Waiting()
    played = PlayedSender(publisher=source, pack_items=pack)
    played.grant(5)
    played.grant(5, drain=True)
    assert played.driver.sent[-1] == Flow(0, drain=True)
    played.grant(5, drain=True)
    assert source.told[:2] == ["suspend", "resume"]
    assert played.transferred == list(range(5))
    assert played.driver.sent[-1] == Flow(0, drain=True)


@pytest.mark.parametrize("fails_at", ["suspend", "resume"])
def test_a_publisher_that_raises_when_it_is_suspended_or_resumed_ends_the_stream(fails_at: str) -> None:
    source = Suspendable()
    source.fails_at = fails_at
    played = PlayedSender(publisher=source, expose_errors=True)
    played.grant(5)
    played.grant(5, drain=True)
    if fails_at == "resume":
        assert not source.cancelled
        played.grant(5)
    assert source.cancelled
    assert played.detach is not None
    assert played.detach.description == "ValueError: by the publisher"
