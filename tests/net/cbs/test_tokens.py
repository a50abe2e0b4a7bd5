"""Tokens (`connect(cbs=...)`): put before a link to an address is attached, renewed, and never shown."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Message, Stream
from rstreams.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    LinkDetached,
    RStreamsError,
)
from rstreams.message import decode_message, encode_item
from rstreams.net.cbs import SharedAccessKey, Token
from rstreams.net.cbs.gate import TokenGate
from rstreams.net.transport.opening import OpeningOptions
from rstreams.net.transport.pump import Pump
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.net.token_node import Source, TokenNode, authorized, autojump_clock, until  # noqa: F401 - a fixture
from tests.net.wire import (
    ACCEPT,
    Frame,
    Peer,
    attach_frame,
    disposition_frame,
    flow_frame,
    scripted,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_token_is_put_before_the_link_is_attached() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        assert source.asked == [], "nothing is put that nobody needs"
        await connection.publish("work", Stream.range(3))
        assert await connection.stream("work").take(3).to_list() == [0, 1, 2]
        (put,) = node.tokens.puts
    assert node.refused == []
    assert source.asked == ["work"], "one token for two links"
    assert (put.audience, put.value, put.type) == ("work", "sesame/work/1", "jwt")
    assert put.request.properties["operation"] == "put-token"


async def test_the_dialect_says_what_a_token_is_for() -> None:
    source = Source()
    async with authorized(source, dialect="servicebus") as (_, connection):
        await connection.publish("queue://work", Stream.of(1))
    assert source.asked == ["sb://127.0.0.1/work"]


async def test_links_to_the_same_address_at_once_share_one_put_and_others_have_their_own() -> None:
    source = Source()
    async with authorized(source) as (node, connection), trio.open_nursery() as nursery:
        for address in ["work", "other"] * 10:
            nursery.start_soon(connection.publish, address, Stream.range(2))
    assert sorted(source.asked) == ["other", "work"]
    assert sorted(node.audiences) == ["other", "work"]


async def test_many_addresses_at_once() -> None:
    source = Source()
    names = [f"queue {number}" for number in range(50)]
    async with authorized(source) as (node, connection):
        for name in names:
            node.queue(name, capacity=10)
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(connection.publish, name, Stream.of(name))
        assert sorted(node.audiences) == sorted(names)


async def test_a_function_that_is_not_async_will_do() -> None:
    key = SharedAccessKey("amqp://localhost", "policy", "secret")
    async with authorized(key) as (node, connection):
        await connection.publish("work", Stream.of(1))
        assert [put.type for put in node.tokens.puts] == ["servicebus.windows.net:sastoken"]


async def test_a_token_is_renewed_as_long_as_there_is_a_link() -> None:
    source = Source(lifetime_s=600.0)
    async with authorized(source) as (node, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        for _ in range(12):
            await trio.sleep(300)
            node.end_expired()
        assert node.ended == []
        assert probe.error is None
        assert len(source.asked) == 8, "one each 480 s of the hour, and the first"
        assert probe.subscription is not None
        probe.subscription.cancel()
        await trio.sleep(3600)
        assert len(source.asked) == 8, "nobody needs it any more"
        await connection.publish("work", Stream.of(1))
        assert len(source.asked) == 9


async def test_a_renewal_that_fails_is_tried_again_until_the_token_expires() -> None:
    source = Source(lifetime_s=1000.0)
    async with authorized(source) as (node, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await trio.sleep(700)
        source.error = OSError("the service of tokens is down")
        await trio.sleep(250)
        assert len(source.asked) > 2
        source.error = None
        await trio.sleep(2000)
        node.end_expired()
        assert probe.error is None


async def test_a_token_that_runs_out_ends_its_links_by_the_peer_and_the_next_one_asks_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source(lifetime_s=100.0)
    async with authorized(source) as (node, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await until(lambda: source.asked)
        source.error = OSError("the service of tokens is down")
        await trio.sleep(150)
        assert 3 <= len(source.asked) <= 10, "not in a tight loop"
        node.end_expired()
        await until(lambda: probe.error)
        assert isinstance(probe.error, LinkDetached)
        assert probe.error.condition == "amqp:unauthorized-access"
        source.error = None
        await connection.publish("work", Stream.of(1))
    assert "a token has expired and could not be renewed: there is no token for 'work': " in caplog.text


@pytest.mark.slow
async def test_a_refused_token_is_the_links_error_and_names_address_and_reason_and_never_the_token() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        node.tokens.answer = lambda put: (401, f"InvalidSignature of {put.value}")
        with pytest.raises(AuthenticationFailed) as caught:
            await connection.publish("work", Stream.of(1))
        text = str(caught.value)
        assert "refused the token for 'work' (401, InvalidSignature of ***)" in text
        assert "sesame" not in repr(caught.value)
        with pytest.raises(AuthenticationFailed):
            await connection.stream("work").first_or_none()
        assert len(source.asked) == 2, "a new link, a new token"
        node.tokens.answer = lambda _: (200, "OK")
        await connection.publish("work", Stream.of(1))


async def test_a_peer_that_is_busy_is_no_refusal() -> None:
    async with authorized(Source()) as (node, connection):
        node.tokens.answer = lambda _: (503, "ServerBusy")
        with pytest.raises(ConnectFailed, match=r"could not take the token for 'work' \(503, ServerBusy\)"):
            await connection.publish("work", Stream.of(1))


async def test_a_peer_that_rejects_the_request_as_a_message() -> None:
    async with authorized(Source()) as (node, connection):
        node.tokens.rejects = True
        text = r"refused the token for 'work' \(the receiver rejected an item \(amqp:not-allowed: no such command\)\)"
        with pytest.raises(AuthenticationFailed, match=text) as caught:
            await connection.publish("work", Stream.of(1))
        assert caught.value.__context__ is None, "it has the peer's text, which may repeat the token"


async def test_a_link_that_has_no_address_yet_needs_no_token() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        node.respond("square", lambda number: number * number)
        async with connection.requester("square") as requester:
            assert await requester.request(3) == 9
    assert source.asked == ["square"], "none for the address that the peer makes"


async def test_a_peer_without_cbs() -> None:
    async with authorized(Source(), TokenNode(cbs=False)) as (_, connection):
        with pytest.raises(
            AuthenticationFailed, match=r"takes no token for 'work': .*'\$cbs'.*amqp:not-found"
        ) as caught:
            await connection.publish("work", Stream.of(1))
        assert caught.value.__context__ is None


async def test_links_of_cbs_that_the_peer_ends_are_attached_again_for_the_next_token() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        await connection.publish("work", Stream.of(1))
        for replies in node.tokens._replies.values():
            replies.end()
        await trio.sleep(1)
        await connection.publish("other", Stream.of(1))
        assert list(node.audiences) == ["work", "other"]


async def test_links_of_cbs_that_end_before_the_answer() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        node.tokens.answer = lambda put: node.tokens._replies[put.connection].end()
        with pytest.raises(ConnectFailed, match="the token for 'work' has no answer"):
            await connection.publish("work", Stream.of(1))


async def raising(audience: str) -> Token:
    msg = f"sesame {audience}"
    raise ValueError(msg)


async def refusing(audience: str) -> Token:
    msg = f"nobody may have {audience}"
    raise AuthenticationFailed(msg)


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        (raising, ConnectFailed, "there is no token for 'work': the function that makes tokens raised ValueError"),
        (refusing, AuthenticationFailed, "nobody may have work"),
        (lambda _: "sesame", ConfigError, "there is no token for 'work': cbs must return a Token, not str"),
        (Source(lifetime_s=0.0), AuthenticationFailed, "there is no token for 'work': the token from cbs expired at"),
    ],
)
async def test_a_source_that_makes_none(source: Any, kind: type[RStreamsError], text: str) -> None:  # noqa: ANN401
    async with authorized(source) as (node, connection):
        with pytest.raises(kind) as caught:
            await connection.publish("work", Stream.of(1))
        assert str(caught.value).startswith(text)
        assert "sesame" not in str(caught.value)
        assert node.tokens.puts == []


async def test_a_source_that_hangs_has_a_deadline() -> None:
    source = Source()
    source.hangs = True
    async with authorized(source, connect_timeout_s=5.0) as (_, connection):
        began = trio.current_time()
        with pytest.raises(
            ConnectFailed, match=r"no token for 'work' within 5 s, waiting for the function that makes it"
        ):
            await connection.publish("work", Stream.of(1))
        assert 5.0 <= trio.current_time() - began < 6.0


async def test_a_peer_that_does_not_answer_has_a_deadline_and_its_late_answer_is_nobodys() -> None:
    async with authorized(Source()) as (node, connection):
        node.tokens.answer = lambda _: None
        with pytest.raises(ConnectFailed, match=r"within 10 s, waiting for 127.0.0.1"):
            await connection.publish("work", Stream.of(1))
        node.tokens.answer = lambda _: (202, "")
        late = node.tokens.puts[0]
        node.tokens.take(late.connection, late.request)
        await connection.publish("work", Stream.of(1))


async def test_a_publish_cancelled_while_it_waits_for_a_token_sends_nothing() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        node.tokens.answer = lambda _: None
        with trio.move_on_after(1.0) as patience:
            await connection.publish("work", Stream.of(1))
        assert patience.cancelled_caught
        put = node.tokens.puts[0]
        node.tokens.answer = lambda _: (202, "")
        node.tokens.take(put.connection, put.request)
        await connection.publish("work", Stream.of(2))
        assert await connection.stream("work").take(1).to_list() == [2], "nothing of the first one was sent"


async def test_a_subscription_cancelled_while_it_waits_for_a_token_takes_nothing() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        node.tokens.answer = lambda _: None
        with trio.move_on_after(1.0):
            await connection.stream("work").first_or_none()
        node.tokens.answer = lambda _: (202, "")
        node.tokens.take(node.tokens.puts[0].connection, node.tokens.puts[0].request)
        await connection.publish("work", Stream.of(1))
        assert await connection.stream("work").first_or_none() == 1, "nobody else has taken it"


async def test_drain_and_close_while_tokens_are_there_and_while_one_is_under_way() -> None:
    source = Source()
    async with authorized(source) as (node, connection):
        probe = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(probe)
        await connection.publish("work", Stream.of(1))
        await until(lambda: probe.items == [1])
        assert (await connection.drain_and_close()).complete
        assert probe.completed
    source.hangs = True
    async with authorized(source) as (node, connection), trio.open_nursery() as nursery:
        waiting = ProbeSubscriber[Any](10)
        connection.stream("work").subscribe(waiting)

        async def publish() -> None:
            result = await connection.publish("other", Stream.of(1))
            assert (result.accepted, result.complete) == (0, False)

        nursery.start_soon(publish)
        await until(lambda: len(source.asked) > 2)
        await connection.drain_and_close(timeout_s=0.1)
        assert waiting.completed
        assert node._ends == []


async def test_the_end_of_the_block_ends_what_keeps_tokens() -> None:
    source = Source()
    async with authorized(source) as (_, connection):
        await connection.publish("work", Stream.of(1))
    asked = len(source.asked)
    await trio.sleep(10_000)
    assert len(source.asked) == asked


async def test_nothing_shows_a_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    source = Source(lifetime_s=100.0)
    async with authorized(source) as (node, connection):
        connection.stream("work").subscribe(ProbeSubscriber[Any](10))
        await trio.sleep(95)
        node.tokens.answer = lambda put: (401, f"no {put.value}")
        await trio.sleep(200)
        assert "sesame" not in repr(connection)
        assert "sesame" not in repr(await source("a"))
    assert "a token could not be renewed" in caplog.text
    assert "sesame" not in caplog.text


@pytest.mark.parametrize("cbs", ["sesame", 3])
async def test_what_makes_no_tokens_is_refused_before_anything_is_opened(cbs: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match=r"^cbs must be None or a function that returns a Token, not ") as caught:
        async with rstreams.connect("amqp://127.0.0.1:1", cbs=cbs):
            pass
    assert "sesame" not in str(caught.value)


async def test_no_token_goes_over_the_network_in_clear_text() -> None:
    with pytest.raises(ConfigError, match=r"the token for amqp://192.0.2.1:5672 would go over the network in clear"):
        async with rstreams.connect("amqp://192.0.2.1", cbs=Source()):
            pass


async def test_a_request_for_a_token_as_it_is_on_the_wire() -> None:
    requests: list[Message] = []
    attached: list[Frame] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        answers, asking = await peer.expect("attach"), await peer.expect("attach")
        assert answers.channel == asking.channel, "one session"
        assert answers["source"].value[0] == asking["target"].value[0] == "$cbs"
        await peer.send(
            attach_frame(answers["name"], "sender", source="$cbs", initial_delivery_count=0, handle=answers["handle"]),
            attach_frame(asking["name"], "receiver", target="$cbs", handle=asking["handle"]),
            flow_frame(handle=asking["handle"], credit=10),
        )
        seen = [await peer.frame(), await peer.frame()]
        (flow,) = (each for each in seen if each.name == "flow")
        assert (flow["handle"], flow["link-credit"]) == (answers["handle"], 1)
        (transfer,) = (each for each in seen if each.name == "transfer")
        request = decode_message(transfer.payload)
        requests.append(request)
        assert request.reply_to == answers["target"].value[0]
        answer = Message(correlation_id=request.id, properties={"status-code": 202})
        payload = encode_item(answer)
        await peer.send(
            disposition_frame(transfer["delivery-id"], transfer["delivery-id"], ACCEPT),
            transfer_frame(0, b"", settled=True, handle=answers["handle"], payload=payload),
        )
        await peer.begins()
        attached.append(await peer.expect("attach"))
        await peer.closes()

    async with scripted(script) as connection:
        pump = connection._links.carrier
        assert isinstance(pump, Pump)
        expires_at = datetime(2026, 1, 1, 1, tzinfo=UTC)
        async with trio.open_nursery() as nursery:
            options = OpeningOptions(container_id="test")
            gate = TokenGate(
                lambda _: Token("sesame", expires_at), nursery, options, dialect=None, policy=None, random=lambda: 0.5
            )
            frame = Attach("work", Role.RECEIVER, "work", "")
            gate.attach(
                pump, LinkSubscription(ProbeSubscriber[Any](1), ReceivingOptions(decode=bytes, window=8), print), frame
            )
            await until(lambda: attached)
            nursery.cancel_scope.cancel()
    (request,) = requests
    assert attached[0]["source"].value[0] == "work"
    assert request.body == "sesame"
    assert request.properties == {
        "operation": "put-token",
        "type": "jwt",
        "name": "work",
        "expiration": expires_at,
    }
