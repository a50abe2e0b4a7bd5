"""The figures of `benchmarks.node` as tables for a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks._report import Row

_TITLES: Final = {
    "publish": "published and accepted",
    "consume": "consumed and settled",
    "append": "appended",
    "replay": "read again",
}


def tables(rows: Sequence[Row]) -> str:
    """Return a table of the queues, one of each form of a log, and a line for the latency."""
    parts = [_table(rows, "queue", {"publish": "", "consume": ""})]
    parts += [_table(rows, f"log, {form}", {"append": form, "replay": form}) for form in ("single", "packed")]
    sends = [row for row in rows if row.unit == "ms" and row.peer_name != "bound"]
    if sends:
        lines = [f"{_named(row.peer_name)}: {row.peer:.2f} ms ({row.ours / row.peer:.2f}x)" for row in sends]
        parts.append(f"A durable send takes {sends[0].ours:.2f} ms. {'; '.join(lines)}.\n")
    return "\n".join(part for part in parts if part)


def _table(rows: Iterable[Row], title: str, steps: dict[str, str]) -> str:
    """Return the table of two steps: messages a second, and processor time of each, for ours and for each peer."""
    found: dict[str, dict[str, tuple[float, float | None]]] = {}
    for row in rows:
        _, _, rest = row.case.partition("/")
        step, _, place = rest.partition("/")
        if step in steps and steps[step] in ("", place):
            ours = f"**{place if title == 'queue' else 'log of a node'}**"
            found.setdefault(ours, {})[step] = (row.ours, row.ours_cpu_us)
            if row.peer_name != "memory":
                found.setdefault(_named(row.peer_name), {})[step] = (row.peer, row.peer_cpu_us)
    if not found:
        return ""
    heads = [f"{_TITLES[step]}, a second | µs" for step in steps]
    lines = [f"| {title} | {' | '.join(heads)} |", "|---|" + "---|" * (2 * len(steps))]
    for name, figures in found.items():
        cells = [_cells(figures.get(step)) for step in steps]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _named(peer: str) -> str:
    return peer.partition("/")[0].replace("_", " ") + ("" if "/" not in peer else f", {peer.partition('/')[2]}")


def _cells(figures: tuple[float, float | None] | None) -> str:
    if figures is None:
        return " | "
    return f"{figures[0]:,.0f} | " + ("" if figures[1] is None else f"{figures[1]:.3g}")
