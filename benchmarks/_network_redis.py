"""redis-py with streams, 100 commands at a time: at least once by a consumer group with XACK, at most once by XREAD."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import islice
from time import sleep
from typing import Any

import redis

from benchmarks._payloads import packed, unpacking
from benchmarks._processes import Figures, Load, Timer, idle, paced

__all__ = ["consume", "idle", "produce", "publish"]

PIPELINED = 100
PIPELINED_BYTES = 8 * 1024 * 1024


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Add the items once the consumer has asked for them."""
    client = _fresh(load)
    ready()
    client.blpop(["go"])
    if load.rate:
        for count, wait_s in paced(load):
            _add(client, [load.stamped() for _ in range(count)])
            sleep(wait_s)
    else:
        _add_all(client, load)
    signal.pause()


def publish(load: Load) -> Figures:
    """Add the items, a pipeline's length at a time, and wait for the server's answers."""
    client = _fresh(load)
    timer = Timer(load)
    _add_all(client, load)
    return timer.figures()


def consume(load: Load) -> Figures:
    """Read the items, up to a pipeline's length at a time."""
    (counter, count), client, at_once = unpacking(load), _connect(load), _at_once(load)
    acknowledged, last, left = load.settlement == "at_least_once", b"0", load.items
    client.rpush("go", b"")
    while left:
        if acknowledged:
            answer: Any = client.xreadgroup("consumers", "one", {"items": ">"}, count=at_once, block=0)
        else:
            answer = client.xread({"items": last}, count=at_once, block=0)
        entries = _entries(answer)
        for _, fields in entries:
            count(fields[b"body"])
        last, left = entries[-1][0], left - len(entries)
        if acknowledged:
            client.xack("items", "consumers", *(identifier for identifier, _ in entries))
    return counter.figures()


def _add_all(client: redis.Redis, load: Load) -> None:
    items, at_once = packed(load), _at_once(load)
    while chunk := list(islice(items, at_once)):
        _add(client, chunk)


def _add(client: redis.Redis, items: list[bytes]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for item in items:
            pipeline.xadd("items", {"body": item})
        pipeline.execute()


def _entries(answer: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:  # noqa: ANN401 - as the protocol's version has it
    streams = list(answer.values()) if isinstance(answer, dict) else [entries for _, entries in answer]
    entries: list[Any] = streams[0]
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _at_once(load: Load) -> int:
    return max(1, min(PIPELINED, PIPELINED_BYTES // load.item_bytes))


def _fresh(load: Load) -> redis.Redis:
    """Return a client of a server with an empty stream, which has a group."""
    client = _connect(load)
    client.delete("items", "go")
    client.xgroup_create("items", "consumers", id="0", mkstream=True)
    return client


def _connect(load: Load) -> redis.Redis:
    return redis.Redis(host="127.0.0.1", port=load.port)
