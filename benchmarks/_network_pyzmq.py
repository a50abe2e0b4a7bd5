"""pyzmq: PUSH/PULL, and XPUB/SUB for several subscribers; nothing is acknowledged, and nothing is dropped here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from time import sleep

import zmq

from benchmarks._payloads import packed, unpacking
from benchmarks._processes import Counter, Figures, Load, paced

COPIED_BYTES = 64 * 1024
"""Items smaller than this are copied: pyzmq's own default for what is not worth sharing."""


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Push the items to whoever connects."""
    copy = load.item_bytes < COPIED_BYTES
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.bind(f"tcp://127.0.0.1:{load.port}")
        ready()
        if load.rate:
            push.send(load.stamped())  # waits for the consumer
            for count, wait_s in paced(load, 1):
                for _ in range(count):
                    push.send(load.stamped())
                sleep(wait_s)
        else:
            for item in packed(load):
                push.send(item, 0, copy)


def consume(load: Load) -> Figures:
    """Pull the items."""
    (counter, count), copy = unpacking(load), load.item_bytes < COPIED_BYTES
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.connect(f"tcp://127.0.0.1:{load.port}")
        for _ in range(load.items):
            item = pull.recv(copy=copy)
            count(item if isinstance(item, bytes) else item.buffer)
    return counter.figures()


def publish(load: Load, ready: Callable[[], None]) -> None:
    """Publish the items once all subscribers are there; a full subscriber makes it wait."""
    item = load.item
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.setsockopt(zmq.XPUB_NODROP, 1)
        publisher.setsockopt(zmq.XPUB_VERBOSE, 1)  # tell of every subscriber
        publisher.bind(f"tcp://127.0.0.1:{load.port}")
        ready()
        for _ in range(load.subscribers):
            publisher.recv()
        for _ in range(load.items):
            publisher.send(item)


def subscribe(load: Load) -> Figures:
    """Receive the items in as many sockets as there are subscribers."""
    counter, left = Counter(load), load.items * load.subscribers
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        poller = zmq.Poller()
        for _ in range(load.subscribers):
            subscriber = stack.enter_context(context.socket(zmq.SUB))
            subscriber.subscribe(b"")
            subscriber.connect(f"tcp://127.0.0.1:{load.port}")
            poller.register(subscriber, zmq.POLLIN)
        while left:
            for socket, _ in poller.poll():
                with suppress(zmq.Again):
                    for _ in range(256):
                        counter(socket.recv(zmq.NOBLOCK))
                        left -= 1
    return counter.figures()
