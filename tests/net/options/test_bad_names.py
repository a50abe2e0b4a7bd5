"""Urls, addresses and names that cannot be are told apart before anything is sent."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConfigError
from rstreams.net.transport.address import parse_place, parse_url
from tests.net.over_tcp import connected


@pytest.mark.parametrize("host", ["a" * 300, "a..b", "."])
def test_a_host_that_no_resolver_takes_is_a_config_error(host: str) -> None:
    with pytest.raises(ConfigError, match="host"):
        parse_url(f"amqp://{host}:5672")
    with pytest.raises(ConfigError, match="listen="):
        parse_place(f"{host}:5672")


@pytest.mark.parametrize(
    "url",
    [
        "amqp://u:hush@127.0.0.1:port",
        "amqp://u:hush/hush@127.0.0.1:1",
        "amqp://u:hush#hush@127.0.0.1:1",
        "amqp://u:hush?hush@127.0.0.1:1",
        "amqp:u:hush@127.0.0.1:1",
        "u:hush//hush@127.0.0.1",
        "amqp://u:hush@[::1",
        "amqp://u%00:hush@127.0.0.1",
        "amqp://u:hush[hush@127.0.0.1",
        "amqp://u:hush]@127.0.0.1",
    ],
)
def test_no_error_shows_a_part_of_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse_url(url)
    assert "hush" not in str(told.value)
    assert told.value.__context__ is None, "what urllib says may show a part of it"
    with pytest.raises(ConfigError) as told:
        parse_place(url)
    assert "hush" not in str(told.value)
    assert told.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqps://u:hush/x@127.0.0.1:1", "amqps://***@127.0.0.1:1"),
        ("amqp://u:1#x@127.0.0.1:1", "amqp://***@127.0.0.1:1"),
        ("amqp://u:hush?x@127.0.0.1", "amqp://***@127.0.0.1"),
        ("amqp://u:hush[@127.0.0.1", "amqp://***@127.0.0.1"),
    ],
)
def test_a_url_that_special_characters_of_a_password_take_apart_says_so(url: str, shown: str) -> None:
    told = rf"^url='{re.escape(shown)}': .*; if it has a user and a password, .* percent-encoded, such as %2F for /"
    with pytest.raises(ConfigError, match=told):
        parse_url(url)


def test_a_bad_port_behind_a_good_password_says_nothing_of_the_password() -> None:
    with pytest.raises(ConfigError, match="a port is a number from 1 to 65535") as told:
        parse_url("amqp://u:hush@[::1]:99999")
    assert "percent" not in str(told.value)


@pytest.mark.parametrize("address", ["a\0b", "\ud800", "x" * 5000, "ü" * 2500, "", None, 5])
async def test_an_address_that_would_not_reach_the_peer_as_it_is_is_refused(address: str) -> None:
    async with Node() as node:
        node.queue("a")
        listener = await node.listen("127.0.0.1:0")
        for add in (node.queue, node.multicast, lambda name: node.serve(name, Stream.empty())):
            with pytest.raises(ConfigError, match="name="):
                add(address)
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(ConfigError, match="address="):
                connection.stream(address)
            with pytest.raises(ConfigError, match="address="):
                await connection.publish(address, Stream.of(1))


@pytest.mark.parametrize("address", ["ü", "a b", " ", "日本" * 500, "x" * 4096, "a/b?c=d#e", "\n"])
async def test_an_address_of_any_characters_goes_there_and_back(address: str) -> None:
    async with Node() as node:
        node.queue(address)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish(address, Stream.of(1))
            assert await connection.stream(address).take(1).to_list() == [1]


@pytest.mark.parametrize("container_id", ["", 5, "a\0b", "\ud800", "x" * 5000])
async def test_a_container_id_that_cannot_be_told_is_refused(container_id: str) -> None:
    with pytest.raises(ConfigError, match="container_id="):
        Node(container_id=container_id)
    with pytest.raises(ConfigError, match="container_id="):
        async with rstreams.connect("amqp://127.0.0.1", container_id=container_id):
            pass


@pytest.mark.parametrize(
    "users", ["alice", {"alice": None}, {"alice": b"x"}, {5: "x"}, {"": "x"}, {"alice": "\ud800"}, {"a": "x" * 400}]
)
def test_users_that_could_never_be_let_in_are_refused(users: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="users"):
        Node(users=users)


@pytest.mark.parametrize("options", [{"idle_timeout_s": -1}, {"idle_timeout_s": float("inf")}, {"max_frame_bytes": 0}])
def test_a_node_refuses_options_that_its_connections_could_not_have(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Node(**options)


@pytest.mark.parametrize("publisher", [5, [1, 2], Stream])
def test_what_is_no_publisher_cannot_be_served(publisher: Stream[int]) -> None:
    with pytest.raises(ConfigError, match=r"'numbers': publisher=.*: it must be"):
        Node().serve("numbers", publisher)


async def test_a_node_has_one_life_and_listens_in_it() -> None:
    node = Node()
    with pytest.raises(RuntimeError, match="inside its block"):
        await node.listen("127.0.0.1:0")
    async with node:
        with pytest.raises(RuntimeError, match="entered before"):
            async with node:
                pass
    with pytest.raises(RuntimeError, match="inside its block"):
        await node.listen("127.0.0.1:0")
    with pytest.raises(RuntimeError, match="entered before"):
        async with node:
            pass


@pytest.mark.parametrize(("user", "password"), [("alice", "x" * 395), ("ü", "pä:@/#%"), ("a b", ""), ("%", "\n")])
async def test_credentials_of_any_characters_are_let_in(user: str, password: str) -> None:
    async with Node(users={user: password}) as node:
        listener = await node.listen("127.0.0.1:0")
        place = f"{quote(user, safe='')}:{quote(password, safe='')}@127.0.0.1:{listener.port}"
        async with rstreams.connect(f"amqp://{place}") as connection:
            assert password not in repr(connection) or not password


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"größe": 1}, r"filters: 'größe' is not a filter's name"),
        ({"": 1}, r"filters: '' is not a filter's name"),
        ({5: 1}, r"filters: 5 is not a filter's name"),
        ({"a": object()}, r"filters: the value of 'a' cannot be sent"),
        ("x > 1", r"filters='x > 1': filters must be a mapping"),
        ([1], r"filters=\[1\]: filters must be a mapping"),
    ],
)
async def test_filters_that_cannot_be_sent_are_named_at_the_call(
    filters: Any,  # noqa: ANN401 - wrong ones
    said: str,
) -> None:
    async with connected() as (node, connection):
        node.queue("a")
        with pytest.raises(ConfigError, match=said):
            connection.stream("a", filters=filters)
        with pytest.raises(ConfigError, match=said):
            connection.streamed_messages("a", filters=filters)
        assert (await connection.publish("a", Stream.of(1))).accepted == 1, "the connection has not heard of it"


@pytest.mark.parametrize(
    ("capabilities", "said"),
    [
        ([1], r"capabilities=\[1\]: 1 is not a capability"),
        (["é"], r"'é' is not a capability"),
        ([""], r"'' is not a capability"),
        ("queue", r"capabilities='queue': capabilities must be a list of names, such as \['queue'\]"),
        (None, r"capabilities=None: capabilities must be a list of names"),
        (["x" * 300, "y"], r"at most 255 characters"),
    ],
)
async def test_capabilities_that_cannot_be_sent_are_named_at_the_call(
    capabilities: Any,  # noqa: ANN401 - wrong ones
    said: str,
) -> None:
    async with connected() as (node, connection):
        node.queue("a")
        with pytest.raises(ConfigError, match=said):
            connection.stream("a", capabilities=capabilities)
        with pytest.raises(ConfigError, match=said):
            connection.streamed_messages("a", capabilities=capabilities)
        with pytest.raises(ConfigError, match=said):
            await connection.publish("a", Stream.of(1), capabilities=capabilities)
        with pytest.raises(ConfigError, match=said):
            await connection.consume("a", print, capabilities=capabilities)
        with pytest.raises(ConfigError, match=said):
            async with connection.sender("a", capabilities=capabilities):
                pass
        with pytest.raises(ConfigError, match=said):
            async with connection.requester("a", capabilities=capabilities):
                pass
        assert (await connection.publish("a", Stream.of(1))).accepted == 1, "the connection has not heard of it"
