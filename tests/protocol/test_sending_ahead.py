"""An item that its publisher sends while its link is idle leaves inside of that signal, and counts as any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams._core.claims import Claims, claims_on
from rstreams.abc import Hold
from rstreams.message import ByteStream, Message, encode_item
from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Attach, Disposition, Lost, Role, Settlement, Transfer
from rstreams.protocol.unsettled import OVERHEAD_BYTES, Budget, Share, UnsettledLimits
from rstreams.testing import ManualPublisher
from tests.protocol.played import LOST, PlayedSender


def idle(credit: int = 5, **options: Any) -> PlayedSender:  # noqa: ANN401 - those of `PlayedSender`
    """Return a sender that has credit, and whose driver sends ahead."""
    played = PlayedSender(**options)
    played.grant(credit)
    played.driver.idle = True
    played.driver.awake = False
    return played


def test_it_is_sent_without_a_turn_and_settled_as_any_other() -> None:
    played = idle()
    played.source.next(1)
    played.source.next(2)
    assert played.driver.sent == [Transfer([0], [b"1"]), Transfer([1], [b"2"])]
    assert not played.driver.awake
    assert (played.end.ledger.owed, played.end.ledger.held, played.end.unsettled) == (3, 0, 2)
    played.settle(ACCEPTED, 0, 1)
    assert played.source.outcomes == ["done", "done"]
    assert (played.end.accepted, played.end.unsettled) == (2, 0)


def test_a_publisher_that_ends_the_claim_itself_does_not_stop_its_connection() -> None:
    given: list[Claims] = []

    class Own(ManualPublisher[int]):
        def hold(self) -> Hold:
            given.append(claims_on(super().hold(), super().hold()).cut(1))
            return given[-1]

    source = Own()
    played = PlayedSender(publisher=source, publish=False)
    played.grant(5)
    played.driver.idle = True
    source.next(1)
    assert len(played.driver.sent) == len(given) == 1
    given[0].done()
    played.driver.receive(Disposition(range(1), ACCEPTED))
    assert (played.end.accepted, played.end.unsettled) == (1, 0)


def test_sent_settled_it_counts_as_accepted() -> None:
    played = idle(settlement=Settlement.AT_MOST_ONCE)
    played.source.next(1)
    assert played.driver.sent == [Transfer([0], [b"1"], settled=True)]
    assert (played.end.accepted, played.end.unsettled) == (1, 0)


def test_it_does_not_overtake_an_item_that_waits() -> None:
    played = idle()
    played.driver.idle = False
    played.source.next(1)
    played.driver.idle = True
    played.source.next(2)
    assert played.driver.sent == []
    played.driver.turn()
    played.source.next(3)
    assert played.transferred == [1, 2, 3]
    assert [frame.deliveries for frame in played.driver.sent if isinstance(frame, Transfer)] == [range(2), [2]]


def test_an_item_that_the_publisher_sends_inside_of_a_request_waits_for_the_rest_of_the_run() -> None:
    class AtOnce:
        def subscribe(self, subscriber: Any) -> None:  # noqa: ANN401 - the sender's
            played_by.append(subscriber)
            subscriber.on_subscribe(self)

        def request(self, n: int) -> None:
            for item in range(n):
                played_by[0].on_next(item)

        def cancel(self) -> None: ...

        def hold(self) -> Any:  # noqa: ANN401
            raise AssertionError

    played_by: list[Any] = []
    played = PlayedSender(publisher=AtOnce(), settlement=Settlement.AT_MOST_ONCE)
    played.driver.idle = True
    played.grant(4)
    assert [frame.deliveries for frame in played.driver.sent if isinstance(frame, Transfer)] == [range(4)]


@pytest.mark.parametrize(
    "options",
    [
        {"unsettled": UnsettledLimits(1)},
        {"unsettled": UnsettledLimits(size=1)},
        {"share": Share(Budget(OVERHEAD_BYTES))},
    ],
    ids=["items", "bytes", "the node's memory"],
)
def test_the_limits_of_unsettled_items_hold(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rstreams.protocol.unsettled.GUARANTEED_BYTES", OVERHEAD_BYTES + 1)
    played = PlayedSender(**options)
    played.grant(5)
    played.driver.idle = True
    played.source.next(1)
    assert played.transferred == [], "a turn asks the publisher for more"
    played.driver.turn()
    assert played.transferred == [1]
    more = 2 - played.source.outstanding
    played.source.requested += more  # as if they had been asked for before the first one was unsettled
    played.end.ledger.owed += more
    played.source.next(2)
    played.driver.turn()
    assert played.transferred == [1]
    assert played.end.waits_for == "waits for settlement: 1 unsettled"
    played.settle(ACCEPTED, 0)
    assert played.transferred == [1, 2]


def test_a_message_without_bytes_leaves_a_size_that_requests_can_be_made_of() -> None:
    played = idle(credit=2, encode=lambda _item: b"")
    played.source.next(1)
    assert played.driver.sent == [Transfer([0], [b""])]
    played.grant(5)
    assert (played.source.requested, played.finished) == (6, [])


def too_large(played: PlayedSender) -> None:
    played.end._deliveries.most_bytes = 1
    played.source.next(12)


def drained(played: PlayedSender) -> None:
    played.end._drain = True
    played.source.next(1)


def packed(played: PlayedSender) -> None:
    played.end.ledger.pack = 2
    played.source.next(1)


def lost(played: PlayedSender) -> None:
    assert played.driver.link is not None
    played.end.attach_later = lambda _error: None
    played.driver.lose(LOST)
    played.source.next(1)


def without_request(played: PlayedSender) -> None:
    played.end.ledger.owed = 0
    played.source.next(1)


@pytest.mark.parametrize("act", [too_large, drained, packed, lost, without_request])
def test_nothing_is_sent_ahead(act: Callable[[PlayedSender], None]) -> None:
    played = idle(resends=act is lost)
    act(played)
    assert played.driver.sent == []


def test_the_last_credit_is_used_in_a_turn() -> None:
    """There, a publisher that still owes items is suspended."""
    played = idle(credit=1)
    played.source.next(1)
    assert played.driver.sent == []
    played.driver.turn()
    assert played.transferred == [1]


def test_after_a_loss_it_is_sent_again() -> None:
    played = idle(resends=True)
    played.source.next(1)
    assert played.driver.link is not None
    played.driver.link.lose(Lost(LOST, returns=True))
    played.driver.take_sent()
    played.driver.link = played.end.bind("test", played.driver)
    played.driver.link.send(Attach("test", Role.SENDER, "", "a"))
    played.attach()
    played.grant(3)
    assert played.transferred == [1]
    assert played.source.outcomes == [None], "not settled"


def test_a_streamed_message_is_not() -> None:
    source = ManualPublisher[Any]()
    played = PlayedSender(publisher=source, encode=encode_item, open_body=lambda _body: ManualPublisher[bytes]())
    played.grant(3)
    played.driver.idle = True
    source.next(Message(ByteStream(ManualPublisher[bytes]())))
    assert played.driver.sent == []
    played.driver.turn()
    assert [type(frame) for frame in played.driver.sent] == [Transfer]
