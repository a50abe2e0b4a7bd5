"""What an attach carries besides names and addresses, from one engine to the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._codec import Described, Symbol
from rstreams.errors import ConfigError
from rstreams.net._proton import LinkDriver
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.link import Link
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Engines


def arrived(frame: Attach) -> Attach:
    """Return `frame` as the peer reads it."""
    engines = Engines()
    seen: list[Attach] = []

    def answer(driver: LinkDriver, attach: Attach) -> None:
        seen.append(attach)
        driver.bind(refuse(driver, attach, "amqp:not-found", "nothing is here"))

    engines.other.answer = answer
    end = LinkSubscription(ProbeSubscriber[bytes](), ReceivingOptions(decode=bytes, window=1), print)
    driver = engines.one.engine.links.new(frame.name, frame.role)
    link = Link(frame.name, frame.role, driver, end)
    driver.bind(link)
    link.send(frame)
    engines.run()
    engines.free()
    return seen[0]


NAMES = st.text("abc:-", min_size=1, max_size=12)
VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.binary(max_size=5)


@pytest.mark.slow
@given(
    st.builds(
        Attach,
        st.just("link"),
        st.sampled_from(Role),
        st.sampled_from(["source", "a"]),
        st.sampled_from(["target", "b"]),
        st.sampled_from(Settlement),
        durable=st.booleans(),
        expiry=st.sampled_from(["link-detach", "session-end", "connection-close", "never"]),
        expiry_timeout_s=st.sampled_from([0, 1, 2**32 - 1]),
        filters=st.dictionaries(NAMES, st.builds(Described, st.builds(Symbol, NAMES), VALUES), max_size=3),
        capabilities=st.lists(NAMES, max_size=3).map(tuple),
        properties=st.dictionaries(NAMES, VALUES, max_size=3),
        max_message_bytes=st.sampled_from([0, 1, 2**40]),
    )
)
def test_the_peer_reads_what_was_written(frame: Attach) -> None:
    assert arrived(frame) == frame


def test_a_receiver_may_ask_for_an_address() -> None:
    frame = Attach("link", Role.RECEIVER, "", "", dynamic=True)
    assert arrived(frame) == frame


def test_a_capability_that_cannot_be_a_symbol_is_named() -> None:
    frame = Attach("link", Role.RECEIVER, "a", "", capabilities=("queue", "größer"))
    with pytest.raises(ConfigError, match="symbols are ASCII"):
        arrived(frame)
    with pytest.raises(ConfigError, match="at most 255 characters"):
        arrived(replace(frame, capabilities=("queue", "x" * 256)))


def test_a_sender_names_the_address_it_has_made() -> None:
    frame = Attach("link", Role.SENDER, "made", "", dynamic=True)
    assert arrived(frame) == frame
