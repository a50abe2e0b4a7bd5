"""What strangers can do to a node: its memory, and how long an innocent client waits meanwhile.

python -m benchmarks.hostile [--json FILE]

Each attack goes to a node of its own, in a process of its own that is set up as `rstreams node` is. Its limits are
those that a `Node` has by default; what is raised for some attacks stands in `ATTACKS`. Meanwhile another client, in a
process of its own too, asks a served stream for an item 50 times a second. Memory is the most that the node had; waits
are the median and the 99th percentile. A wait begins when the client was to ask, also if it could not yet, because it
still waited for the last item: otherwise a long stall would count as one wait.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import sleep
from typing import Final

from benchmarks._hostile_client import HostileClient, attach, close, detach, grant, hang_up, opening, parts
from benchmarks._processes import cpu_s, peak_mib, wait_until
from benchmarks._report import Row, Trial, report, smaller_is_better

MAX_MIB: Final = 150
MAX_WAIT_MS: Final = 100
MORE_MIB: Final = {
    "connections_3000/all_let_in": 250,
    "half_messages_600/large_frames": 280,
    "half_messages_600/small_frames": 280,
}
"""What may take more: more connections than are let in by default; and connections that each keep a buffer."""

KIB_A_LINK: Final = {"links_10000": 12, "links_10000/with_items": 22, "attach_20000": 1}
"""What a link may take, of the memory that a node needs more than without links: this grows with Python's objects."""

MAX_UNSETTLED: Final = 10_000
CONNECTIONS: Final = 10
LINKS: Final = 1000
CLIENTS: Final = 3000
GUESTS: Final = 900
HALVES: Final = 600
HALF_BYTES: Final = 500_000
TIMES: Final = 2
CROWD: Final = 11_000
SENDERS: Final = 20
PARTS_BYTES: Final = 56 * 2**20
MANY: Final = 1_000_000

Attack = Callable[[int], int]
"""Attacks a node at a port; returns what there is to count."""


@dataclass(frozen=True)
class Seen:
    """What an attack came to.

    Attributes:
        idle_mib: The memory the node had before, in MiB.
        peak_mib: The most memory the node had, in MiB.
        waits_ms: How long the innocent client waited for each item, in milliseconds, the shortest first.
        told: What the attack itself has counted.
        cpu_s: The processor time of the node meanwhile.
    """

    idle_mib: float
    peak_mib: float
    waits_ms: Sequence[float]
    told: int
    cpu_s: float

    @property
    def kib_each(self) -> float:
        """How much more memory the node needed for each of what the attack has counted, in KiB."""
        return (self.peak_mib - self.idle_mib) * 1024 / self.told

    def wait_ms(self, part: float) -> float:
        """Return what so many of the waits were not longer than."""
        return self.waits_ms[min(int(len(self.waits_ms) * part), len(self.waits_ms) - 1)]


@contextmanager
def node(**options: int) -> Iterator[tuple[int, int]]:
    """Run a node in a process of its own, and let both open many sockets; yield its port and pid."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command = [sys.executable, "-m", "benchmarks._hostile_node", json.dumps(options)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.communicate()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def innocent(port: int) -> Iterator[list[float]]:
    """Run the innocent client in a process of its own; after the block the list has its waits, in seconds."""
    waits_s: list[float] = []
    command = [sys.executable, "-m", "benchmarks._hostile_innocent", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it is attached
        yield waits_s
        said, _ = process.communicate(timeout=60)
        waits_s.extend(json.loads(said))
    finally:
        process.kill()
        process.communicate()


def attacked(attack: Attack, **options: int) -> Seen:
    """Attack a node, and return what it came to."""
    with node(**options) as (port, pid):
        with innocent(port) as waits_s:
            idle_mib, before_s = peak_mib(pid), cpu_s(pid)
            told = attack(port)
        return Seen(idle_mib, peak_mib(pid), sorted(wait * 1000 for wait in waits_s), told, cpu_s(pid) - before_s)


def never_settles(address: str) -> Attack:
    """Grant all there is, and settle nothing."""

    def attack(port: int) -> int:
        with HostileClient(port) as client:
            client.send(opening(), attach(0, receives=address), grant(0))
            wait_until(lambda: client.transfers >= MAX_UNSETTLED, "all that the bound allows has come", 60)
            sleep(1)
            return client.transfers

    return attack


def presettled(*, reads: bool) -> Attack:
    """Grant all there is, for items that are sent settled, and read them for three seconds, or leave them there."""

    def attack(port: int) -> int:
        with HostileClient(port, reads=reads) as client:
            client.send(opening(), attach(0, receives="kilobytes", settled=True), grant(0))
            sleep(3)
            return client.transfers

    return attack


def unfinished(port: int) -> int:
    """Begin a large message on each of several links, and end none; return how many links the node has ended."""
    with HostileClient(port) as client:
        client.send(opening(), *[attach(handle, sends="work") for handle in range(SENDERS)])
        wait_until(lambda: client.replies >= SENDERS, "the links are attached", 60)
        for handle in range(SENDERS):
            for frame in parts(handle, handle, PARTS_BYTES):
                client.send(frame)
        sleep(1)
        return client.refusals


def half_messages(frame_bytes: int) -> Attack:
    """Open 600 connections, and send half a message on each; return how many connections there were."""

    def attack(port: int) -> int:
        clients = [HostileClient(port, reads=False) for _ in range(HALVES)]
        for client in clients:
            client.send(opening(), attach(0, sends="work"))
            client.hear()
        for client in clients:
            client.send(*parts(0, 0, HALF_BYTES, frame_bytes))
        sleep(5)
        hang_up(clients)
        sleep(2)
        return len(clients)

    return attack


def attach_again(port: int) -> int:
    """Attach and detach 1,000 links on each of 10 connections twice; return how many attaches there were."""
    clients = [HostileClient(port) for _ in range(CONNECTIONS)]
    frames = b"".join(attach(handle, receives="kilobytes") + detach(handle) for handle in range(LINKS))
    for client in clients:
        client.send(opening())
    for _ in range(TIMES):
        for client in clients:
            client.send(frames)
    most = len(clients) * LINKS * TIMES
    wait_until(lambda: sum(each.replies for each in clients) >= most, "all links were attached", 240)
    hang_up(clients)
    return most


def links(*, credit: bool) -> Attack:
    """Attach 10,000 links, and grant nothing on them, or all there is; return how many were attached."""

    def attack(port: int) -> int:
        clients = [HostileClient(port) for _ in range(CONNECTIONS)]
        for client in clients:
            client.send(opening(), *[attach(handle, receives="kilobytes") for handle in range(LINKS)])
        wait_until(lambda: sum(each.replies for each in clients) >= CONNECTIONS * LINKS, "all links are attached", 120)
        if credit:
            for client in clients:
                client.send(*[grant(handle) for handle in range(LINKS)])
            sleep(5)
        hang_up(clients)
        sleep(2)
        return CONNECTIONS * LINKS

    return attack


def connections(port: int) -> int:
    """Open 3,000 connections, each with a session, and hang up all at once; return how many have been answered."""
    clients: list[HostileClient] = []
    for _ in range(CLIENTS):
        clients.append(HostileClient(port, reads=False))
        clients[-1].send(opening())
        clients[-1].hear()
    sleep(1)
    hang_up(clients)
    sleep(2)
    return len(clients)


def leave(*, politely: bool) -> Attack:
    """Open 900 connections with a link each, and end all at once: by a `close` frame, or by hanging up."""

    def attack(port: int) -> int:
        clients = [HostileClient(port, reads=False) for _ in range(GUESTS)]
        for client in clients:
            client.send(opening(), attach(0, receives="kilobytes"))
            client.hear()
        for client in clients:
            if politely:
                client.send(close())
            else:
                client.shut()
        sleep(2)
        hang_up(clients)
        return len(clients)

    return attack


def arrive(port: int) -> int:
    """Connect 11,000 clients, without waiting for any of them; return how many there were."""
    clients = [HostileClient(port, reads=False, waits=False) for _ in range(CROWD)]
    sleep(1)
    for client in clients:
        client.send(opening())
    sleep(3)
    hang_up(clients)
    sleep(2)
    return len(clients)


def ends_with_many(port: int) -> int:
    """Take a million deliveries, settle none, and hang up; return how many there were."""
    with HostileClient(port) as client:
        client.send(opening(), attach(0, receives="small"), grant(0))
        wait_until(lambda: client.transfers >= MANY, "a million deliveries have come", 120)
    sleep(3)
    return client.transfers


RAISED: Final = {"max_unsettled": MANY, "max_unsettled_bytes": 2**40, "total_unsettled_bytes": 2**40}

ATTACKS: Final[dict[str, tuple[Attack, dict[str, int]]]] = {
    "never_settles/served": (never_settles("small"), {}),
    "never_settles/queue": (never_settles("stored"), {}),
    "presettled": (presettled(reads=True), {}),
    "presettled/never_reads": (presettled(reads=False), {}),
    "unfinished_messages": (unfinished, {}),
    "half_messages_600/large_frames": (half_messages(65_000), {}),
    "half_messages_600/small_frames": (half_messages(8000), {}),
    "attach_20000": (attach_again, {}),
    "links_10000": (links(credit=False), {}),
    "links_10000/with_items": (links(credit=True), {}),
    "connections_3000": (connections, {}),
    "connections_3000/all_let_in": (connections, {"max_connections": CLIENTS + 100}),
    "leave_900/close": (leave(politely=True), {}),
    "leave_900/hang_up": (leave(politely=False), {}),
    "arrive_11000": (arrive, {}),
    "ends_with_1000000": (ends_with_many, RAISED),
}


def measure() -> list[Row]:
    """Make every attack, and return what was seen beside the bounds."""
    return [row for name in ATTACKS for row in rows_of(name)]


def trials(_scale: float) -> list[Trial]:
    """Return the attacks, each by itself; they are always as long."""
    return [Trial(tuple(f"{name}/{what}" for what in bounds(name)), partial(rows_of, name)) for name in ATTACKS]


def bounds(name: str) -> dict[str, tuple[float, str]]:
    """Return what is measured of an attack: its bound and its unit."""
    memory: dict[str, tuple[float, str]] = {}
    if name in KIB_A_LINK:
        memory = {"memory_a_link": (KIB_A_LINK[name], "KiB")}
    elif ATTACKS[name][1] is not RAISED:
        memory = {"memory": (MORE_MIB.get(name, MAX_MIB), "MiB")}
    return {**memory, "wait_p50": (MAX_WAIT_MS, "ms"), "wait_p99": (MAX_WAIT_MS, "ms")}


def rows_of(name: str) -> list[Row]:
    """Make one attack, and return what was seen beside the bounds."""
    attack, options = ATTACKS[name]
    seen = attacked(attack, **options)
    figures = {
        "memory_a_link": seen.kib_each,
        "memory": seen.peak_mib,
        "wait_p50": seen.wait_ms(0.5),
        "wait_p99": seen.wait_ms(0.99),
    }
    rows = [
        smaller_is_better(f"{name}/{what}", ours=figures[what], peer=bound, peer_name="bound", n=seen.told, unit=unit)
        for what, (bound, unit) in bounds(name).items()
    ]
    return [replace(row, ours_cpu_us=seen.cpu_s / seen.told * 1e6) for row in rows]


if __name__ == "__main__":
    report("Strangers: memory of the node, and how long others wait", measure)
