"""Peers that are asked what they wait for and answer nothing, nonsense or too much; and strangers who ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import rstreams
from rstreams import Connection, Node, Stream
from rstreams._core.beyond import HOPS, Question
from rstreams.abc import Subscriber
from rstreams.culprits import KINDS, MOST_DEPTH, MOST_PARTS, MOST_TEXT, Culprit, WaitTree
from rstreams.message import encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net.explaining import MOST_ANSWERS
from rstreams.net.links.asking import EXPLAIN, MOST_BYTES, MOST_OPEN
from rstreams.net.transport.reconnect import KeptConnection
from rstreams.protocol.frames import EXPLAINS, Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from tests.net.over_tcp import until

OnAttach = Callable[[LinkDriver, Attach], None]


def answering(body: object) -> OnAttach:
    """Answer each question with this body; None: with silence."""

    def attach(driver: LinkDriver, frame: Attach) -> None:
        publisher: Any = Stream.never() if body is None else Stream.of(body).concat(Stream.never())
        options = SendingOptions(encode=encode_item, settlement=Settlement.AT_MOST_ONCE)
        end: LinkSubscriber[Any] = LinkSubscriber(publisher, options, lambda _error: None)
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, EXPLAIN, frame.target, Settlement.AT_MOST_ONCE))
        end.start()

    return attach


def refusing(driver: LinkDriver, frame: Attach) -> None:
    driver.bind(refuse(driver, frame, "amqp:not-allowed", "no\x1b[31m\nway"))


def says_nothing(_driver: LinkDriver, _frame: Attach) -> None:
    """Leave the attach without an answer."""


@asynccontextmanager
async def stuck(on_attach: OnAttach) -> AsyncIterator[tuple[Node, Connection]]:
    """A node whose queue is full, because a client that answers questions in its own way takes nothing more."""
    async with Node(container_id="node") as node, trio.open_nursery() as nursery:
        node.queue("orders", capacity=2)
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url, container_id="shop") as shop,
            rstreams.connect(listener.url, container_id="worker") as worker,
            worker.stream("orders", window=1).open(window=1) as orders,
        ):
            carrier = worker._links.carrier
            assert isinstance(carrier, KeptConnection)
            assert carrier._pump is not None
            carrier._pump.on_attach = on_attach
            nursery.start_soon(shop.publish, "orders", Stream.range(9))
            await anext(orders)
            await until(lambda: node.explain().culprit is not None and "is full" in str(node.explain()))
            yield node, shop
            nursery.cancel_scope.cancel()


def parts(*rows: object) -> dict[str, Any]:
    return {"parts": list(rows), "culprit": None}


def part(depth: object = 0, **told: object) -> dict[str, Any]:
    return {"depth": depth, "kind": "x", "name": "x", "state": "", "blame": None} | told


NONSENSE: dict[str, Any] = {
    "text": "hello",
    "number": 7,
    "list": [1, 2],
    "nothing in it": {},
    "no parts": parts(),
    "parts of another type": {"parts": "many"},
    "wrong part": parts(7),
    "wrong name": parts(part(name=7)),
    "wrong blame": parts(part(blame="you")),
    "wrong time": parts(part(blame={"kind": "silent", "since": "yesterday"})),
    "time of another type": parts(part(blame={"kind": "silent", "since": 7})),
    "wrong depth": parts(part("deep")),
    "no root": parts(part(1)),
    "two roots": parts(part(), part()),
    "below nothing": parts(part(), part(2)),
    "too deep": parts(*(part(depth) for depth in range(MOST_DEPTH + 1))),
    "too wide": parts(part(), *(part(1) for _ in range(MOST_PARTS))),
    "too large": parts(part(state="x" * MOST_BYTES)),
    "bytes": b"\xff\xfe",
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
async def test_an_answer_that_is_nonsense_is_one_line(body: object) -> None:
    async with stuck(answering(body)) as (node, shop):
        for tree in (await node.explain_across(), await shop.explain_across()):
            (line,) = [part for _, part in tree.parts() if "its answer cannot be read" in part.state]
            assert not line.waits_for
            assert len(line.state) < 2 * MOST_TEXT
            assert tree.culprit is not None
            assert tree.culprit.kind == "no_credit"
            assert tree.culprit.name == "worker"
        assert shop.status.state == "connected"


async def test_texts_of_a_peer_are_cut_and_made_harmless() -> None:
    text = "a\x1b[31m\r\nb\u202e" + "x" * 1000
    blame = {"kind": "made up", "sentence": text, "name": text, "where": text}
    async with stuck(answering(parts(part(kind=text, name=text, state=text, blame=blame)))) as (node, _):
        tree = await node.explain_across()
        assert tree.culprit is not None
        assert tree.culprit.kind == "unknown"
        assert len(tree.culprit.sentence) <= MOST_TEXT
        assert all(line.isprintable() for line in str(tree).splitlines())
        assert "\x1b" not in str(tree)


async def test_a_peer_that_refuses_is_one_line() -> None:
    async with stuck(refusing) as (node, _):
        tree = await node.explain_across()
        (line,) = [part for _, part in tree.parts() if "it tells nothing more" in part.state]
        assert line.state.isprintable()
        assert tree.culprit is not None
        assert tree.culprit.kind == "no_credit"


@pytest.mark.parametrize("silence", [answering(None), says_nothing])
async def test_a_peer_that_never_answers_is_silent_and_is_not_asked_without_end(silence: OnAttach) -> None:
    async with stuck(silence) as (node, shop):
        for _ in range(MOST_OPEN + 2):
            began = trio.current_time()
            tree = await node.explain_across(within_s=0.2)
            assert trio.current_time() - began < 1
            assert tree.culprit is not None
            assert (tree.culprit.kind, tree.culprit.name) == ("silent", "worker")
        asked = list(node._links.attached._asking.values())
        assert all(len(asking._open) <= MOST_OPEN for asking in asked)
        assert (await shop.explain_across(within_s=0.2)).culprit is not None


async def test_a_client_has_no_other_address_and_answers_few_at_a_time() -> None:
    """A hostile node attaches links to its client."""
    async with Node(container_id="node") as node:
        node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url, container_id="worker") as worker,
            worker.stream("orders").open(),
        ):
            await until(lambda: len(list(node._links.attached)) == 1)
            ((_, link),) = node._links.attached
            got: list[object] = []

            def attach(frame: Attach) -> Any:  # noqa: ANN401 - the end of a link
                class Sees:
                    def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401
                        subscription.request(1)

                    def on_next(self, item: bytes) -> None:
                        got.append(item)

                    def on_error(self, error: BaseException) -> None:
                        got.append(str(error))

                    def on_complete(self) -> None:
                        got.append("completed")

                sees: Subscriber[bytes] = Sees()
                end = LinkSubscription(sees, ReceivingOptions(decode=bytes, window=1), lambda _error: None)
                link.driver.attach_beside(end, frame)
                return end

            attach(Attach("a", Role.RECEIVER, "orders", None, Settlement.AT_MOST_ONCE))
            await until(lambda: len(got) == 1)
            assert "amqp:not-allowed" in str(got[0])
            question = {EXPLAINS: {"within_ms": -5, "hops": "x", "trail": [7] * 1000, "link": 7, "want": []}}
            ends = [
                attach(Attach(str(at), Role.RECEIVER, EXPLAIN, None, Settlement.AT_MOST_ONCE, properties=question))
                for at in range(MOST_ANSWERS + 6)
            ]
            await until(lambda: len(got) == MOST_ANSWERS + 7)
            assert sum("resource-limit" in str(each) for each in got) >= 6
            for end in ends:
                end.cancel()


async def test_who_asks_without_end_disturbs_nobody() -> None:
    async with Node(container_id="node") as node, trio.open_nursery() as nursery:
        node.queue("orders", capacity=4)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as stranger, rstreams.connect(listener.url) as shop:

            async def ask() -> None:
                await stranger.stream(EXPLAIN, settlement="at_most_once").for_each(lambda _: None)

            for _ in range(20):
                nursery.start_soon(ask)
            with trio.fail_after(10):
                await shop.publish("orders", Stream.of(1, 2, 3))
                assert await shop.stream("orders").take(3).to_list() == [1, 2, 3]
            nursery.cancel_scope.cancel()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
@settings(max_examples=100)
def test_any_question_of_a_peer_is_within_bounds(value: object) -> None:
    question = Question.from_dict(value)
    assert 0 <= question.within_s <= 60
    assert 0 <= question.hops <= HOPS
    assert Question.from_dict(question.as_dict()) == question


texts = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)
culprits = st.builds(
    Culprit, st.sampled_from(sorted(KINDS)), texts, texts, st.none() | st.just(datetime(2026, 1, 1, tzinfo=UTC)), texts
)
trees = st.recursive(
    st.builds(WaitTree, texts, texts, texts, st.none() | culprits),
    lambda each: st.builds(WaitTree, texts, texts, texts, st.none() | culprits, st.lists(each, max_size=4).map(tuple)),
)


@given(trees)
@settings(max_examples=100)
def test_a_tree_comes_over_the_wire_as_it_was(tree: WaitTree) -> None:
    assert WaitTree.from_dict(tree.as_dict()) == tree
    assert tree.within_bounds().culprit == tree.culprit


@pytest.mark.parametrize("wide", [True, False])
def test_a_tree_that_is_too_large_is_cut_and_keeps_its_culprit(*, wide: bool) -> None:
    told = Culprit("silent", "it is", "it")
    leaf = WaitTree("x", "x", blame=told)
    tree = WaitTree("x", "x", waits_for=(*(WaitTree("x", "x") for _ in range(10 * MOST_PARTS)), leaf))
    if not wide:
        tree = leaf
        for _ in range(5 * MOST_DEPTH):
            tree = WaitTree("x", "x", waits_for=(tree,))
    cut = tree.within_bounds()
    assert WaitTree.from_dict(cut.as_dict()) == cut
    assert cut.culprit == told
