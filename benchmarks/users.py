"""The ways in which people send and receive messages, beside the shortest way and beside other libraries.

python -m benchmarks.users [--json FILE] [--plot FILE.svg] [--only PATTERN] [--seconds S] [--runs N] [--page FILE]

`docs/guides/benchmark-methods.md` says what is measured, how, and how to read it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks import _page, _users_tables, network
from benchmarks._cases import (
    TLS,
    Candidate,
    Group,
    Kind,
    Measurement,
    certificates,
    choosing,
    chosen,
    rows_of,
    with_costs,
)
from benchmarks._cases import trials as trials_of
from benchmarks._payloads import KIB, MIB
from benchmarks._processes import Figures, Load, Shape
from benchmarks._report import Row, Trial, publish, smaller_is_better
from benchmarks._users_tables import SHAPES, SHORTEST

RUNS: Final = 3
SECONDS: Final = 0.3
"""How long one run takes about; as many items as that needs."""

SOME: Final[tuple[Shape, ...]] = ("bytes", "dict", "full")
"""Where text would show nothing that the other shapes do not."""
FAN_OUT: Final = 8
STREAMS: Final = 1_000
WINDOW: Final = 256
"""The window of a subscription by default."""
REQUESTING: Final = (1, 64)
"""How many tasks send requests at the same time."""


@dataclass(frozen=True)
class Way:
    """One way of using rstreams.

    Attributes:
        served: How many items a second it moves about from a served stream.
        queue: How many from a queue, or to one.
        shapes: The shapes that it is measured with.
    """

    served: float
    queue: float
    shapes: tuple[Shape, ...] = SHAPES


CONSUMING: Final = {
    "for_each": Way(250_000, 120_000),
    "async_for": Way(200_000, 120_000),
    "messages": Way(150_000, 90_000, ("bytes", "dict")),  # full messages come as such in every way
    "manual": Way(80_000, 60_000, SOME),
    "consume": Way(120_000, 80_000),
    "consume_async": Way(120_000, 80_000, SOME),
    "map_async": Way(45_000, 35_000),
    "blocking_for": Way(120_000, 80_000),
}
PUBLISHING: Final = {"publish": Way(0, 150_000), "submit": Way(0, 80_000, SOME), "send": Way(0, 40_000, SOME)}
_PRODUCING: Final = {"served": "serve", "queue": "feed"}

_LARGE_SHAPES: Final[tuple[Shape, ...]] = ("bytes", "full")
_SHORTEST_LARGE: Final = "shortest_1MB"

_BESIDE: Final = {
    "served": {name: network.PEERS[name] for name in ("pyzmq", "nats", "rsocket")},
    "queue": {name: network.PEERS[name] for name in ("pyzmq", "nats", "redis_streams", "aio_pika")},
}
"""What people would use instead: beside the `async for` over a served stream, and over a queue."""

_BESIDE_PUBLISH: Final = {
    name: replace(kind, produce="idle", consume="publish", settles=False)
    for name, kind in _BESIDE["queue"].items()
    if kind.server
}
_BESIDE_REQUEST: Final = {
    "nats": Kind("network_nats", 3_000, 200, "respond", "request", network.PEERS["nats"].server),
    "rsocket": Kind("network_rsocket", 2_000, 100, "produce", "request"),
}


def _ours(items_per_s: float, produce: str, consume: str) -> Kind:
    return Kind("users_rstreams", items_per_s, 1_000, produce, consume)


def _load(kind: Kind, seconds: float, shape: Shape = "bytes") -> Load:
    return Load(0, kind.items(KIB, seconds), KIB, shape=shape)


def _begin(name: str, seconds: float) -> Group:
    """Return a group in which the shortest way takes its turns."""
    kind = network.OURS["single"]
    return Group(name, {SHORTEST: Candidate(kind, _load(kind, seconds))})


def _add(group: Group, case: str, candidate: Candidate) -> None:
    group.candidates[case] = candidate
    group.pairs.append((case, case, SHORTEST, SHORTEST))


def _add_peers(group: Group, case: str, peers: Mapping[str, Candidate]) -> None:
    for name, peer in peers.items():
        key = f"{name}/{case}"
        group.candidates[key] = peer
        group.pairs.append((case, case, key, name))


def consuming(shape: Shape, source: str, seconds: float) -> Group:
    """Return the cases that consume items of one shape from one source: "served" or "queue"."""
    group = _begin(f"{shape}/{source}", seconds)
    for name, way in CONSUMING.items():
        if shape in way.shapes:
            kind = _ours(way.served if source == "served" else way.queue, _PRODUCING[source], name)
            _add(group, f"{shape}/{source}/{name}", Candidate(kind, _load(kind, seconds, shape)))
    peers = {name: Candidate(kind, _load(kind, seconds, shape)) for name, kind in _BESIDE[source].items()}
    _add_peers(group, f"{shape}/{source}/async_for", peers)
    return group


COMMANDS: Final = {
    "send": ("drain", 60_000),
    "send_json": ("drain", 40_000),
    "recv": ("feed", 100_000),
    "recv_json": ("feed", 40_000),
}
"""The commands: what the node does meanwhile, and how many messages a second they move about."""


def commands(seconds: float) -> Group:
    """Return the cases of the commands `rstreams send` and `rstreams recv`."""
    group = _begin("commands", seconds)
    for name, (produce, items_per_s) in COMMANDS.items():
        kind = Kind("users_cli", items_per_s, 1_000, produce, name)
        _add(group, f"cli/{name}", Candidate(kind, _load(kind, seconds)))
    return group


def large(seconds: float) -> Group:
    """Return the cases with bodies of 1 MB, beside the shortest way with such bodies."""
    group = Group("large items")
    beside = {_SHORTEST_LARGE: network.OURS["single"], "pyzmq": network.PEERS["pyzmq"]}
    for shape, (source, produce) in product(_LARGE_SHAPES, _PRODUCING.items()):
        kind, case = _ours(100_000, produce, "async_for"), f"large/{shape}/{source}/async_for"
        group.candidates[case] = Candidate(kind, Load(0, kind.items(MIB, seconds), MIB, shape=shape))
        for name, peer in beside.items():
            peer_shape: Shape = "bytes" if name == _SHORTEST_LARGE else shape
            key = f"{name}/{peer_shape}"
            group.candidates[key] = Candidate(peer, Load(0, peer.items(MIB, seconds), MIB, shape=peer_shape))
            group.pairs.append((case, case, key, name))
    return group


def publishing(shape: Shape, seconds: float) -> Group:
    """Return the cases that publish items of one shape to a queue."""
    group = _begin(f"{shape}/queue/publish", seconds)
    for name, way in PUBLISHING.items():
        if shape in way.shapes:
            kind = _ours(way.queue, "drain", name)
            _add(group, f"{shape}/queue/{name}", Candidate(kind, _load(kind, seconds, shape)))
    peers = {name: Candidate(kind, _load(kind, seconds, shape)) for name, kind in _BESIDE_PUBLISH.items()}
    _add_peers(group, f"{shape}/queue/publish", peers)
    return group


def requests(seconds: float) -> Group:
    """Return the cases of requests and replies, from one task and from many."""
    group = _begin("requests", seconds)
    for tasks in REQUESTING:
        ours = _ours(800 if tasks == 1 else 3_000, "respond", "request")
        case = f"request/{tasks}"
        loads = {
            name: Candidate(kind, replace(_load(kind, seconds), items=_each(kind, seconds, tasks), subscribers=tasks))
            for name, kind in {"": ours, **_BESIDE_REQUEST}.items()
        }
        _add(group, case, loads.pop(""))
        _add_peers(group, case, loads)
    return group


def _each(kind: Kind, seconds: float, among: int) -> int:
    return max(1, kind.items(KIB, seconds) // among)


def fan_out(seconds: float) -> Group:
    """Return the cases with several subscribers: of a multicast, and of one run of a stream."""
    group = _begin("fan-out", seconds)
    kinds = {
        "multicast": _ours(300_000, "multicast", "for_each"),
        "broadcast": network.BROADCAST["single"],
        **network.FAN_OUT_PEERS,
    }
    made = {
        name: Candidate(kind, Load(0, _each(kind, seconds, FAN_OUT), KIB, subscribers=FAN_OUT))
        for name, kind in kinds.items()
    }
    peers = {name: made[name] for name in network.FAN_OUT_PEERS}
    for name in ("multicast", "broadcast"):
        case = f"{name}/fanout_{FAN_OUT}"
        _add(group, case, made[name])
        _add_peers(group, case, peers)
    return group


def tls(seconds: float, tls_files: tuple[str, str] | None) -> Group:
    """Return the shortest way and its packed form over TLS."""
    group = _begin("TLS", seconds)
    if tls_files:
        for form, pack_items in network.PACKS.items():
            kind = network.OURS[form]
            plain_load = replace(_load(kind, seconds), pack_items=pack_items)
            case = f"tls/{form}"
            _add(group, case, Candidate(kind, replace(plain_load, certificates=tls_files)))
            _add_peers(group, case, {"rstreams_without_tls": Candidate(kind, plain_load)})
    return group


_MANY: Final = f"streams_{STREAMS}"


def many_streams(seconds: float) -> Group:
    """Return the case of many served streams on one connection, beside one."""
    group = _begin("many streams", seconds)
    kind = _ours(100_000, "serve", "for_each")
    each = max(2 * WINDOW, _each(kind, seconds * 2, STREAMS))  # to attach a link costs as much as many items
    _add(group, _MANY, Candidate(kind, Load(0, each, KIB, subscribers=STREAMS)))
    _add_peers(group, _MANY, {"one_stream": Candidate(kind, _load(kind, seconds))})
    return group


def streams_memory(group: Group, figures: Mapping[str, Figures]) -> Row:
    """Return how far the memory of the node grew for many streams, beside the bytes that their first windows hold."""
    load, seen = group.candidates[_MANY].load, figures[_MANY]
    bound = STREAMS * min(WINDOW, load.items) * load.item_bytes / 2**20
    row = smaller_is_better(
        f"{_MANY}/memory", ours=seen.grown_mib, peer=bound, peer_name="windows", n=load.items * STREAMS, unit="MiB"
    )
    return replace(with_costs(row, seen, seen), peer_cpu_us=None, peer_consumer_us=None, peer_peak_mib=None)


_OFF: Final = "sight/off"
_WATCHED: Final = {"sight/traces": _ours(40_000, "keep", "there_and_back_traced")}
"""What looks on while items go to a queue and come back, beside the same with nobody looking on."""


def sight(seconds: float) -> Group:
    """Return the cases that show what it costs to look on."""
    group = _begin("sight", seconds)
    kind = _ours(40_000, "keep", "there_and_back")
    _add(group, _OFF, Candidate(kind, _load(kind, seconds)))
    for case, watched in _WATCHED.items():
        group.candidates[case] = Candidate(watched, _load(watched, seconds))
        group.pairs.append((case, case, _OFF, "off"))
    return group


def map_async(seconds: float) -> Group:
    """Return `map_async` without a network, beside a task for each item."""
    group = Group("map_async")
    for case, way in {"map_async": "", "map_async/at_once": "_at_once"}.items():
        ours = _ours(40_000, "idle", f"local_map_async{way}")
        peer = Kind("users_trio", 60_000, 1_000, "idle", f"task_an_item{way}")
        group.candidates[case] = Candidate(ours, _load(ours, seconds))
        _add_peers(group, case, {"task_an_item": Candidate(peer, _load(peer, seconds))})
    return group


def groups(seconds: float, tls_files: tuple[str, str] | None) -> list[Group]:
    """Return all groups."""
    return [
        *(consuming(shape, source, seconds) for source, shape in product(_PRODUCING, SHAPES)),
        *(publishing(shape, seconds) for shape in SHAPES),
        commands(seconds),
        large(seconds),
        requests(seconds),
        fan_out(seconds),
        tls(seconds, tls_files),
        many_streams(seconds),
        sight(seconds),
        map_async(seconds),
    ]


def trials(scale: float) -> list[Trial]:
    """Return our cases without peers, each so many times as long as usual."""
    return trials_of(groups(scale * SECONDS, TLS))


def measure(*, only: str = "*", seconds: float = SECONDS, runs: int = RUNS) -> list[Row]:
    """Return all rows, in the order of `worst_first`.

    Args:
        only: The cases to run: a pattern such as "full/*" or "*/publish".
        seconds: How long one run takes about.
        runs: How often each candidate runs; the figures are medians.
    """
    with tempfile.TemporaryDirectory(prefix="rstreams-bench-") as folder, Measurement(runs) as run:
        everything = groups(seconds, certificates(Path(folder)))
        parts = [group.chosen(lambda case: fnmatchcase(case, only)) for group in everything]
        parts = [part for part in parts if part.pairs]
        run.prepare(parts)
        rows: list[Row] = []
        for part in parts:
            figures = run.figures(part)
            rows += rows_of(part, figures)
            if _MANY in figures:
                rows.append(streams_memory(part, figures))
        return worst_first(rows)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Sort rows: first those beside the shortest way, then the others; in each part the smallest ratio first."""
    return sorted(rows, key=lambda row: (row.peer_name != SHORTEST, row.ratio))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write what is asked for."""
    title = "What people write, two processes over loopback; what is slowest beside the shortest way stands first"
    parser = choosing(title, SECONDS, '"full/*", "*/publish"')
    parser.add_argument(
        "--runs", type=int, default=RUNS, metavar="N", help="how often each candidate runs (%(default)s)"
    )
    _page.add_option(parser, "benchmarks.users")
    given = chosen(parser, arguments)
    if given.runs < 1:
        parser.error(f"--runs {given.runs}: 1 or more")
    rows = measure(only=given.only, seconds=given.seconds, runs=given.runs)
    if not rows:
        parser.error(f"--only {given.only}: no case that can be run here")
    publish(title, rows, given.json)
    if given.page is not None:
        given.page.refresh(_users_tables.tables(rows))
    if given.plot is not None:
        from benchmarks._users_plot import plot  # noqa: PLC0415 - only who wants a picture needs matplotlib

        plot(rows, given.plot)


if __name__ == "__main__":
    main()
