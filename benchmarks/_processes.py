"""Two processes over loopback: one listens and produces, the other connects, consumes and measures."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from subprocess import Popen
from time import monotonic, perf_counter, perf_counter_ns, sleep
from typing import Any, Final, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Settlement: TypeAlias = Literal["at_most_once", "at_least_once"]

Shape: TypeAlias = Literal["bytes", "str", "dict", "full"]
"""The form of an item: `benchmarks._payloads` has the values."""

TIMEOUT_S: Final = 120.0
WINDOW: Final = 2048
"""The items that may be on their way, for all who can be told: what two pyzmq sockets hold by default (1,000 each)."""

_processes = multiprocessing.get_context("spawn")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What one run moves.

    Attributes:
        port: Where the producer, or the server between the two, listens on 127.0.0.1.
        items: How many items; to each of several subscribers.
        item_bytes: The size of each.
        settlement: Whether each item is acknowledged.
        pack_items: How many items a delivery may carry.
        subscribers: How many subscriptions the consumer has.
        rate: Items a second, for a measurement of latency; 0: as fast as it goes.
        certificates: Files with the producer's certificate and key, and with the authority's certificate, for TLS.
        shape: What an item is: bytes of that size, or one of the values of about 1 KB.
        address: The name that the items have at a server with several kinds of queues.
    """

    port: int
    items: int
    item_bytes: int
    settlement: Settlement = "at_least_once"
    pack_items: int = 1
    subscribers: int = 1
    rate: int = 0
    certificates: tuple[str, str] | None = None
    shape: Shape = "bytes"
    address: str = "items"

    @property
    def item(self) -> bytes:
        """One item."""
        return b"x" * self.item_bytes

    def stamped(self) -> bytes:
        """Return one item that says when it was made."""
        return perf_counter_ns().to_bytes(8, "big") + b"x" * (self.item_bytes - 8)


class Counter:
    """Counts what a consumer receives: when the first and the last item came, what they cost, and how late each was.

    Args:
        load: How many items come.
        expected: The item that must come first, where the consumer decodes; None: any bytes.
    """

    def __init__(self, load: Load, expected: object = None) -> None:
        self._all = load.items * load.subscribers
        self._expected = expected
        self._paced = load.rate > 0
        self._warm_after = int(self._all * WARM_UP)
        self._received, self._next = 0, 1
        self._first_ns = self._last_ns = 0
        self._cpu_before = 0.0
        self._delays_ns: list[int] = []
        self.finished: Callable[[], None] = lambda: None

    def __call__(self, item: Any) -> None:  # noqa: ANN401 - what the consumer makes of the bytes
        """Count one item."""
        received = self._received = self._received + 1
        if received == self._next:
            self._mark(item)
        if self._paced and received > self._warm_after:
            self._delays_ns.append(perf_counter_ns() - int.from_bytes(item[:8], "big"))

    def _mark(self, item: object) -> None:
        """Note the first item, and then the last one."""
        if self._received == 1:
            if self._expected is not None and item != self._expected:
                msg = f"{item!r:.200} came where {self._expected!r:.200} was sent"
                raise AssertionError(msg)
            self._first_ns = perf_counter_ns()
            self._cpu_before = cpu_s()
            self._next = self._all
        if self._received == self._all:
            self._last_ns = perf_counter_ns()
            self.finished()

    def figures(self) -> Figures:
        """Return what was measured, on the consumer's side."""
        if self._received < self._all:
            msg = f"{self._received} items came of {self._all}"
            raise AssertionError(msg)
        delays = sorted(self._delays_ns)
        cpu_us = (cpu_s() - self._cpu_before) / self._all * 1e6
        return Figures(
            items_per_s=(self._all - 1) / ((self._last_ns - self._first_ns) / 1e9),
            cpu_us=cpu_us,
            consumer_us=cpu_us,
            peak_mib=peak_mib(os.getpid()),
            latency_us=tuple(delays[int(len(delays) * part)] / 1000 for part in PERCENTILES.values()) if delays else (),
        )


class Timer:
    """Times a publisher from when it is made: to be made before the first item, and asked after the last outcome."""

    def __init__(self, load: Load) -> None:
        self._items = load.items
        self._began_ns, self._cpu_before = perf_counter_ns(), cpu_s()

    def figures(self) -> Figures:
        """Return what was measured, on the publisher's side."""
        elapsed_s = (perf_counter_ns() - self._began_ns) / 1e9
        cpu_us = (cpu_s() - self._cpu_before) / self._items * 1e6
        return Figures(self._items / elapsed_s, cpu_us, cpu_us, peak_mib(os.getpid()))


PERCENTILES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
WARM_UP: Final = 0.1
"""The part of the items, the first ones, whose latency is not looked at."""

TICK_S: Final = 0.001
"""How often a paced producer makes items: event loops sleep no shorter."""


@dataclass(frozen=True)
class Figures:
    """What one run came to.

    Attributes:
        items_per_s: Items received a second, of all subscribers.
        cpu_us: Processor time an item, in microseconds, of producer, consumer and server together.
        consumer_us: The part of the process that measures: the consumer, or the publisher where publishing is measured.
        peak_mib: The most memory that one of the processes had.
        latency_us: Microseconds from making an item to receiving it: the percentiles of `PERCENTILES`.
        grown_mib: How far the producer's memory grew at most from when it was ready.
    """

    items_per_s: float
    cpu_us: float
    consumer_us: float
    peak_mib: float
    latency_us: tuple[float, ...] = ()
    grown_mib: float = 0.0

    @classmethod
    def medians(cls, runs: Sequence[Figures]) -> Figures:
        """Return the median of each figure."""
        return cls(
            median(run.items_per_s for run in runs),
            median(run.cpu_us for run in runs),
            median(run.consumer_us for run in runs),
            median(run.peak_mib for run in runs),
            tuple(map(median, zip(*(run.latency_us for run in runs), strict=True))),
            median(run.grown_mib for run in runs),
        )


def paced(load: Load, made: int = 0) -> Iterator[tuple[int, float]]:
    """Yield for a paced producer how many items to make now, and how many seconds to sleep then.

    Args:
        load: Says how many items, and how many a second.
        made: How many have been made already.
    """
    started = perf_counter() - made / load.rate
    while made < load.items:
        due = min(load.items, int((perf_counter() - started) * load.rate) + 1) - made
        made += due
        yield due, TICK_S


Produce: TypeAlias = Callable[[Load, Callable[[], None]], None]
"""Produces when it is asked to, and calls the function once it can be connected to."""

Consume: TypeAlias = Callable[[Load], Figures]


def run_pair(produce: Produce, consume: Consume, load: Load, servers: Sequence[int] = ()) -> Figures:
    """Run a producer and a consumer, each in a process of its own; return what both came to.

    Args:
        produce: The producer.
        consume: The consumer.
        load: What they move.
        servers: The pids of what stands between them.
    """
    ready, told_ready = _processes.Pipe(duplex=False)
    result, told_result = _processes.Pipe(duplex=False)
    producer = _processes.Process(target=_produce, args=(produce, load, told_ready))
    consumer = _processes.Process(target=_consume, args=(consume, load, told_result))
    try:
        producer.start()
        told_ready.close()  # so that its end shows if it ends early
        receive(ready, "the producer")
        assert producer.pid is not None
        others = (producer.pid, *servers)
        for server in servers:
            _forget_peak(server)
        before, size_before = sum(map(cpu_s, others)), peak_mib(producer.pid)
        consumer.start()
        told_result.close()
        figures: Figures = receive(result, "the consumer")
        cpu_us = (sum(map(cpu_s, others)) - before) / (load.items * load.subscribers) * 1e6
        return replace(
            figures,
            cpu_us=figures.cpu_us + cpu_us,
            peak_mib=max(figures.peak_mib, *map(peak_mib, others)),
            grown_mib=peak_mib(producer.pid) - size_before,
        )
    finally:
        for process in (producer, consumer):
            if process.pid is not None:
                process.kill()
                process.join()


def idle(load: Load, ready: Callable[[], None]) -> None:  # noqa: ARG001 - a producer's parameters
    """Be the producer of a case that has none."""
    ready()
    signal.pause()


def cpu_s(pid: int | None = None) -> float:
    """Return the processor time of a process so far, in seconds; by default of this one."""
    if pid is None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime
    return _cpu_times_s(pid)[0]


def family_cpu_s(pid: int) -> float:
    """Return the processor time of a process and of all processes below it, also of those that have ended."""
    total = 0.0
    for each in [pid, *descendants(pid)]:
        with suppress(OSError):
            total += sum(_cpu_times_s(each))
    return total


def _cpu_times_s(pid: int) -> tuple[float, float]:
    """Return the processor time of a process, and that of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    user, system, of_children, of_children_system = map(int, fields[11:15])
    return (user + system) / _TICKS_PER_S, (of_children + of_children_system) / _TICKS_PER_S


def peak_mib(pid: int) -> float:
    """Return the most memory a process has had, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _forget_peak(pid: int) -> None:
    with suppress(OSError):  # not ours to change
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def receive(pipe: Connection, who: str) -> Any:  # noqa: ANN401 - what it sends
    """Return the next thing a process tells, or give up after `TIMEOUT_S`."""
    if not pipe.poll(TIMEOUT_S):
        msg = f"{who} did not answer within {TIMEOUT_S:g} s"
        raise TimeoutError(msg)
    try:
        return pipe.recv()
    except EOFError:
        msg = f"{who} failed"
        raise RuntimeError(msg) from None


def _produce(produce: Produce, load: Load, ready: Connection) -> None:
    produce(load, lambda: ready.send(None))


def _consume(consume: Consume, load: Load, result: Connection) -> None:
    result.send(consume(load))


def wait_until(condition: Callable[[], T], what: str, within_s: float) -> T:
    """Return what `condition` returns once that is true: for what another process does and tells nobody.

    Errors: `TimeoutError` that names `what` if it is not so within `within_s` seconds.
    """
    deadline = monotonic() + within_s
    while not (result := condition()):
        if monotonic() > deadline:
            msg = f"after {within_s:g} s still not: {what}"
            raise TimeoutError(msg)
        sleep(0.05)
    return result


def wait_until_listening(server: Popen[bytes], port: int, output: Path, within_s: float = 60.0) -> None:
    """Return once `server` listens on a port of 127.0.0.1.

    Errors: `RuntimeError` with the end of what it wrote to `output` if it ends before, or does not within `within_s`
        seconds.
    """

    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
            return bool(probe.getsockname() != probe.getpeername())  # a socket can be connected to itself
        return False

    try:
        wait_until(lambda: server.poll() is not None or listens(), f"port {port} accepts", within_s)
        failed = "" if server.poll() is None else f"it ended with status {server.returncode}"
    except TimeoutError as error:
        failed = str(error)
    if failed:
        said = output.read_text(encoding="utf-8", errors="replace").strip()
        msg = f"{server.args!r} does not start: {failed}; it said: {said[-2000:]}"
        raise RuntimeError(msg)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """Return the process ids of all children of a process, and of theirs."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        child = int(process.name)
        children.setdefault(parent_of(child), []).append(child)
    found, look = [], [pid]
    while look:
        more = children.get(look.pop(), [])
        found += more
        look += more
    return found


def parent_of(pid: int) -> int:
    """Return the process id of the parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
