"""The tables of `benchmarks.spark_growth`, and the arithmetic behind them."""

from __future__ import annotations

import pytest

from benchmarks._growth_tables import Cell, Costs, costs, tables

MODEL = Costs(fixed_ms=100.0, task_ms=8.0, row_us=10.0)


def measured(*, executors: tuple[int, ...] = (1, 2), partitions: tuple[int, ...] = (1, 4, 64)) -> list[Cell]:
    """Return cells of a Spark that costs exactly what the model says; a batch has one task in its fixed time."""
    cells = []
    for cores in executors:
        for parts in partitions:
            for limit in (1_000, 100_000):
                batch_s = MODEL.batch_s(limit, parts - 1, cores)
                cells.append(Cell(cores, parts, limit, limit / batch_s, 1e3 * batch_s, 1.0, MODEL.row_us))
    return cells


def test_the_costs_are_found_again() -> None:
    found = costs(measured())
    assert found.task_ms == pytest.approx(MODEL.task_ms)
    assert found.row_us == MODEL.row_us
    assert found.fixed_ms == pytest.approx(MODEL.fixed_ms + 1_000 * MODEL.row_us / 2 / 1e3), "with the few rows"


def test_one_number_of_partitions_tells_nothing_about_tasks() -> None:
    assert costs(measured(partitions=(4,))).task_ms == 0


def test_the_table_has_a_line_for_partitions_and_batch_and_columns_for_executors() -> None:
    text = tables([cell for cell in measured() if cell != measured()[0]])
    lines = text.splitlines()
    assert lines[0].count("executor") == 2
    assert lines[2] == "| 1 | 1,000 |  | | |  | 9,524 | 105 | 1 | 10.0 |"
    assert lines[3] == "| 1 | 100,000 | 90,909 | 1,100 | 1 | 10.0 | 166,667 | 600 | 1 | 10.0 |"
    assert "a task more takes a core 8.0 ms, and a row 10.0 µs" in text
    assert "(400 cores / 10.0 µs = 40 million)" in text
    assert "| 100,000,000 | 2.61 | 38.3 | 0.96 |" in lines
