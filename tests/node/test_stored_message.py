"""The bytes of messages that have been annotated: they count as large as they are, wherever they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from rstreams.errors import DeliveryFailed
from rstreams.node.limits import Limits
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.testing import ProbeSubscriber
from tests.node.durable import Bench, bench, consumer, send

ANNOTATED = DeliveryFailed("modified", delivery_failed=False, annotations={"x-why": "x" * 1000})
REJECTED = DeliveryFailed("rejected")


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "first") as made:
        yield made


def accept(queue: Queue, taker: ProbeSubscriber[bytes]) -> None:
    for hold in taker.holds[-3:]:
        hold.done()


def reject(queue: Queue, taker: ProbeSubscriber[bytes]) -> None:
    for hold in taker.holds[-3:]:
        hold.fail(REJECTED)


def drop(queue: Queue, taker: ProbeSubscriber[bytes]) -> None:
    queue.storage.limits = Limits(0)
    queue.intake.when_full = "drop_oldest"
    assert taker.subscription is not None
    taker.subscription.cancel()
    for hold in taker.holds[-3:]:
        hold.release()


ENDS: Final = [accept, reject, drop]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("where", ["memory", "disk", "a disk, behind a restart"])
def test_a_message_that_was_annotated_leaves_no_bytes_behind(
    first: Bench, tmp_path: Path, where: str, end: Callable[[Queue, ProbeSubscriber[bytes]], None]
) -> None:
    place, queue = first, Queue("q", MemoryStorage()) if where == "memory" else first.queue()
    send(queue, "a", "b", "c")
    first.run()
    taker = consumer(queue, 3)
    for hold in taker.holds:
        hold.fail(ANNOTATED)
    size = queue.statistics().size_bytes
    assert size > 3000, "they are as large as they are now"
    first.run()
    if "restart" in where:
        place = first.killed(tmp_path / "again")
        queue = place.queue(in_memory=1)
        taker = consumer(queue, 0)
    assert taker.subscription is not None
    taker.subscription.request(1)
    place.run()
    read = 3 - queue.statistics().on_disk
    assert read == (2 if "restart" in where else 3)
    assert queue.statistics().size_bytes > 1000 * read
    taker.subscription.request(2)
    place.run()
    assert queue.statistics().size_bytes == size
    end(queue, taker)
    place.run()
    assert (queue.statistics().size_bytes, queue.statistics().ready) == (0, 0)
    if place is not first:
        place.close()
