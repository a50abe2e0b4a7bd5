from __future__ import annotations

from rstreams.errors import DeliveryFailed
from rstreams.message import encode_item
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing.local_driver import LocalDriver
from rstreams.testing.probes import ManualPublisher, ProbeSubscriber


def test_an_item_refused_after_the_publisher_completed_fails_the_stream() -> None:
    finished: list[BaseException | None] = []
    publisher, probe = ManualPublisher[bytes](), ProbeSubscriber[bytes](request=2, hold=True)
    sender = LinkSubscriber(
        publisher, SendingOptions(encode=encode_item, settle_before_detach=True, fail_on_refusal=True), finished.append
    )
    receiver = LinkSubscription(probe, ReceivingOptions(decode=bytes, window=10), finished.append)
    ours, theirs = LocalDriver.pair()
    sending, receiving = sender.bind("link", ours), receiver.bind("link", theirs)
    ours.bind(sending)
    theirs.bind(receiving)
    receiving.send(Attach("link", Role.RECEIVER, "a", ""))
    sending.send(Attach("link", Role.SENDER, "a", ""))
    sender.start()

    publisher.next(b"1", b"2")
    publisher.complete()
    probe.holds[1].fail(DeliveryFailed("rejected", "x:bad", "no such thing"))
    assert publisher.outcomes == [None, "failed"]
    probe.holds[0].done()
    ours.wake()
    theirs.wake()

    (error,) = finished
    assert isinstance(error, DeliveryFailed)
    assert (error.outcome, error.condition, error.outcome_unknown) == ("rejected", "x:bad", 0)
    assert publisher.outcomes == ["done", "failed"]
