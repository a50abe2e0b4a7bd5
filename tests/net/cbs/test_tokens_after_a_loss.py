"""Tokens on a connection that is lost: put again before its links come back, and what waits for one meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rstreams import Reconnect, Stream
from rstreams.errors import AuthenticationFailed, ConnectFailed, ConnectionLost
from rstreams.testing import ProbeSubscriber
from tests.net.token_node import Source, authorized, autojump_clock, cut, until  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("autojump_clock")

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0)


async def test_after_a_loss_tokens_are_put_again_before_links_are_attached() -> None:
    source = Source()
    async with authorized(source, reconnect=AT_ONCE) as (node, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await connection.publish("work", Stream.of(1))
        await until(lambda: probe.items == [1])
        await cut(connection)
        await connection.publish("work", Stream.of(2))
        await until(lambda: probe.items == [1, 2])
        assert node.refused == []
        assert list(node.audiences) == ["work", "work"]
        first, second = node.tokens.puts
        assert first.connection != second.connection


async def test_after_a_loss_a_source_that_fails_for_a_while_is_asked_again() -> None:
    source = Source()
    policy = Reconnect(first_delay_s=1.0, max_delay_s=8.0, jitter=0.0)
    async with authorized(source, reconnect=policy) as (_, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await connection.publish("work", Stream.of(1))
        source.error = OSError("the service of tokens is down")
        await cut(connection)
        await trio.sleep(60)
        assert probe.error is None
        assert 4 < len(source.asked) < 14
        source.error = None
        await connection.publish("work", Stream.of(2))
        await until(lambda: probe.items == [1, 2])


async def test_after_a_loss_a_source_that_goes_on_failing_is_given_up_as_the_policy_says() -> None:
    source = Source()
    policy = Reconnect(first_delay_s=1.0, max_delay_s=8.0, jitter=0.0, max_attempts=3)
    async with authorized(source, reconnect=policy) as (_, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await until(lambda: source.asked)
        source.error = OSError("the service of tokens is down")
        await cut(connection)
        await until(lambda: probe.error)
        assert isinstance(probe.error, ConnectFailed)
        assert len(source.asked) == 4, "the first one, and three attempts"
        assert connection.status.state == "connected"


async def test_after_a_loss_a_refused_token_ends_its_links_alone() -> None:
    source = Source()
    async with authorized(source, reconnect=AT_ONCE) as (node, connection):
        work, other = ProbeSubscriber[Any](10), ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(work)
        connection.stream("other").subscribe(other)
        await until(lambda: len(node.tokens.puts) == 2)
        node.tokens.answer = lambda put: (401, "revoked") if put.audience == "work" else (202, "")
        await cut(connection)
        await until(lambda: work.error)
        assert isinstance(work.error, AuthenticationFailed)
        await connection.publish("other", Stream.of(1))
        await until(lambda: other.items == [1])
        assert other.error is None


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_connection_lost_while_a_link_waits_for_its_token(hangs: bool) -> None:  # noqa: FBT001 - two cases
    source = Source()
    source.hangs = hangs
    async with authorized(source, reconnect=AT_ONCE) as (node, connection):
        node.tokens.answer = lambda _: None
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await until(lambda: source.asked if hangs else node.tokens.puts)
        node.tokens.answer = lambda _: (202, "")
        source.hangs = False
        await cut(connection)
        await connection.publish("work", Stream.of(1))
        await until(lambda: probe.items == [1])
        assert node.refused == []


async def test_without_a_policy_the_loss_is_the_error_of_who_waits_for_a_token() -> None:
    source = Source()
    source.hangs = True
    async with authorized(source) as (_, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await until(lambda: source.asked)
        await cut(connection)
        await until(lambda: probe.error)
        assert isinstance(probe.error, ConnectionLost)
        with pytest.raises(ConnectionLost):
            await connection.publish("work", Stream.of(1))
