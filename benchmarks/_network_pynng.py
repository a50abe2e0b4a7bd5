"""pynng Push0/Pull0: one process listens and pushes, the other dials and pulls; nothing is acknowledged.

`WINDOW` messages may wait on each side; by default there is no room for any.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import sleep

import pynng

from benchmarks._processes import WINDOW, Counter, Figures, Load, paced


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Push the items to whoever dials."""
    item = load.item
    with pynng.Push0(listen=f"tcp://127.0.0.1:{load.port}") as push:
        ready()
        push.send(load.stamped())  # there is no room yet: it waits for the consumer
        push.send_buffer_size = WINDOW
        if load.rate:
            for count, wait_s in paced(load, 1):
                for _ in range(count):
                    push.send(load.stamped())
                sleep(wait_s)
        else:
            for _ in range(load.items - 1):
                push.send(item)
        signal.pause()  # closing would drop what is buffered


def consume(load: Load) -> Figures:
    """Pull the items."""
    counter = Counter(load)
    with pynng.Pull0(recv_buffer_size=WINDOW, recv_max_size=0) as pull:
        pull.dial(f"tcp://127.0.0.1:{load.port}", block=True)
        for _ in range(load.items):
            counter(pull.recv())
    return counter.figures()
