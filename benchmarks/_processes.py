"""Two processes over loopback: one listens and produces, the other connects, consumes and measures."""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal, TypeAlias

Settlement: TypeAlias = Literal["at_most_once", "at_least_once"]

TIMEOUT_S = 120.0
_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Load:
    """What one run moves.

    Attributes:
        port: Where the producer listens, on 127.0.0.1.
        items: How many items.
        item_bytes: The size of each.
        settlement: Whether each item is acknowledged.
    """

    port: int
    items: int
    item_bytes: int
    settlement: Settlement

    @property
    def item(self) -> bytes:
        """One item."""
        return b"x" * self.item_bytes


Produce: TypeAlias = Callable[[Load, Callable[[], None]], None]
Consume: TypeAlias = Callable[[Load], float]


def run_pair(produce: Produce, consume: Consume, items: int, item_bytes: int, settlement: Settlement) -> float:
    """Run a producer and a consumer, each in a process of its own; return what the consumer measured."""
    load = Load(free_port(), items, item_bytes, settlement)
    ready, told_ready = _processes.Pipe(duplex=False)
    result, told_result = _processes.Pipe(duplex=False)
    producer = _processes.Process(target=_produce, args=(produce, load, told_ready))
    consumer = _processes.Process(target=_consume, args=(consume, load, told_result))
    try:
        producer.start()
        receive(ready, "the producer")
        consumer.start()
        return float(receive(result, "the consumer"))
    finally:
        for process in (producer, consumer):
            if process.pid is not None:
                process.kill()
                process.join()


def receive(pipe: Connection, who: str) -> float:
    """Return the next number from a process, or give up after `TIMEOUT_S`."""
    if not pipe.poll(TIMEOUT_S):
        msg = f"{who} did not answer within {TIMEOUT_S:g} s"
        raise TimeoutError(msg)
    return float(pipe.recv())


def _produce(produce: Produce, load: Load, ready: Connection) -> None:
    produce(load, lambda: ready.send(0.0))


def _consume(consume: Consume, load: Load, result: Connection) -> None:
    result.send(consume(load))


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
