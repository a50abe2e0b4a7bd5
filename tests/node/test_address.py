"""The questions that a node asks an address: a kind that knows nothing of the node's own classes answers each."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rstreams
from rstreams import Message, Node, Stream
from rstreams._codec import encode_value
from rstreams._codec.encode import encode_uint
from rstreams.abc import Subscriber, Subscription
from rstreams.errors import Condition, ConfigError, LinkDetached, ProtocolError
from rstreams.message import Described, Symbol, decode_body, encode_item
from rstreams.node import Address, LinkRequest, NodeServices, Supply
from rstreams.push import Latest
from tests.net.foreign import foreign
from tests.net.over_tcp import connected, until
from tests.net.wire import transfer_frame


class Kept(Address):
    """Keeps each message it is sent in a list, and serves the last one."""

    kind = "kept"
    takes_dead_letters = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[bytes] = []
        self.latest = Latest[bytes]()
        self.links: list[LinkRequest] = []
        self.ended: list[BaseException | None] = []
        self.calls: list[str] = []
        self.busy = False
        self.services: NodeServices | None = None
        self.deadline = math.inf
        self.fails: Exception | None = None

    def begin(self, services: NodeServices) -> None:
        self.services = services

    async def close(self) -> None:
        self.calls.append("close")
        if self.fails is not None:
            raise self.fails

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - it does without
        return Writer(self)

    def producer_for(self, link: LinkRequest) -> Subscriber[bytes]:
        self.links.append(link)
        return super().producer_for(link)

    def supply(self, link: LinkRequest) -> Supply:
        self.links.append(link)
        return Supply(
            self.latest,
            encoded=True,
            filters=link.attach.filters,
            properties={"kept": len(self.items)},
            on_ended=self.ended.append,
        )

    @property
    def at_rest(self) -> bool:
        return not self.busy

    @property
    def left(self) -> int:
        return len(self.items)

    @property
    def next_deadline(self) -> float:
        return self.deadline

    def expire(self) -> None:
        self.deadline = math.inf
        self.calls.append("expire")


class Writer:
    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(2**63 - 1)

    def on_next(self, item: bytes) -> None:
        self._kept.items.append(item)
        self._kept.latest.emit(item)

    def on_error(self, error: BaseException) -> None:
        pass

    def on_complete(self) -> None:
        pass


def bodies(kept: Kept) -> list[object]:
    return [decode_body(item) for item in kept.items]


async def test_what_a_peer_asks_for_reaches_the_address_and_its_answer_the_peer() -> None:
    async with Node() as node, foreign(await node.listen("127.0.0.1:0")) as client:
        kept = node.add(Kept("notes"))
        offset = Described(Symbol("x:offset"), 7)
        wishes = (encode_uint(2), encode_value(Symbol("never")), encode_uint(60))
        filters = encode_value({Symbol("x:offset"): offset})
        answer = await client.attach("audit", "receiver", address="notes", kept=wishes, filters=filters)
        [link] = kept.links
        asked = link.attach
        assert (asked.name, link.container, asked.durable) == ("audit", "scripted", True)
        assert (asked.expiry, asked.expiry_timeout_s) == ("never", 60)
        assert asked.filters == {"x:offset": offset}
        assert "audit" in link.origin
        assert answer["properties"]["kept"] == 0
        assert answer["source"].value[7] == {"x:offset": offset}


async def test_messages_come_by_a_link_by_a_relay_as_a_reply_and_as_a_dead_letter() -> None:
    async with connected() as (node, connection):
        kept = node.add(Kept("notes"))
        work = node.queue("work", dead_letters="notes")
        node.respond("shout", lambda text: text.upper())
        await connection.publish("notes", Stream.of("by a link"))
        await connection.publish("work", Stream.of("dead"))
        await connection.stream("work", on_failure="reject").take(1).map(lambda _: 1 / 0).on_error_complete().to_list()
        await until(lambda: len(kept.items) == 2)
        assert work.statistics().dead_lettered == 1
        await connection.publish("shout", Stream.of(Message("reply", reply_to="notes", id=1)))
        await until(lambda: len(kept.items) == 3)
        async with foreign(node._listeners[0]) as client:
            await client.attach("relay", "sender")
            await client.credit()
            relayed = encode_item(Message("relayed", address="notes"))
            await client.send(transfer_frame(0, b"", payload=relayed))
            await until(lambda: len(kept.items) == 4)
        assert bodies(kept) == ["by a link", "dead", "REPLY", "relayed"]
        assert await connection.stream("notes").take(1).to_list() == ["relayed"]
        await until(lambda: kept.ended)
        assert kept.ended == [None]


class Raising(Address):
    kind = "raising"

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name = name
        self._make = make

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - it does without
        made: Subscriber[bytes] = self._make()
        return made

    def supply(self, link: LinkRequest) -> Supply:  # noqa: ARG002 - likewise
        made: Supply = self._make()
        return made


def refusing() -> None:
    condition = "shop:closed"
    raise ProtocolError(condition, "at six")


@pytest.mark.parametrize(
    ("make", "condition", "text", "logged"),
    [
        (refusing, "shop:closed", "at six", ""),
        (lambda: 1 / 0, "amqp:internal-error", "the address failed", "ZeroDivisionError"),
        (lambda: None, "amqp:internal-error", "the address failed", "Raising.* must return a S"),
    ],
)
async def test_an_address_that_refuses_or_raises_refuses_the_link_and_the_connection_lives(
    make: Callable[[], Any], condition: str, text: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected() as (node, connection):
        node.add(Raising("closed", make))
        node.queue("work")
        with caplog.at_level(logging.CRITICAL if not logged else logging.ERROR):
            with pytest.raises(LinkDetached) as caught:
                await connection.stream("closed").to_list()
            assert (caught.value.condition, caught.value.description) == (condition, text)
            with pytest.raises(LinkDetached) as caught:
                await connection.publish("closed", Stream.of(1))
            assert (caught.value.condition, caught.value.description) == (condition, text)
        assert bool(caplog.records) is bool(logged)
        assert re.search(logged, caplog.text)
        await connection.publish("work", Stream.of(1))


async def test_without_an_override_both_kinds_of_link_are_refused() -> None:
    class Nothing(Address):
        kind = "nothing"
        name = "none"

    async with connected() as (node, connection):
        node.add(Nothing())
        with pytest.raises(LinkDetached, match="'none' is a nothing: there is nothing to receive") as caught:
            await connection.stream("none").to_list()
        assert caught.value.condition == Condition.NOT_ALLOWED
        with pytest.raises(LinkDetached, match="'none' is a nothing: it takes no items"):
            await connection.publish("none", Stream.of(1))
        assert "nothing 'none'" in node.explain().lines
        assert node.statistics().others == {}


@pytest.mark.parametrize("name", ["", "$own", None, "taken"])
def test_a_name_that_is_taken_or_not_allowed_is_refused(name: Any) -> None:  # noqa: ANN401 - a user may give anything
    node = Node()
    node.queue("taken")
    with pytest.raises(ConfigError, match=r"name"):
        node.add(Kept(name))
    with pytest.raises(ConfigError, match=r"add\(<class .*it must be a rstreams\.node\.Address"):
        node.add(Kept)  # type: ignore[type-var]


async def test_a_node_is_drained_when_each_address_is_at_rest_and_tells_what_they_had() -> None:
    async with Node() as node:
        kept = node.add(Kept("notes"))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("notes", Stream.of(1, 2))
            kept.busy = True
            drained: list[int] = []

            async def drain() -> None:
                drained.append((await node.drain_and_close()).left)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(drain)
                await until(lambda: node._links.closing)
                await trio.testing.wait_all_tasks_blocked()
                assert drained == []
                kept.busy = False
            assert drained == [2]


async def test_addresses_are_closed_at_the_end_the_last_one_first_whatever_one_raises() -> None:
    calls: list[str] = []
    addresses = [Kept("first"), Kept("second"), Kept("third")]
    for address in addresses:
        address.calls = calls
    addresses[1].fails = LookupError("disk")
    with pytest.raises(LookupError, match="disk"):
        async with Node() as node:
            for address in addresses:
                node.add(address)
            assert calls == []
    assert calls == ["close"] * 3


async def test_time_and_tasks_are_the_nodes(autojump_clock: MockClock) -> None:
    node, kept, ran = Node(), Kept("notes"), []

    async def note(what: str) -> None:
        ran.append(what)
        if what == "for ever":
            try:
                await trio.sleep_forever()
            finally:
                ran.append("cancelled")

    node.add(kept)
    assert kept.services is not None
    kept.services.start_soon(note, "first")
    async with node:
        kept.services.start_soon(note, "for ever")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(ran) == ["first", "for ever"]
        kept.deadline = kept.services.now() + 5
        kept.services.wake_at(kept.deadline)
        await trio.sleep(4)
        assert kept.calls == []
        await trio.sleep(2)
        assert kept.calls == ["expire"]
        assert kept.services.find("notes") is kept
        assert kept.services.find("no") is None
    assert ran[-1] == "cancelled"
    assert autojump_clock.rate == 0


class Miscounting(Address):
    kind = "miscounting"

    def __init__(self, name: str) -> None:
        self.name = name

    def statistics(self) -> Any:  # noqa: ANN401 - the wrong type is the test
        return {"messages": 1}


async def test_statistics_of_a_wrong_type_name_the_address() -> None:
    async with Node() as node:
        node.add(Miscounting("m"))
        with pytest.raises(
            TypeError, match=r"Miscounting\.statistics\(\) must return AddressStatistics or None, not {"
        ):
            node.statistics()


class Late(Kept):
    """Has one deadline, and does nothing when it is due."""

    def __init__(self, deadline: float | None) -> None:
        super().__init__("late")
        self.due: Any = deadline

    @property
    def next_deadline(self) -> float:
        return self.due  # type: ignore[no-any-return]

    def expire(self) -> None:
        pass


@pytest.mark.parametrize(
    ("deadline", "allowed"),
    [(None, "a number of seconds, or math.inf for never"), (math.nan, "a number of seconds"), (0.0, "a time later")],
)
async def test_a_deadline_that_is_no_number_or_does_not_move_on_ends_the_node_with_an_error_that_names_the_address(
    deadline: float | None, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape("Late('late').next_deadline is ") + f".*{allowed}"):
        async with Node() as node:
            node.add(Late(deadline))
            with trio.fail_after(10):
                await trio.sleep_forever()
