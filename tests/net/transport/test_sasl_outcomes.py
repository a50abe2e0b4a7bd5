"""What a client makes of each outcome of SASL (5.3.3.6): only "auth" is about the credentials, "sys-temp" passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams._codec.encode import encode_symbol_array
from rstreams.errors import AuthenticationFailed, ConnectFailed, RStreamsError
from rstreams.net.transport import passwords
from rstreams.net.transport.password_line import MOST_OF_USER
from rstreams.net.transport.passwords import Passwords
from tests.net.over_tcp import until
from tests.net.transport.test_passwords import Counted
from tests.net.wire import SASL_HEADER, described, frame

TRIED_AGAIN = Reconnect(first_delay_s=0.0, max_delay_s=0.0, at_start=True, max_attempts=3)


def outcome(code: int) -> bytes:
    return frame(described(0x44, b"\x50" + bytes([code])), kind=1)


@asynccontextmanager
async def peer(codes: Sequence[int]) -> AsyncIterator[tuple[str, list[int]]]:
    """Run a server that answers its clients with these outcomes, then with the last one; yield url and answers."""
    answered: list[int] = []

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(SASL_HEADER + frame(described(0x40, encode_symbol_array(["PLAIN"])), kind=1))
            heard = b""
            while heard.count(b"PLAIN") < 1:
                heard += await stream.receive_some()
            code = codes[min(len(answered), len(codes) - 1)]
            answered.append(code)
            await stream.send_all(outcome(code))

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        yield f"amqp://alice:hush@127.0.0.1:{listener.socket.getsockname()[1]}", answered
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("code", "kind", "told", "tries"),
    [
        (1, AuthenticationFailed, "refused the credentials: it knows no such user with this password", 1),
        (2, AuthenticationFailed, r"cannot check the credentials: it has an error of its own \(SASL outcome sys, 2", 1),
        (3, AuthenticationFailed, r"cannot check .* which somebody must mend there \(SASL outcome sys-perm, 3", 1),
        (4, ConnectFailed, r"cannot check .* try again later \(SASL outcome sys-temp, 4", 3),
        (9, AuthenticationFailed, "refused the credentials", 1),
    ],
)
async def test_each_outcome_has_its_words_and_only_sys_temp_is_tried_again(
    code: int, kind: type[RStreamsError], told: str, tries: int
) -> None:
    async with peer([code]) as (url, answered):
        for policy, expected in ((None, 1), (TRIED_AGAIN, tries)):
            answered.clear()
            with pytest.raises(kind, match=told) as caught:
                async with rstreams.connect(url, reconnect=policy):
                    pass
            assert type(caught.value) is kind
            assert answered == [code] * expected
            assert "hush" not in str(caught.value)
            assert ("password" in str(caught.value)) is (code in {1, 9})


async def test_passing_trouble_ends_with_the_real_answer() -> None:
    async with peer([4, 4, 1]) as (url, answered):
        with pytest.raises(AuthenticationFailed, match="no such user with this password"):
            async with rstreams.connect(url, reconnect=TRIED_AGAIN):
                pass
        assert answered == [4, 4, 1]


async def test_a_client_that_a_node_could_not_check_yet_comes_in_when_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "AT_ONCE", 1)
    hashed, told = Counted(), list[str]()
    policy = Reconnect(first_delay_s=0.0, max_delay_s=0.01, at_start=True, on_status=lambda now: told.append(now.state))
    async with Node(users={"alice": hashed.of("sesame")}) as node:
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0")
        users = node._options.admission.users
        assert isinstance(users, Passwords)

        async def come_in() -> None:
            url = f"amqp://alice:sesame@127.0.0.1:{listener.port}"
            async with rstreams.connect(url, reconnect=policy) as connection:
                assert await connection.stream("one").to_list() == [1]

        async with trio.open_nursery() as nursery:
            with hashed.held():
                for number in range(MOST_OF_USER + 1):
                    nursery.start_soon(users.check, "alice", b"%d" % number, "127.0.0.1")
                await hashed.begun()
                nursery.start_soon(come_in)
                await until(lambda: "lost" in told)
        assert told[0] == "lost"
        assert "connected" in told
