"""What goes wrong at a node leaves a line at WARNING with the address and a count, and not more than one a second."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

import rstreams
from rstreams import Connection, Message, Node, Stream
from rstreams.errors import AuthenticationFailed, DeliveryFailed, RStreamsError
from rstreams.message import encode_item
from rstreams.node import Permission
from rstreams.runtime.seldom import LINES_OF_THREADS
from rstreams.testing import ManualPublisher
from tests.net.over_tcp import until
from tests.node.durable import KINDS as KINDS_OF_QUEUES
from tests.node.durable import bench, consumer, of_kind

Work = Callable[[Node, Connection], Awaitable[object]]


async def fill(node: Node, connection: Connection) -> None:
    """Publish until the queue has no more room."""
    with trio.move_on_after(60):
        await connection.publish("q", Stream.range(10))
    assert node.explain()


async def overfill(node: Node, connection: Connection) -> None:
    del node
    with suppress(DeliveryFailed):
        await connection.publish("q", Stream.range(10))


async def drop_copies(node: Node, connection: Connection) -> None:
    async with connection.stream("m", window=1).open():
        await until(lambda: node.statistics().multicasts["m"].subscribers)
        await connection.publish("m", Stream.range(10))


async def drop_named(node: Node, connection: Connection) -> None:
    del node
    async with connection.stream("m", subscription="mine", window=1).open():
        pass
    await connection.publish("m", Stream.range(10))


async def reject_named(node: Node, connection: Connection) -> None:
    await drop_named(node, connection)
    with trio.move_on_after(60):
        await connection.consume("m", divide_by_zero, subscription="mine", on_failure="reject")


async def reject(node: Node, connection: Connection) -> None:
    del node
    await connection.publish("q", Stream.range(3))
    with trio.move_on_after(60):
        await connection.consume("q", divide_by_zero, on_failure="reject")


async def exhaust(node: Node, connection: Connection) -> None:
    del node
    await connection.publish("q", Stream.range(3))
    with trio.move_on_after(60):
        await connection.consume("q", divide_by_zero, on_failure="modify")


async def expire(node: Node, connection: Connection) -> None:
    await connection.publish("q", Stream.of(*(Message(n, ttl_s=1) for n in range(3))))
    await trio.sleep(5)
    assert node.statistics().queues["q"].expired == 3


def divide_by_zero(_: object) -> None:
    1 // 0  # noqa: B018 - it fails


async def end_consumers(node: Node, connection: Connection) -> None:
    async with connection.management() as management, trio.open_nursery() as nursery:

        async def consume() -> None:
            with pytest.raises(RStreamsError):
                await connection.stream("q").to_list()

        for _ in range(3):
            nursery.start_soon(consume)
        await until(lambda: node.statistics().queues["q"].consumers == 3)
        for link in await management.subscriptions("q"):
            await management.end_subscription(link.number)


async def fail_streams(node: Node, connection: Connection) -> None:
    node.serve("q", Stream.fail(ValueError("no numbers")))
    for _ in range(3):
        with pytest.raises(RStreamsError):
            await connection.stream("q").to_list()


def refuse_logins(user: str) -> Work:
    async def work(node: Node, connection: Connection) -> None:
        del connection
        (listener,) = node._listeners
        for _ in range(3):
            with pytest.raises(AuthenticationFailed):
                async with rstreams.connect(f"amqp://{user}:wrong@127.0.0.1:{listener.port}"):
                    pass

    return work


async def refuse_links(node: Node, connection: Connection) -> None:
    del node
    for _ in range(3):
        with pytest.raises(RStreamsError):
            await connection.stream("secret").to_list()


KINDS: dict[str, tuple[Callable[[Node], object], Work, str, int | None]] = {
    "full": (lambda n: n.queue("q", capacity=3), fill, "producers wait: queue 'q' is full: 3 of 3 stored", 1),
    "full bytes": (
        lambda n: n.queue("q", capacity_bytes=30),
        fill,
        "producers wait: queue 'q' is full: .* capacity_bytes=30",
        1,
    ),
    "full on disk": (
        lambda n: n.queue("q", capacity=3, durable=True),
        fill,
        "producers wait: durable queue 'q' is full: 3 of 3 stored",
        1,
    ),
    "refused": (
        lambda n: n.queue("q", capacity=3, when_full="reject"),
        overfill,
        "queue 'q' refuses a message \\(# so far\\): queue 'q' is full",
        None,
    ),
    "refused on disk": (
        lambda n: n.queue("q", capacity=3, when_full="reject", durable=True),
        overfill,
        "queue 'q' refuses a message \\(# so far\\): queue 'q' is full",
        None,
    ),
    "oldest": (
        lambda n: n.queue("q", capacity=3, when_full="drop_oldest"),
        overfill,
        "queue 'q' is full: the oldest message is dropped \\(# so far\\)",
        7,
    ),
    "newest": (
        lambda n: n.queue("q", capacity=3, when_full="drop_newest"),
        overfill,
        "queue 'q' is full: a message that came is dropped \\(# so far\\)",
        7,
    ),
    "newest on disk": (
        lambda n: n.queue("q", capacity=3, when_full="drop_newest", durable=True),
        overfill,
        "queue 'q' is full: a message that came is dropped \\(# so far\\)",
        7,
    ),
    "copies": (
        lambda n: n.multicast("m", overflow="drop_oldest", capacity=2),
        drop_copies,
        "multicast 'm': a slow subscriber loses its oldest item \\(# so far\\)",
        7,
    ),
    "named": (
        lambda n: n.multicast("m", overflow="drop_oldest", backlog=2),
        drop_named,
        "subscription 'mine' of container '.*' at multicast 'm' is full: the oldest message is dropped \\(# so far\\)",
        8,
    ),
    "rejected by a named one": (
        lambda n: n.multicast("m"),
        reject_named,
        "subscription 'mine' of container '.*' at multicast 'm': a message is dropped, because .* \\(# so far\\): .*",
        10,
    ),
    "rejected": (
        lambda n: (n.queue("dead"), n.queue("q", dead_letters="dead")),
        reject,
        "queue 'q': a message goes to the dead letters \\(# so far\\): rejected: amqp:internal-error: .*",
        3,
    ),
    "rejected for good": (
        lambda n: n.queue("q"),
        reject,
        "queue 'q': a message is dropped, because there are no dead letters \\(# so far\\): rejected: .*",
        3,
    ),
    "exhausted": (
        lambda n: n.queue("q", max_deliveries=1),
        exhaust,
        "queue 'q': a message is dropped, because there are no dead letters \\(# so far\\): exhausted: 1 attempts.*",
        3,
    ),
    "handler": (
        lambda n: n.queue("q"),
        reject,
        "the handler of 'q' failed \\(# so far\\); on_failure='reject'",
        3,
    ),
    "expired": (
        lambda n: n.queue("q"),
        expire,
        "queue 'q': a message is dropped, because there are no dead letters \\(# so far\\): expired",
        3,
    ),
    "consumers": (
        lambda n: n.queue("q"),
        end_consumers,
        "the link '.*' of container '.*', which receives from 'q', has ended: .*ended by the management.*",
        3,
    ),
    "served": (
        lambda _: None,
        fail_streams,
        "the link '.*' of container '.*', which receives from 'q', has ended: no numbers",
        3,
    ),
    "links": (
        lambda _: None,
        refuse_links,
        "refused link '.*' of user 'alice' at 127.0.0.1:\\d+: .*",
        3,
    ),
    "password": (lambda _: None, refuse_logins("alice"), "refused a connection from .*: user 'alice' was refused", 3),
    "user": (lambda _: None, refuse_logins("eve"), "refused a connection from .*: user 'eve' was refused", 3),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_one_line_a_second_and_the_count(
    kind: str, tmp_path: Path, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock
    make, work, pattern, times = KINDS[kind]
    permissions = [
        Permission(users="alice", addresses=["q", "m", "dead", "$*"], allow=["publish", "subscribe", "manage"])
    ]
    async with Node(users={"alice": "a"}, permissions=permissions, store=tmp_path / "s") as node:
        make(node)
        url = (await node.listen("127.0.0.1:0")).url.replace("//", "//alice:a@")
        async with rstreams.connect(url, container_id="it") as connection:
            await work(node, connection)
            await trio.sleep(2)
        if times is None:
            times = node.statistics().queues["q"].refused
        told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    text = pattern.replace("#", r"\d+")
    assert times
    first, *others = [each for each in told if re.search(text, each)]
    assert re.match(text, first)
    counted = [re.match(r"(\d+) more of this kind about \S+, the last: " + text, each) for each in others]
    assert 1 + sum(int(each[1]) for each in counted if each) == times or "#" in pattern, told
    if "#" in pattern:
        assert int(re.findall(r"\((\d+) so far\)", [first, *others][-1])[-1]) == times
    assert None not in counted, told


@pytest.mark.parametrize("kind", [kind for kind in KINDS_OF_QUEUES if kind != "backlog in memory"])  # it has any room
def test_a_queue_that_stays_about_full_is_told_once_until_it_was_half_empty(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rstreams")
    with bench(tmp_path / "s") as here:
        queue = of_kind(here, kind, "block", 10, None)
        link, probe = ManualPublisher[bytes](), consumer(queue, 0)
        link.subscribe(queue.producer())
        told: list[list[str]] = []
        for taken in (0, 1, 1, 1, 8, 1, 9):
            probe.request(taken) if taken else None
            here.run()
            for hold in probe.holds[-taken:] if taken else ():
                hold.done()
            while link.outstanding:
                link.next(encode_item(1))
                here.run()
            assert queue.statistics().ready == 10
            LINES_OF_THREADS.forget()
            told.append([each.event for each in caplog.records[sum(map(len, told)) :]])  # type: ignore[attr-defined] # ours
        again = ["queue.free_again", "queue.full"]
        assert told == [["queue.full"], [], [], [], again, [], again]
