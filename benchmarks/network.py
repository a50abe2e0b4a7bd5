"""Throughput and latency between two processes over loopback, beside other libraries in the same run.

python -m benchmarks.network [--json FILE] [--plot FILE.png] [--quick] [--only PATTERN] [--seconds S]

`docs/guides/benchmark-methods.md` says what is measured, how, and how to read it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks import _servers
from benchmarks._cases import (
    MIN_ITEMS,
    TLS,
    Candidate,
    Group,
    Kind,
    Measurement,
    certificates,
    choosing,
    chosen,
)
from benchmarks._cases import trials as trials_of
from benchmarks._processes import PERCENTILES, Load, Settlement
from benchmarks._report import Row, Trial, publish

RUNS: Final = 3
SECONDS: Final = 1.0
"""How long one run takes about; as many items as that needs."""

SIZES: Final = {"100B": 100, "1KB": 1024, "16KB": 16 * 1024, "1MB": 1024 * 1024}
SETTLEMENTS: Final[tuple[Settlement, ...]] = ("at_most_once", "at_least_once")
PACKS: Final = {"single": 1, "packed": 64}
FAN_OUTS: Final = (1, 8, 64)
RATES: Final = (1_000, 10_000)
LATENCY_SECONDS: Final = 4.0

QUICK: Final = (
    "1KB/at_least_once/single",
    "1KB/at_least_once/packed",
    "1KB/at_least_once/single/tls",
    "100B/at_least_once/packed/tls",
    "1MB/at_most_once/single/tls",
    "1KB/at_least_once/single/fanout_8",
    "latency_*",
)
"""The cases of a quick run, as patterns."""

OURS: Final = {"single": Kind("network_rstreams", 400_000, 1_000), "packed": Kind("network_rstreams", 900_000, 1_000)}
BROADCAST: Final = {name: replace(kind, produce="broadcast") for name, kind in OURS.items()}
PEERS: Final = {
    "container": Kind("network_container", 4_000, 400, settles=True),
    "container_window_2048": Kind("network_container", 5_000, 400, consume="consume_with_window", settles=True),
    "pyzmq": Kind("network_pyzmq", 350_000, 1_500),
    "pynng": Kind("network_pynng", 30_000, 500),
    "nats": Kind("network_nats", 60_000, 200, server=_servers.nats),
    "rsocket": Kind("network_rsocket", 8_000, 100),
    "redis_streams": Kind("network_redis", 25_000, 100, server=_servers.redis, settles=True),
    "aio_pika": Kind("network_aio_pika", 3_000, 50, server=_servers.rabbitmq, settles=True),
}
LATENCY_PEERS: Final = {**PEERS, "trio_sockets": Kind("network_trio", 100_000, 1_000)}
FAN_OUT_PEERS: Final = {
    "pyzmq_pub_sub": Kind("network_pyzmq", 250_000, 1_000, produce="publish", consume="subscribe"),
    "nats": PEERS["nats"],
}


def throughput(size: str, seconds: float, tls_files: tuple[str, str] | None) -> Group:
    """Return the cases of one size: both settlements, single and packed, with and without TLS."""
    group, item_bytes = Group(size), SIZES[size]
    for settlement, (pack, pack_items) in product(SETTLEMENTS, PACKS.items()):
        case, kind = f"{size}/{settlement}/{pack}", OURS[pack]
        load = Load(0, kind.items(item_bytes, seconds), item_bytes, settlement, pack_items)
        group.candidates[case] = Candidate(kind, load)
        for name, peer in PEERS.items():
            key = f"{name}/{settlement}" if peer.settles else name
            peer_load = Load(0, peer.items(item_bytes, seconds), item_bytes, settlement)
            group.candidates.setdefault(key, Candidate(peer, peer_load))
            group.pairs.append((case, case, key, name))
        if tls_files:
            tls = f"{case}/tls"
            group.candidates[tls] = Candidate(kind, replace(load, certificates=tls_files))
            group.pairs += [(tls, tls, case, "rstreams_without_tls"), (tls, tls, "pyzmq", "pyzmq")]
    return group


def fan_out(size: str, seconds: float) -> Group:
    """Return the cases with several subscribers to one run of a stream."""
    group, item_bytes = Group("fan-out"), SIZES[size]
    for count in FAN_OUTS:
        for name, kind in FAN_OUT_PEERS.items():
            items = max(MIN_ITEMS, kind.items(item_bytes, seconds) // count)
            group.candidates[f"{name}/{count}"] = Candidate(kind, Load(0, items, item_bytes, subscribers=count))
        for settlement in SETTLEMENTS:
            for pack, pack_items in PACKS.items():
                case, kind = f"{size}/{settlement}/{pack}/fanout_", BROADCAST[pack]
                items = max(MIN_ITEMS, kind.items(item_bytes, seconds) // count)
                load = Load(0, items, item_bytes, settlement, pack_items, count)
                group.candidates[f"{case}{count}"] = Candidate(kind, load)
                peers = [(f"{name}/{count}", name) for name in FAN_OUT_PEERS]
                if count > 1:
                    peers.append((f"{case}1", "rstreams_fanout_1"))
                group.pairs += [(f"{case}{count}", f"{case}{count}", *peer) for peer in peers]
    return group


def latency(rate: int, seconds: float) -> Group:
    """Return the cases of one rate: how late items of 1 KB are that are made at it, at least once, one a delivery."""
    group = Group(f"latency at {rate:,}/s")
    load = Load(0, max(MIN_ITEMS, int(rate * seconds)), SIZES["1KB"], rate=rate)
    for name, kind in {"rstreams": OURS["single"], **LATENCY_PEERS}.items():
        group.candidates[name] = Candidate(kind, load)
    group.pairs = [(f"latency_{part}/{rate}", "rstreams", name, name) for name in LATENCY_PEERS for part in PERCENTILES]
    return group


def groups(seconds: float, tls_files: tuple[str, str] | None) -> list[Group]:
    """Return all groups."""
    return [
        *(throughput(size, seconds, tls_files) for size in SIZES),
        fan_out("1KB", seconds),
        *(latency(rate, LATENCY_SECONDS * seconds / SECONDS) for rate in RATES),
    ]


def trials(scale: float) -> list[Trial]:
    """Return our cases without peers, each so many times as long as usual."""
    return trials_of(groups(scale * SECONDS, TLS))


def measure(*, quick: bool = False, only: str = "*", seconds: float = SECONDS) -> list[Row]:
    """Return all rows.

    Args:
        quick: Whether to run a chosen part of the cases, each once and for a short time.
        only: The cases to run: a pattern such as "1KB/*" or "latency_*".
        seconds: How long one run takes about.
    """
    if quick:
        seconds /= 5

    def wanted(case: str) -> bool:
        return fnmatchcase(case, only) and (not quick or any(fnmatchcase(case, pattern) for pattern in QUICK))

    with tempfile.TemporaryDirectory(prefix="rstreams-bench-") as folder, Measurement(1 if quick else RUNS) as run:
        everything = groups(seconds, certificates(Path(folder)))
        parts = [group for group in (group.chosen(wanted) for group in everything) if group.pairs]
        run.prepare(parts)
        return [row for group in parts for row in run.rows(group)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write what is asked for."""
    title = "Two processes over loopback, medians of runs that take turns"
    parser = choosing(title, SECONDS, '"1KB/*", "latency_*"')
    parser.add_argument("--quick", action="store_true", help="a part of the cases, once: less than a minute")
    given = chosen(parser, arguments)
    rows = measure(quick=given.quick, only=given.only, seconds=given.seconds)
    if not rows:
        parser.error(f"--only {given.only}: no case that can be run here")
    publish(title, rows, given.json)
    if given.plot is not None:
        from benchmarks._plot import plot  # noqa: PLC0415 - only who wants a picture needs matplotlib

        plot(rows, given.plot)


if __name__ == "__main__":
    main()
