"""Clients that a node does not let in learn why, whatever they have sent ahead."""

import logging

import pytest
import trio

import rstreams
from rstreams.errors import AuthenticationFailed

pytestmark = pytest.mark.usefixtures("_quiet")


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "rstreams.net")


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("alice:wrong@", "refused the credentials"),
        ("eve:sesame@", "refused the credentials"),
        ("alice:@", "refused the credentials"),
        ("", "it asks for credentials: give user:password"),
    ],
)
async def test_wrong_credentials_are_always_told_as_such(who: str, told: str) -> None:
    async with rstreams.Node(users={"alice": "sesame"}) as node:
        listener = await node.listen("127.0.0.1:0")
        for _ in range(20):
            with pytest.raises(AuthenticationFailed, match=told):
                async with rstreams.connect(f"amqp://{who}127.0.0.1:{listener.port}", connect_timeout_s=5):
                    pass


async def test_a_stranger_that_never_stops_talking_is_cut_off(autojump_clock: trio.testing.MockClock) -> None:
    async with rstreams.Node() as node:
        listener = await node.listen("127.0.0.1:0")
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        started = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"GET / HTTP/1.1\r\n")
                await trio.sleep(0.1)
        assert trio.current_time() - started < 5
        await stream.aclose()
    assert autojump_clock.rate == 0
