"""pyzmq PUSH/PULL: one process binds and pushes, the other connects and pulls; nothing is acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import zmq

from benchmarks._processes import Load


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Push the items to whoever connects."""
    item = load.item
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.bind(f"tcp://127.0.0.1:{load.port}")
        ready()
        for _ in range(load.items):
            push.send(item)


def consume(load: Load) -> float:
    """Return the items received per second."""
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.connect(f"tcp://127.0.0.1:{load.port}")
        pull.recv()
        first = perf_counter()
        for _ in range(load.items - 1):
            pull.recv()
        return (load.items - 1) / (perf_counter() - first)
