"""Throughput and latency between two processes over loopback, beside other libraries in the same run.

python -m benchmarks.network [--json FILE] [--plot FILE.png] [--quick] [--only PATTERN] [--seconds S]

`docs/guides/performance.md` says what is measured, how, and how to read it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Final, Self, TypeAlias, cast

from benchmarks import _servers
from benchmarks._processes import PERCENTILES, Figures, Load, Settlement, free_port, run_pair
from benchmarks._report import Row, bigger_is_better, in_turns, options, publish, smaller_is_better

RUNS: Final = 3
SECONDS: Final = 1.0
"""How long one run takes about; as many items as that needs."""

SIZES: Final = {"100B": 100, "1KB": 1024, "16KB": 16 * 1024, "1MB": 1024 * 1024}
SETTLEMENTS: Final[tuple[Settlement, ...]] = ("at_most_once", "at_least_once")
PACKS: Final = {"single": 1, "packed": 64}
FAN_OUTS: Final = (1, 8, 64)
RATES: Final = (1_000, 10_000)
LATENCY_SECONDS: Final = 4.0
MIN_ITEMS: Final = 64

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

StartServer: TypeAlias = Callable[[], AbstractContextManager[_servers.Server]]


@dataclass(frozen=True)
class Kind:
    """One library in one way of using it.

    Attributes:
        module: Where its functions are, `benchmarks._network_` in front.
        items_per_s: How many small items a second it moves about; with `mib_per_s` it says how many make a run.
        mib_per_s: How many MiB a second of large ones.
        produce: The function that produces.
        consume: The function that consumes.
        server: What starts the server it needs.
        settles: Whether it does another thing for each settlement.
    """

    module: str
    items_per_s: float
    mib_per_s: float
    produce: str = "produce"
    consume: str = "consume"
    server: StartServer | None = None
    settles: bool = False

    def items(self, size: int, seconds: float) -> int:
        """Return how many items of `size` bytes take it about `seconds`."""
        return max(MIN_ITEMS, int(seconds / (1 / self.items_per_s + size / 2**20 / self.mib_per_s)))


_OURS: Final = {"single": Kind("rstreams", 400_000, 1_000), "packed": Kind("rstreams", 900_000, 1_000)}
_BROADCAST: Final = {name: replace(kind, produce="broadcast") for name, kind in _OURS.items()}
_PEERS: Final = {
    "container": Kind("container", 4_000, 400, settles=True),
    "container_window_2048": Kind("container", 5_000, 400, consume="consume_with_window", settles=True),
    "pyzmq": Kind("pyzmq", 350_000, 1_500),
    "pynng": Kind("pynng", 30_000, 500),
    "nats": Kind("nats", 60_000, 200, server=_servers.nats),
    "rsocket": Kind("rsocket", 8_000, 100),
    "redis_streams": Kind("redis", 25_000, 100, server=_servers.redis, settles=True),
    "aio_pika": Kind("aio_pika", 3_000, 50, server=_servers.rabbitmq, settles=True),
}
_FAN_OUT_PEERS: Final = {
    "pyzmq_pub_sub": Kind("pyzmq", 250_000, 1_000, produce="publish", consume="subscribe"),
    "nats": _PEERS["nats"],
}


@dataclass(frozen=True)
class Candidate:
    """What is run, again and again, and measured."""

    kind: Kind
    load: Load


@dataclass
class Group:
    """Cases whose candidates take turns.

    Attributes:
        name: What is shown while it runs.
        candidates: By a name that is only theirs.
        pairs: The case, our candidate, the peer's candidate and the peer's name.
    """

    name: str
    candidates: dict[str, Candidate] = field(default_factory=dict)
    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)

    def chosen(self, wanted: Callable[[str], bool]) -> Group:
        """Return the part of it whose cases are wanted."""
        pairs = [pair for pair in self.pairs if wanted(pair[0])]
        used = {name for _, ours, peer, _ in pairs for name in (ours, peer)}
        return Group(self.name, {name: self.candidates[name] for name in self.candidates if name in used}, pairs)


def throughput(size: str, seconds: float, certificates: tuple[str, str] | None) -> Group:
    """Return the cases of one size: both settlements, single and packed, with and without TLS."""
    group, item_bytes = Group(size), SIZES[size]
    for settlement, (pack, pack_items) in product(SETTLEMENTS, PACKS.items()):
        case, kind = f"{size}/{settlement}/{pack}", _OURS[pack]
        load = Load(0, kind.items(item_bytes, seconds), item_bytes, settlement, pack_items)
        group.candidates[case] = Candidate(kind, load)
        for name, peer in _PEERS.items():
            key = f"{name}/{settlement}" if peer.settles else name
            peer_load = Load(0, peer.items(item_bytes, seconds), item_bytes, settlement)
            group.candidates.setdefault(key, Candidate(peer, peer_load))
            group.pairs.append((case, case, key, name))
        if certificates:
            tls = f"{case}/tls"
            group.candidates[tls] = Candidate(kind, replace(load, certificates=certificates))
            group.pairs += [(tls, tls, case, "rstreams_without_tls"), (tls, tls, "pyzmq", "pyzmq")]
    return group


def fan_out(size: str, seconds: float) -> Group:
    """Return the cases with several subscribers to one run of a stream."""
    group, item_bytes = Group("fan-out"), SIZES[size]
    for count in FAN_OUTS:
        for name, kind in _FAN_OUT_PEERS.items():
            items = max(MIN_ITEMS, kind.items(item_bytes, seconds) // count)
            group.candidates[f"{name}/{count}"] = Candidate(kind, Load(0, items, item_bytes, subscribers=count))
        for settlement in SETTLEMENTS:
            for pack, pack_items in PACKS.items():
                case, kind = f"{size}/{settlement}/{pack}/fanout_", _BROADCAST[pack]
                items = max(MIN_ITEMS, kind.items(item_bytes, seconds) // count)
                load = Load(0, items, item_bytes, settlement, pack_items, count)
                group.candidates[f"{case}{count}"] = Candidate(kind, load)
                peers = [(f"{name}/{count}", name) for name in _FAN_OUT_PEERS]
                if count > 1:
                    peers.append((f"{case}1", "rstreams_fanout_1"))
                group.pairs += [(f"{case}{count}", f"{case}{count}", *peer) for peer in peers]
    return group


def latency(rate: int, seconds: float) -> Group:
    """Return the cases of one rate: how late items of 1 KB are that are made at it, at least once, one a delivery."""
    group = Group(f"latency at {rate:,}/s")
    load = Load(0, max(MIN_ITEMS, int(rate * seconds)), SIZES["1KB"], rate=rate)
    for name, kind in {"rstreams": _OURS["single"], **_PEERS}.items():
        group.candidates[name] = Candidate(kind, load)
    group.pairs = [(f"latency_{part}/{rate}", "rstreams", name, name) for name in _PEERS for part in PERCENTILES]
    return group


class Measurement:
    """Runs groups, and knows which peers cannot take part."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._stack = ExitStack()
        self._running: dict[StartServer, _servers.Server] = {}
        self._absent: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def prepare(self, groups: Sequence[Group]) -> None:
        """Start the servers that the groups need; say in a line of each peer that is not here why."""
        wanted = {one.kind.module: one.kind for group in groups for one in group.candidates.values()}
        for module, kind in wanted.items():
            try:
                import_module(f"benchmarks._network_{module}")
                if kind.server:
                    self._running[kind.server] = self._stack.enter_context(kind.server())
            except ImportError as error:
                self._skip(module, f"the package {error.name} is not installed")
            except _servers.NotInstalledError as error:
                self._skip(module, str(error))

    def _skip(self, module: str, why: str) -> None:
        print(f"skipped: {module}: {why}", flush=True)
        self._absent.add(module)

    def rows(self, group: Group) -> list[Row]:
        """Run a group; return its rows."""
        candidates = {name: one for name, one in group.candidates.items() if one.kind.module not in self._absent}
        print(f"{group.name}: {len(candidates)} candidates, {self._runs} runs", file=sys.stderr, flush=True)
        failed: set[str] = set()
        runs = in_turns(
            self._runs, {name: partial(self._run, group.name, name, one, failed) for name, one in candidates.items()}
        )
        figures = {
            name: Figures.medians([run for run in measured if run is not None])
            for name, measured in runs.items()
            if name not in failed
        }
        return [
            row
            for case, ours, peer, name in group.pairs
            if ours in figures and peer in figures
            for row in [_row(case, figures[ours], figures[peer], name, candidates[ours].load)]
        ]

    def _run(self, group: str, name: str, one: Candidate, failed: set[str]) -> Figures | None:
        if name in failed:
            return None
        module = import_module(f"benchmarks._network_{one.kind.module}")
        server = self._running[one.kind.server] if one.kind.server else None
        load = replace(one.load, port=server.port if server else free_port())
        produce, consume = getattr(module, one.kind.produce), getattr(module, one.kind.consume)
        try:
            figures = run_pair(produce, consume, load, server.pids if server else ())
        except (RuntimeError, TimeoutError) as error:
            if one.kind.module == "rstreams":
                raise
            print(f"skipped: {group}: {name}: {error}", flush=True)
        else:
            if load.rate == 0 or figures.items_per_s >= 0.9 * load.rate:
                return figures
            print(f"skipped: {group}: {name} keeps up with {figures.items_per_s:,.0f}/s only", flush=True)
        failed.add(name)
        return None


def _row(case: str, ours: Figures, peer: Figures, peer_name: str, load: Load) -> Row:
    if load.rate:
        part = list(PERCENTILES).index(case.partition("/")[0].removeprefix("latency_"))
        row = smaller_is_better(
            case, ours=ours.latency_us[part], peer=peer.latency_us[part], peer_name=peer_name, n=load.items, unit="us"
        )
    else:
        items = load.items * load.subscribers
        row = bigger_is_better(case, ours=ours.items_per_s, peer=peer.items_per_s, peer_name=peer_name, n=items)
    return replace(
        row,
        ours_cpu_us=ours.cpu_us,
        peer_cpu_us=peer.cpu_us,
        ours_consumer_us=ours.consumer_us,
        peer_consumer_us=peer.consumer_us,
        ours_peak_mib=ours.peak_mib,
        peer_peak_mib=peer.peak_mib,
    )


def measure(*, quick: bool = False, only: str = "*", seconds: float = SECONDS) -> list[Row]:
    """Return all rows.

    Args:
        quick: Whether to run a chosen part of the cases, each once and for a short time.
        only: The cases to run: a pattern such as "1KB/*" or "latency_*".
        seconds: How long one run takes about.
    """
    if quick:
        seconds /= 5
    paced_s = LATENCY_SECONDS * seconds / SECONDS

    def wanted(case: str) -> bool:
        return fnmatchcase(case, only) and (not quick or any(fnmatchcase(case, pattern) for pattern in QUICK))

    with tempfile.TemporaryDirectory(prefix="rstreams-bench-") as folder, Measurement(1 if quick else RUNS) as run:
        certificates = _certificates(Path(folder))
        everything = [
            *(throughput(size, seconds, certificates) for size in SIZES),
            fan_out("1KB", seconds),
            *(latency(rate, paced_s) for rate in RATES),
        ]
        groups = [group for group in (group.chosen(wanted) for group in everything) if group.pairs]
        run.prepare(groups)
        return [row for group in groups for row in run.rows(group)]


def _certificates(folder: Path) -> tuple[str, str] | None:
    """Write a certificate for this machine with its key, and its authority's; return the files' names."""
    try:
        import trustme  # noqa: PLC0415 - what is not installed is skipped
    except ImportError:
        print("skipped: TLS: the package trustme is not installed", flush=True)
        return None
    authority = trustme.CA()
    node, trusted = folder / "node.pem", folder / "authority.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(node))
    authority.cert_pem.write_to_path(str(trusted))
    return str(node), str(trusted)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write what is asked for."""
    title = "Two processes over loopback, medians of runs that take turns"
    parser = options(title)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="also draw throughput and latency to FILE (.png or .svg)"
    )
    parser.add_argument("--quick", action="store_true", help="a part of the cases, once: less than a minute")
    parser.add_argument("--only", default="*", metavar="PATTERN", help='some of the cases: "1KB/*", "latency_*"')
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="about how long a run takes (%(default)s)"
    )
    given = parser.parse_args(arguments)
    if given.plot is not None and given.plot.suffix not in {".png", ".svg"}:
        parser.error(f"--plot {given.plot}: a name that ends with .png or .svg")
    if not given.seconds > 0:
        parser.error(f"--seconds {given.seconds:g}: more than 0")
    rows = measure(quick=given.quick, only=given.only, seconds=given.seconds)
    if not rows:
        parser.error(f"--only {given.only}: no case that can be run here")
    publish(title, rows, given.json)
    if given.plot is not None:
        from benchmarks._plot import plot  # noqa: PLC0415 - only who wants a picture needs matplotlib

        plot(rows, cast("Path", given.plot))


if __name__ == "__main__":
    main()
