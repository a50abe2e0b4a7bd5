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

from examples.seattle import chart
from examples.seattle.progress import Progress

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
        lines = 15 if size.height >= 30 else 10
        self._live.update(
            screen(self._progress, monotonic() - self._began, min(size.width, WIDTH), lines), refresh=True
        )


def screen(progress: Progress, elapsed_s: float, width: int, lines: int) -> RenderableType:
    """Return what the live view shows.

    Args:
        progress: The run so far.
        elapsed_s: Seconds since it began.
        width: Columns of text.
        lines: Lines for the chart.
    """
    title = Table.grid(expand=True)
    title.width = width
    title.add_column(style="bold")
    title.add_column(style="dim", justify="right")
    title.add_row("Seattle's temperatures of 2010, and the highest of each day", f"{elapsed_s:.0f} s")
    maxima = {day: result.maximum for day, result in progress.days.items()}
    return Group(
        title,
        Text(),
        _processes(progress),
        Text(),
        _batches(progress),
        Text(),
        chart.as_text(maxima, sorted(progress.maxima), width, lines),
    )


def _processes(progress: Progress) -> RenderableType:
    """Return one line a process, with a bar of what it has done, and one for the credit."""
    rows, days = progress.rows, len(progress.maxima)
    queue = {"enqueued": 0, "accepted": 0, "ready": 0, "unsettled": 0, "credit": 0, **progress.queue}
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_column(no_wrap=True)
    accepted = max(progress.accepted, queue["enqueued"])  # the publisher itself knows only when it is through
    table.add_row("publisher", _bar(progress.sent, rows), f"{progress.sent:,} sent, {accepted:,} of {rows:,} accepted")
    table.add_row("node", _bar(queue["accepted"], rows), f"{queue['accepted']:,} accepted by Spark")
    table.add_row("", "", Text("{ready:,} waiting, {unsettled:,} at Spark, credit {credit:,}".format(**queue), "dim"))
    table.add_row("Spark", _bar(progress.seen, rows), _spark(progress))
    table.add_row("subscriber", _bar(len(progress.days), days), f"{len(progress.days)} of {days} days")
    return table


def _bar(done: int, total: int) -> ProgressBar:
    return ProgressBar(total, done, width=20, complete_style="cyan", finished_style="green")


def _spark(progress: Progress) -> str:
    if progress.seen:
        return f"{progress.seen:,} different readings seen"
    return "works on its first micro-batch" if progress.queue.get("consumers") else "is starting"


def _batches(progress: Progress) -> RenderableType:
    """Return the last micro-batches, one a column."""
    last = progress.batches[-_BATCHES:]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    for _ in range(_BATCHES):
        table.add_column(justify="right", min_width=5)
    table.add_row("micro-batch", *(f"{batch.number}" for batch in last))
    table.add_row("readings", *(f"{batch.rows:,}" for batch in last))
    table.add_row("seconds", *(f"{batch.seconds:.1f}" for batch in last))
    return table


class LineView:
    """A line whenever a micro-batch is done, or the publisher; for pipes and logs."""

    def __init__(self, progress: Progress) -> None:
        """Print what is new in `progress`."""
        self._progress = progress
        self._batches = 0
        self._published = False

    def update(self) -> None:
        """Print what is new."""
        progress = self._progress
        for batch in progress.batches[self._batches :]:
            print(
                f"micro-batch {batch.number}: {batch.rows:,} readings in {batch.seconds:.1f} s; "
                f"{progress.sent:,} sent, {progress.queue.get('accepted', 0):,} accepted at the node, "
                f"{progress.seen:,} seen by Spark, {len(progress.days)} days at the subscriber",
                flush=True,
            )
        self._batches = len(progress.batches)
        if progress.accepted and not self._published:
            self._published = True
            print(f"publisher: {progress.sent:,} sent, {progress.accepted:,} accepted", flush=True)
