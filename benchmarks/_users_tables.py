"""The figures of `benchmarks.users` as tables for a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks._processes import Shape
from benchmarks._report import Row

SHORTEST: Final = "shortest"
"""The peer that every case stands beside: bytes through a served stream, and `for_each` right on the link."""

SHAPES: Final[tuple[Shape, ...]] = ("bytes", "str", "dict", "full")

_TITLES: Final = {
    "served": "Consuming a served stream",
    "consume": "Consuming a queue",
    "publish": "Publishing to a queue",
}
_PUBLISHING: Final = ("publish", "submit", "send")


def tables(rows: Sequence[Row]) -> str:
    """Return a table of each place and direction, one of the other cases, and one of other libraries."""
    rows = sorted(rows, key=lambda row: (row.case, row.peer_name))
    parts = [_ways(rows, title) for title in _TITLES]
    parts += [_others(rows), _libraries(rows)]
    return "\n".join(part for part in parts if part)


def _place(row: Row) -> tuple[str, str, str] | None:
    """Return the shape, the table and the way of a case such as "dict/queue/async_for"; None for any other case."""
    shape, _, rest = row.case.partition("/")
    place, _, way = rest.partition("/")
    if shape not in SHAPES or place not in ("served", "queue"):
        return None
    if place == "queue":
        place = "publish" if way in _PUBLISHING else "consume"
    return shape, place, way


def _ways(rows: Iterable[Row], wanted: str) -> str:
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        place = _place(row)
        if place is not None and place[1] == wanted and row.peer_name == SHORTEST:
            found.setdefault(place[2], {})[place[0]] = f"{_ratio(row)}, {_us(row.ours_cpu_us)}"
    cells = {f"`{way}`": [figures.get(shape, "") for shape in SHAPES] for way, figures in found.items()}
    return _table(_TITLES[wanted], ["way", *(f"`{shape}`" for shape in SHAPES)], cells.items())


def _others(rows: Iterable[Row]) -> str:
    cells = [
        (f"`{row.case}`", [f"`{row.peer_name}`", _ratio(row), _us(row.ours_cpu_us), _us(row.peer_cpu_us)])
        for row in rows
        if _place(row) is None
    ]
    return _table("Other cases", ["case", "compared with", "ratio", "CPU us", "its CPU us"], cells)


def _libraries(rows: Sequence[Row]) -> str:
    compared = [row for row in rows if _place(row) is not None and row.peer_name != SHORTEST]
    peers = sorted({row.peer_name for row in compared})
    found: dict[str, dict[str, str]] = {}
    for row in compared:
        found.setdefault(f"`{row.case}`", {})[row.peer_name] = _ratio(row)
    cells = [(case, [ratios.get(peer, "") for peer in peers]) for case, ratios in found.items()]
    return _table("Beside other libraries", ["case", *(f"`{peer}`" for peer in peers)], cells)


def _table(title: str, heads: Sequence[str], lines: Iterable[tuple[str, Sequence[str]]]) -> str:
    made = [f"| {name} | {' | '.join(cells)} |" for name, cells in lines]
    if not made:
        return ""
    return "\n".join([f"### {title}\n", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *made]) + "\n"


def _ratio(row: Row) -> str:
    return f"{row.ratio:.3f}x" if row.ratio < 0.1 else f"{row.ratio:.2f}x"


def _us(cpu: float | None) -> str:
    return "" if cpu is None else f"{cpu:,.0f}" if cpu >= 10 else f"{cpu:.1f}"
