"""Cases of the benchmarks that run two processes: which candidates take part in which case, and their measurement."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, Self, TypeAlias

from benchmarks import _servers
from benchmarks._processes import PERCENTILES, Figures, Load, free_port, run_pair
from benchmarks._report import Row, Trial, bigger_is_better, in_turns, options, smaller_is_better

MIN_ITEMS: Final = 64
"""The fewest items of a run."""

StartServer: TypeAlias = Callable[[], AbstractContextManager[_servers.Server]]


@dataclass(frozen=True)
class Kind:
    """One library in one way of using it.

    Attributes:
        module: The module with its functions, without `benchmarks._` in front: "network_pyzmq".
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

    @property
    def ours(self) -> bool:
        """Whether this is rstreams itself: its failure is a failure of the benchmark."""
        return self.module.endswith("_rstreams")

    def items(self, size: int, seconds: float) -> int:
        """Return how many items of `size` bytes take it about `seconds`."""
        return max(MIN_ITEMS, int(seconds / (1 / self.items_per_s + size / 2**20 / self.mib_per_s)))


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


class Measurement:
    """Runs groups, and knows which peers cannot take part."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._stack = ExitStack()
        self._running: dict[StartServer, _servers.Server] = {}
        self._absent: set[str] = set()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def prepare(self, groups: Sequence[Group]) -> None:
        """Start the servers that the groups need; say in a line of each peer that is not here why."""
        candidates = [one for group in groups for one in group.candidates.values()]
        wanted = {(one.kind.module, one.kind.server): None for one in candidates}
        for module, server in wanted:
            if module in self._absent:
                continue
            try:
                import_module(f"benchmarks._{module}")
                if server and server not in self._running:
                    self._running[server] = self._stack.enter_context(server())
            except ImportError as error:
                self._skip(module, f"the package {error.name} is not installed")
            except _servers.NotInstalledError as error:
                self._skip(module, str(error))

    def _skip(self, module: str, why: str) -> None:
        print(f"skipped: {module.partition('_')[2]}: {why}", flush=True)
        self._absent.add(module)

    def rows(self, group: Group) -> list[Row]:
        """Run a group; return its rows."""
        return rows_of(group, self.figures(group))

    def figures(self, group: Group) -> dict[str, Figures]:
        """Run the candidates of a group in turns; return the medians of those that could run."""
        candidates = {name: one for name, one in group.candidates.items() if one.kind.module not in self._absent}
        print(f"{group.name}: {len(candidates)} candidates, {self._runs} runs", file=sys.stderr, flush=True)
        failed: set[str] = set()
        runs = in_turns(
            self._runs, {name: partial(self._run, group.name, name, one, failed) for name, one in candidates.items()}
        )
        return {
            name: Figures.medians([run for run in measured if run is not None])
            for name, measured in runs.items()
            if name not in failed
        }

    def _run(self, group: str, name: str, one: Candidate, failed: set[str]) -> Figures | None:
        if name in failed:
            return None
        module = import_module(f"benchmarks._{one.kind.module}")
        server = self._running[one.kind.server] if one.kind.server else None
        load = replace(one.load, port=server.port if server else free_port())
        produce, consume = getattr(module, one.kind.produce), getattr(module, one.kind.consume)
        try:
            figures = run_pair(produce, consume, load, server.pids if server else ())
        except (RuntimeError, TimeoutError) as error:
            if one.kind.ours:
                raise
            print(f"skipped: {group}: {name}: {error}", flush=True)
        else:
            if load.rate == 0 or figures.items_per_s >= 0.9 * load.rate:
                return figures
            print(f"skipped: {group}: {name} keeps up with {figures.items_per_s:,.0f}/s only", flush=True)
        failed.add(name)
        return None


def _leave(*_: object) -> None:
    """End the program in order: `kill` must leave no server behind."""
    sys.exit(128 + signal.SIGTERM)


def rows_of(group: Group, figures: Mapping[str, Figures]) -> list[Row]:
    """Return the rows of a group: one for each pair whose candidates have both been measured."""
    return [
        row_of(case, figures[ours], figures[peer], name, group.candidates[ours].load)
        for case, ours, peer, name in group.pairs
        if ours in figures and peer in figures
    ]


def row_of(case: str, ours: Figures, peer: Figures, peer_name: str, load: Load) -> Row:
    """Return one row: latency if the load is paced, else items a second."""
    if load.rate:
        part = list(PERCENTILES).index(case.partition("/")[0].removeprefix("latency_"))
        row = smaller_is_better(
            case, ours=ours.latency_us[part], peer=peer.latency_us[part], peer_name=peer_name, n=load.items, unit="us"
        )
    else:
        items = load.items * load.subscribers
        row = bigger_is_better(case, ours=ours.items_per_s, peer=peer.items_per_s, peer_name=peer_name, n=items)
    return with_costs(row, ours, peer)


def with_costs(row: Row, ours: Figures, peer: Figures) -> Row:
    """Return the row with what an item cost both: processor time and memory."""
    return replace(
        row,
        ours_cpu_us=ours.cpu_us,
        peer_cpu_us=peer.cpu_us,
        ours_consumer_us=ours.consumer_us,
        peer_consumer_us=peer.consumer_us,
        ours_peak_mib=ours.peak_mib,
        peer_peak_mib=peer.peak_mib,
    )


def trials(groups: Iterable[Group]) -> list[Trial]:
    """Return our candidates of the groups, each by itself."""
    return [
        trial(group, [(case, ours) for case in dict.fromkeys(pair[0] for pair in group.pairs if pair[1] == ours)])
        for group in groups
        for ours in dict.fromkeys(pair[1] for pair in group.pairs)
    ]


def trial(group: Group, cases: Sequence[tuple[str, str]]) -> Trial:
    """Return a trial of some cases of a group, each with its candidate; the candidates run in the group's order."""
    wanted = {ours for _, ours in cases}
    candidates = {name: one for name, one in group.candidates.items() if name in wanted}
    part = Group(group.name, candidates, [(case, ours, ours, "itself") for case, ours in cases])
    return Trial(tuple(case for case, _ in cases), partial(_run_once, part))


def _run_once(group: Group) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="rstreams-bench-") as folder, Measurement(1) as run:
        if any(one.load.certificates for one in group.candidates.values()):
            files = certificates(Path(folder))
            if files is None:
                return []
            group.candidates = {
                name: replace(one, load=replace(one.load, certificates=files)) for name, one in group.candidates.items()
            }
        run.prepare([group])
        return run.rows(group)


TLS: Final = ("", "")
"""In place of the certificates of cases over TLS, for `trials`: those are made when they are needed."""


def certificates(folder: Path) -> tuple[str, str] | None:
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


def choosing(title: str, seconds: float, examples: str) -> argparse.ArgumentParser:
    """Return a parser of the options of every benchmark that runs cases.

    Args:
        title: What the benchmark measures.
        seconds: How long one run takes about, by default.
        examples: Patterns of its cases, for the help.
    """
    parser = options(title)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the figures to FILE (.png or .svg)")
    parser.add_argument("--only", default="*", metavar="PATTERN", help=f"some of the cases: {examples}")
    parser.add_argument(
        "--seconds", type=float, default=seconds, metavar="S", help="about how long a run takes (%(default)s)"
    )
    return parser


def chosen(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says; an option that cannot be ends the program with a line that names it."""
    given = parser.parse_args(arguments)
    if given.plot is not None and given.plot.suffix not in {".png", ".svg"}:
        parser.error(f"--plot {given.plot}: a name that ends with .png or .svg")
    if not given.seconds > 0:
        parser.error(f"--seconds {given.seconds:g}: more than 0")
    return given
