"""The figures of `benchmarks.spark_growth` as tables for the documentation, and the arithmetic from there on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_EXECUTORS: Final = 100
_CORES: Final = 4
_BATCHES: Final = (100_000, 1_000_000, 10_000_000, 100_000_000)


@dataclass(frozen=True)
class Cell:
    """What one query came to, without its first batch.

    Attributes:
        executors: How many executors there were, with one core each.
        partitions: The partitions of the log, each read by one task.
        limit: The rows of a batch.
        rate: Rows a second.
        batch_ms: The median time of a batch.
        ends_ms: The part of it in which the driver asks where the log ends.
        cpu_us: Processor time a row, of all of Spark's processes.
    """

    executors: int
    partitions: int
    limit: int
    rate: float
    batch_ms: float
    ends_ms: float
    cpu_us: float


@dataclass(frozen=True)
class Costs:
    """What the arithmetic needs.

    Attributes:
        fixed_ms: The time of a batch with few rows and the fewest tasks.
        task_ms: The time of a core for a task more.
        row_us: The time of a core for a row of a large batch.
    """

    fixed_ms: float
    task_ms: float
    row_us: float

    def batch_s(self, rows: int, tasks: int, cores: int) -> float:
        """Return how long a batch takes, if rows and tasks are shared by all cores."""
        return (self.fixed_ms + tasks * self.task_ms / cores) / 1e3 + rows * self.row_us / 1e6 / cores


def costs(cells: Sequence[Cell]) -> Costs:
    """Return what the cells with the most executors say."""
    executors = max(cell.executors for cell in cells)
    some = [cell for cell in cells if cell.executors == executors]
    small, large = min(cell.limit for cell in some), max(cell.limit for cell in some)
    by_tasks = {cell.partitions: cell.batch_ms for cell in some if cell.limit == small}
    few, many = min(by_tasks), max(by_tasks)
    more_ms = (by_tasks[many] - by_tasks[few]) * executors / (many - few) if many > few else 0.0
    return Costs(by_tasks[few], max(0.0, more_ms), min(cell.cpu_us for cell in some if cell.limit == large))


def tables(cells: Sequence[Cell]) -> str:
    """Return a table of the cells, what follows from them, and a table of a hundred executors."""
    return f"{_measured(cells)}\n{_arithmetic(costs(cells))}"


def _measured(cells: Sequence[Cell]) -> str:
    executors = sorted({cell.executors for cell in cells})
    heads = [f"{_counted(number, 'executor')}: rows/s | ms a batch | of it asking | µs a row" for number in executors]
    lines = [f"| partitions | rows a batch | {' | '.join(heads)} |", "|---|---|" + "---|" * (4 * len(executors))]
    found = {(cell.partitions, cell.limit, cell.executors): cell for cell in cells}
    for partitions, limit in sorted({(cell.partitions, cell.limit) for cell in cells}):
        texts = [_cell(found.get((partitions, limit, number))) for number in executors]
        lines.append(f"| {partitions} | {limit:,} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return " | | | "
    return f"{cell.rate:,.0f} | {cell.batch_ms:,.0f} | {cell.ends_ms:,.0f} | {cell.cpu_us:.1f}"


def _arithmetic(found: Costs) -> str:
    cores = _EXECUTORS * _CORES
    limit = cores / found.row_us
    text = (
        f"From these cells: the fixed time of a batch is {found.fixed_ms:,.0f} ms, a task more takes a core "
        f"{found.task_ms:.1f} ms, and a row {found.row_us:.1f} µs. With {_EXECUTORS} executors of {_CORES} cores, as "
        "many partitions and tasks as cores, and a peer that is never the limit:\n\n"
        "| rows a batch | seconds a batch | million rows a second | in parts of the limit "
        f"({cores} cores / {found.row_us:.1f} µs = {limit:,.0f} million) |\n|---|---|---|---|\n"
    )
    for rows in _BATCHES:
        seconds = found.batch_s(rows, cores, cores)
        rate = rows / seconds / 1e6
        text += f"| {rows:,} | {seconds:,.2f} | {rate:,.1f} | {rate / limit:.2f} |\n"
    return text


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number > 1 else "")
