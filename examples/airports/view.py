"""What the user sees while the demo runs: a live view in a terminal, plain lines everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.airports import chart
from examples.airports.progress import Progress

WIDTH: Final = 80
"""The most columns that the live view takes."""

_BATCHES: Final = 9
"""How many of the last micro-batches have a column."""


class View(Protocol):
    """Something that shows the progress."""

    def update(self) -> None:
        """Show what is new; called some times a second."""
        ...


@contextmanager
def shown(progress: Progress) -> Iterator[View]:
    """Show the progress for the length of a block, live if standard output is a terminal that can."""
    console = Console()
    if console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf"):
        with Live(console=console, auto_refresh=False) as live:
            view = LiveView(progress, live)
            view.update()
            yield view
            view.update()
    else:
        yield LineView(progress)


class LiveView:
    """The whole state, drawn anew at each update."""

    def __init__(self, progress: Progress, live: Live) -> None:
        """Show `progress` in `live`."""
        self._progress = progress
        self._live = live
        self._began = monotonic()

    def update(self) -> None:
        """Draw the state as it is now."""
        size = self._live.console.size
        lines = 5 if size.height >= 30 else 3
        self._live.update(
            screen(self._progress, monotonic() - self._began, min(size.width, WIDTH), lines), refresh=True
        )


def screen(progress: Progress, elapsed_s: float, width: int, lines: int) -> RenderableType:
    """Return what the live view shows.

    Args:
        progress: The run so far.
        elapsed_s: Seconds since it began.
        width: Columns of text.
        lines: Lines for the chart of each station.
    """
    title = Table.grid(expand=True)
    title.width = width
    title.add_column(style="bold")
    title.add_column(style="dim", justify="right")
    title.add_row("New York's airports in 2013: the highest temperature of each day", f"{elapsed_s:.0f} s")
    days = sorted({day for _station, day in progress.expected})
    return Group(
        title,
        Text(),
        _processes(progress),
        Text(),
        _batches(progress),
        Text(),
        chart.as_text(progress.maxima, days, width, lines),
    )


def _processes(progress: Progress) -> RenderableType:
    """Return one line for each process, with a bar of what it has done."""
    rows, days = progress.rows, len(progress.expected)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_column(no_wrap=True)
    for station, total in progress.rows_of.items():
        sent = progress.sent[station]
        table.add_row(f"publisher {station}", _bar(sent, total), f"{sent:,} of {total:,} published")
    table.add_row("queue", _bar(progress.queue.get("accepted", 0), rows), _queue(progress))
    table.add_row("Spark", _bar(progress.processed, rows), _spark(progress))
    results = f"{progress.received:,} received in {len(progress.results):,} of {days:,} results"
    table.add_row("subscriber", _bar(progress.received, rows), results)
    return table


def _bar(done: int, total: int) -> ProgressBar:
    return ProgressBar(total, done, width=16, complete_style="cyan", finished_style="green")


def _queue(progress: Progress) -> str:
    if not progress.queue:
        return "the node is starting"
    return "{ready:,} waiting, {unsettled:,} at Spark, credit {credit:,}".format(**progress.queue)


def _spark(progress: Progress) -> str:
    if progress.batches:
        return f"{progress.processed:,} of {progress.rows:,} processed"
    return progress.phases[-1] if progress.phases else "is starting"


def _batches(progress: Progress) -> RenderableType:
    """Return the last micro-batches, one a column."""
    last = progress.batches[-_BATCHES:]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    for _ in range(_BATCHES):
        table.add_column(justify="right", min_width=5)
    table.add_row("micro-batch", *(f"{batch.number}" for batch in last))
    table.add_row("observations", *(f"{batch.rows:,}" for batch in last))
    table.add_row("seconds", *(f"{batch.seconds:.1f}" for batch in last))
    return table


class LineView:
    """A line for each step of Spark's, and for each publisher that is through; for pipes and logs."""

    def __init__(self, progress: Progress) -> None:
        """Print what is new in `progress`."""
        self._progress = progress
        self._phases = 0
        self._batches = 0
        self._through: set[str] = set()

    def update(self) -> None:
        """Print what is new."""
        progress = self._progress
        for phase in progress.phases[self._phases :]:
            print(f"Spark: {phase}; {progress.published:,} observations published", flush=True)
        self._phases = len(progress.phases)
        for batch in progress.batches[self._batches :]:
            print(
                f"micro-batch {batch.number}: {batch.rows:,} observations in {batch.seconds:.1f} s; "
                f"{progress.published:,} published, {progress.processed:,} processed by Spark, "
                f"{progress.received:,} received in {len(progress.results):,} results",
                flush=True,
            )
        self._batches = len(progress.batches)
        for station in progress.accepted.keys() - self._through:
            self._through.add(station)
            counts = f"{progress.sent[station]:,} published, {progress.accepted[station]:,} accepted"
            print(f"publisher {station}: {counts}", flush=True)
