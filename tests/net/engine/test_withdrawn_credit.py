"""Credit is withdrawn while a message is coming: what is left of it is never more than there was."""

from __future__ import annotations

import math

from cproton_ffi import lib

from rstreams.net._proton import LinkDriver
from rstreams.net.transport.pump import RUN
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Engines


def test_a_cancel_in_the_middle_of_a_message_leaves_no_credit() -> None:
    engines = Engines(max_frame_bytes=512)
    probe = ProbeSubscriber[bytes](5)
    receiver = LinkSubscription(probe, ReceivingOptions(decode=bytes, window=8), lambda _: None)
    sender = LinkSubscriber(from_iterable([bytes(5000)] * 3), SendingOptions(encode=bytes), lambda _: None)

    def answer(driver: LinkDriver, frame: Attach) -> None:
        link = sender.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, frame.source, frame.target, frame.settlement))
        sender.start()

    engines.other.answer = answer
    driver = engines.one.attach(receiver, Attach("link", Role.RECEIVER, "a", "", Settlement.AT_LEAST_ONCE))
    one, other = engines.one.engine, engines.other.engine
    while not lib.pn_link_queued(driver.pointer):
        one.dispatch(RUN, math.inf)
        other.feed(engines.said_by(engines.one))
        other.dispatch(RUN, math.inf)
        data = engines.said_by(engines.other)
        rest = data[1500:]
        one.feed(data[:1500])
    one.dispatch(RUN, math.inf)
    assert lib.pn_delivery_partial(lib.pn_link_current(driver.pointer))
    probe.cancel()
    one.dispatch(RUN, math.inf)
    assert lib.pn_link_credit(driver.pointer) == lib.pn_link_queued(driver.pointer) == 1, "none, and not one less"
    other.feed(engines.said_by(engines.one))
    one.feed(rest)
    engines.run()
    engines.free()
