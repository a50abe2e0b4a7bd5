"""Bodies that are sent and received in parts, with the network or the publisher played by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from rstreams.abc import Subscriber
from rstreams.errors import LinkDetached, RemoteProtocolError, RStreamsError, SpecViolation
from rstreams.message import ByteStream, Message, encode_item
from rstreams.protocol.delivery import ACCEPTED, FAILED, RELEASED, Outcome
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Role, Settlement, Transfer
from rstreams.protocol.incoming_body import MAX_HEAD_BYTES, MAX_WHOLE_BYTES, IncomingBody, Splitter
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.outgoing_body import OutgoingBody
from rstreams.protocol.streamed_receiver import StreamedSubscription
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.protocol.played import LOST, PlayedDriver, PlayedSender

BEGIN = b"\x00\x53\x70\x45\x00\x53\x75\xa0\x06"  # a header, and a data section of six bytes
WHOLE = BEGIN + b"abcdef"


class Played:
    """A `StreamedSubscription` whose peer is the test; its items are the bodies, or the message if it has none."""

    def __init__(self, *, hold: bool = False, on_item: Callable[[Any], object] | None = None) -> None:
        self.raised: list[BaseException] = []
        self.probe = ProbeSubscriber[Any](10, hold=hold, on_item=on_item)

        def decode(head: bytes) -> IncomingBody | bytes:
            return self.end.body or head

        self.end: StreamedSubscription[Any] = StreamedSubscription(
            self.probe, ReceivingOptions(decode=decode, window=1), self.raised.append
        )
        self.driver = PlayedDriver()
        self.link = self.end.bind("test", self.driver)
        self.driver.link = self.link
        self.link.send(Attach("test", Role.RECEIVER, "a", ""))
        self.driver.receive(Attach("test", Role.SENDER, "a", ""))

    def part(self, payload: bytes, *, more: bool = True, settled: bool = False, aborted: bool = False) -> None:
        self.driver.receive(Transfer(["d"], [payload], settled, more, aborted))

    @property
    def outcomes(self) -> list[Outcome]:
        return [frame.outcome for frame in self.driver.sent if isinstance(frame, Disposition)]

    @property
    def credits(self) -> list[int]:
        return [frame.credit for frame in self.driver.sent if isinstance(frame, Flow)]


def test_one_message_at_a_time_is_granted_and_the_next_when_it_is_settled() -> None:
    world = Played(hold=True)
    assert world.credits == [1]
    world.part(WHOLE, more=False)
    assert world.credits == [1]
    world.probe.holds.pop().done()
    world.driver.turn()
    assert world.outcomes == [ACCEPTED]
    assert world.credits == [1, 1]


def test_what_is_let_go_of_early_is_settled_with_its_last_part() -> None:
    world = Played()
    world.part(BEGIN)
    (body,) = world.probe.items
    assert world.outcomes == []
    world.part(b"abc")
    with pytest.raises(RStreamsError, match="current one"):
        body.take()
    assert body.room() > 0, "what nobody reads is thrown away as it comes"
    world.part(b"def", more=False)
    assert world.outcomes == [ACCEPTED]


def test_a_cancel_waits_for_no_rest() -> None:
    world = Played()
    world.part(BEGIN)
    world.probe.cancel()
    world.driver.turn()
    assert world.outcomes == [RELEASED]
    assert isinstance(world.driver.sent[-1], Detach)


def test_a_failure_is_told_as_such_after_a_cancel() -> None:
    world = Played(hold=True)
    world.part(BEGIN)
    world.probe.cancel()
    world.probe.holds.pop().fail(ValueError("no"))
    world.driver.turn()
    assert world.outcomes == [FAILED]


def test_an_aborted_message_has_no_outcome() -> None:
    world = Played(hold=True)
    world.part(BEGIN + b"ab")
    (body,) = world.probe.items
    world.part(b"", more=False, aborted=True)
    assert body.take() == b"ab"
    with pytest.raises(RStreamsError, match="aborted"):
        body.take()
    world.probe.holds.pop().done()
    world.driver.turn()
    assert world.outcomes == []
    assert world.end.ledger.unsettled == 0
    assert world.credits[-1] == 1


def test_a_message_that_is_aborted_before_its_body_is_never_seen() -> None:
    world = Played()
    world.part(BEGIN[:3])
    world.part(b"", more=False, aborted=True)
    assert world.probe.items == []
    world.part(WHOLE, more=False)
    assert len(world.probe.items) == 1


def test_what_came_settled_has_no_outcome() -> None:
    world = Played()
    world.part(WHOLE, more=False, settled=True)
    assert len(world.probe.items) == 1
    assert world.outcomes == []
    assert world.end.ledger.unsettled == 0


def test_a_body_that_is_no_binary_data_comes_with_its_message() -> None:
    world = Played()
    world.part(b"\x00\x53\x77")
    world.part(b"\xa1\x01x", more=False)
    assert world.probe.items == [b"\x00\x53\x77\xa1\x01x"]
    assert world.outcomes == [ACCEPTED]


@pytest.mark.parametrize("handed", [True, False])
def test_what_is_no_message_ends_the_link(handed: bool) -> None:  # noqa: FBT001
    world = Played(hold=handed)
    world.part(WHOLE if handed else b"\x00")
    world.part(b"\x00\x53\x70\x45" if handed else b"\x01\x01\x01", more=True)
    world.part(b"whatever")
    assert isinstance(world.probe.error, RemoteProtocolError)
    if handed:
        world.probe.items[0].take()
        with pytest.raises(RemoteProtocolError):
            world.probe.items[0].take()
        world.probe.holds.pop().done()
        world.driver.turn()
    (detach,) = [frame for frame in world.driver.sent if isinstance(frame, Detach)]
    assert detach.condition == "amqp:decode-error"


def test_the_end_of_the_link_is_the_end_of_the_body() -> None:
    world = Played(hold=True)
    world.part(BEGIN + b"ab")
    world.driver.receive(Detach(condition="x:gone"))
    (body,) = world.probe.items
    body.take()
    with pytest.raises(LinkDetached, match="x:gone"):
        body.take()


@pytest.mark.parametrize("skipped", [True, False])
def test_a_loss_is_the_end_of_the_body_and_its_outcome_comes_too_late(skipped: bool) -> None:  # noqa: FBT001
    world = Played(hold=not skipped)
    world.part(BEGIN + b"ab")
    (body,) = world.probe.items
    world.driver.lose(LOST)
    if not skipped:
        body.take()
        with pytest.raises(type(LOST)):
            body.take()
        world.probe.holds.pop().done()
    assert world.end.ledger.unsettled == 0
    assert world.end.late == 1


def test_a_second_delivery_behind_the_end_is_not_looked_at() -> None:
    world = Played(on_item=lambda _: world.probe.cancel())
    world.driver.wire = 2
    world.driver.receive(Transfer(["d", "e"], [WHOLE, WHOLE]))
    assert len(world.probe.items) == 1


def test_a_head_or_a_value_has_a_limit() -> None:
    with pytest.raises(ValueError, match="too large"):
        Splitter().feed(b"\x00\x53\x72\xd1\xff\xff\xff\xff" + bytes(MAX_HEAD_BYTES))
    splitter = Splitter()
    splitter.feed(b"\x00\x53\x77\xb0" + bytes(MAX_HEAD_BYTES))
    with pytest.raises(ValueError, match="too large"):
        splitter.feed(bytes(MAX_WHOLE_BYTES))


def test_nothing_but_data_follows_data() -> None:
    with pytest.raises(ValueError, match="between the data sections"):
        Splitter().feed(WHOLE + b"\x00\x53\x70\x45")


# sending


class Refuses:
    def subscribe(self, _subscriber: Subscriber[Any]) -> None:
        raise KeyError("none")  # noqa: EM101


class RefusesRequests:
    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        subscriber.on_subscribe(self)

    def request(self, _n: int) -> None:
        raise KeyError("none")  # noqa: EM101

    def cancel(self) -> None: ...
    def hold(self) -> Any: ...  # noqa: ANN401


@pytest.mark.parametrize("settlement", [Settlement.AT_MOST_ONCE, Settlement.AT_LEAST_ONCE])
def test_a_body_that_fails_is_aborted_and_ends_the_stream_with_its_error(settlement: Settlement) -> None:
    chunks, settled = ManualPublisher[Any](), settlement is Settlement.AT_MOST_ONCE
    played = PlayedSender(
        settlement=settlement, encode=encode_item, expose_errors=True, open_body=lambda _: chunks, publish=False
    )
    played.grant(2)
    played.source.next(cast("Any", Message(ByteStream([]))))
    played.driver.turn()
    chunks.next(b"one")
    played.driver.turn()
    assert played.end.unsettled == (0 if settled else 1)
    played.driver.take_sent()
    chunks.error(KeyError("broken"))
    played.driver.turn()
    aborted, detach = played.driver.sent
    assert aborted == Transfer([0], [b""], settled, aborted=True)
    assert isinstance(detach, Detach)
    assert detach.description == "KeyError: 'broken'"
    assert (played.source.cancelled, played.end.unsettled, played.end.accepted) == (True, 0, 0)
    assert played.source.outcomes == (["done"] if settled else ["failed"]), "what is sent settled is done at once"


@pytest.mark.parametrize("publisher", [Refuses(), RefusesRequests()])
def test_a_broken_publisher_is_a_body_that_failed(publisher: Any) -> None:  # noqa: ANN401
    body = OutgoingBody(1, publisher, lambda: None)
    assert body.take() is None
    assert isinstance(body.error, KeyError)


def test_one_chunk_is_asked_for_at_a_time_and_the_end_is_heard_once() -> None:
    woken: list[int] = []
    source = ManualPublisher[Any]()
    body = OutgoingBody(1, source, lambda: woken.append(1))
    assert body.take() is None
    assert body.take() is None
    assert source.outstanding == 1
    source.next(b"a")
    assert woken == [1]
    body.on_complete()
    body.on_complete()
    body.on_error(KeyError())
    body.on_next(b"late")
    assert not body.through
    assert body.take() == b"\x00\x53\x75\xa0\x01a"
    assert body.through
    assert body.error is None


def test_a_second_subscription_is_cancelled() -> None:
    body = OutgoingBody(1, ManualPublisher[Any](), lambda: None)
    other = ManualPublisher[Any]()
    other.subscribe(body)
    assert other.cancelled


def test_more_than_was_asked_for_is_a_failure() -> None:
    body = OutgoingBody(1, ManualPublisher[Any](), lambda: None)
    body.on_next(b"a")
    assert isinstance(body.error, SpecViolation)


def test_a_body_that_is_cancelled_is_cancelled_once() -> None:
    source = ManualPublisher[Any]()
    body = OutgoingBody(1, source, lambda: None)
    body.cancel()
    body.cancel()
    assert source.cancelled
    assert body.through
