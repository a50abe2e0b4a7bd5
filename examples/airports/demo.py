"""Runs the demo: starts its processes, watches them, checks the result, ends them all.

Its last line says what came of it; the exit code is 0 only if every daily maximum is right and every observation
accounted for.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

import rstreams
from examples.airports import chart
from examples.airports.observations import MAXIMA, OBSERVATIONS, STATIONS, weather_file
from examples.airports.processes import Child, Keeper
from examples.airports.progress import Progress
from examples.airports.results import expected_results
from examples.airports.view import View, shown
from examples.airports.watchdog import PATIENCE_S, Watchdog
from rstreams.node import STATISTICS

DESCRIPTION: Final = "A year of weather observations through AMQP 1.0 links and a Spark job, each accounted for."

QUEUE_CAPACITY: Final = 4000
"""Two micro-batches: one at Spark, and one that the publishers fill meanwhile. They get no credit for more."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Demo:
    """One run of the demo.

    Attributes:
        progress: What is known of it.
        trouble: Why it was ended early, in one line; an empty text if it was not.
        traceback: The lines of it, if a process that failed has printed one.
        signal: The signal that ended it, or None.
    """

    def __init__(self, progress: Progress) -> None:
        """Prepare a run."""
        self.progress = progress
        self.trouble = ""
        self.traceback: list[str] = []
        self.signal: int | None = None
        self._children: list[Child] = []
        self._over = trio.Event()
        self._starting = trio.Lock()  # so that none is started behind the back of `_end_children`

    async def run(self, patience_s: float) -> None:
        """Run until all is through, or something is wrong; then nothing that was started is left.

        Args:
            patience_s: For how long nothing may move; see `Watchdog`.
        """
        with (
            trio.open_signal_receiver(*SIGNALS) as signals,
            TemporaryDirectory(prefix="rstreams-airports-") as folder,
            shown(self.progress) as view,
        ):
            self._keeper = await Keeper.start()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_signals, signals)
                    nursery.start_soon(self._watch_progress, view, patience_s)
                    nursery.start_soon(self._run_node, nursery, folder)
                    try:
                        await self._over.wait()
                    finally:
                        # What they write is read meanwhile: a process that cannot write cannot end either.
                        await self._end_children()
                    nursery.cancel_scope.cancel()
            finally:
                await self._keeper.end()

    def _end(self, trouble: str, traceback: list[str] | None = None) -> None:
        """End the run, if it has not ended."""
        if not self._over.is_set():
            self.trouble, self.traceback = trouble, traceback or []
            self._over.set()

    async def _run_node(self, nursery: trio.Nursery, folder: str) -> None:
        """Run the node at a port that is free; when it says which, start the others."""

        def on_line(line: str) -> None:
            if url := re.search(r"amqp://\S+:\d+", line):
                self._start_others(nursery, url[0], folder)

        queues = ["--queue", f"{OBSERVATIONS}:{QUEUE_CAPACITY}", "--queue", MAXIMA]
        command = [sys.executable, "-m", "rstreams.cli", "node", "--listen", "127.0.0.1:0", *queues]
        await self._run_child("node", command, on_line)

    def _start_others(self, nursery: trio.Nursery, url: str, folder: str) -> None:
        progress, to = self.progress, ["--url", url]
        environment = {"PYSPARK_PYTHON": sys.executable, "TMPDIR": folder}
        nursery.start_soon(self._watch_node, url)
        nursery.start_soon(
            self._run_module, "Spark job", "job", progress.on_job, [*to, "--folder", folder], environment
        )
        nursery.start_soon(self._run_module, "subscriber", "subscriber", progress.on_subscriber, to)
        for station in STATIONS:
            arguments = [*to, "--station", station]
            nursery.start_soon(self._run_module, f"publisher {station}", "publisher", progress.on_publisher, arguments)

    async def _run_module(
        self,
        name: str,
        module: str,
        on_line: Callable[[Mapping[str, Any]], None],
        arguments: list[str],
        environment: dict[str, str] | None = None,
    ) -> None:
        """Run one of the modules beside this one, which print lines of JSON."""

        def on_text(line: str) -> None:
            if line.startswith("{"):
                on_line(json.loads(line))

        command = [sys.executable, "-m", f"examples.airports.{module}", *arguments]
        await self._run_child(name, command, on_text, environment)

    async def _run_child(
        self,
        name: str,
        command: list[str],
        on_line: Callable[[str], None],
        environment: dict[str, str] | None = None,
    ) -> None:
        """Run a process. Only publishers may end before the demo does."""
        async with self._starting:
            if self._over.is_set():
                return
            child = await Child.start(command, environment)
            self._children.append(child)
            await self._keeper.keep(child)
        code = await child.run(on_line)
        if code < 0:
            self._end(f"the {name} was ended by {signal.Signals(-code).name}")
        elif code > 0 or not name.startswith("publisher"):
            said = child.tail[-1] if child.tail else f"exit code {code}, without a word"
            self._end(f"the {name} ended early: {said}", _traceback(child.tail))

    async def _watch_node(self, url: str) -> None:
        """Ask the node for its statistics, ten times a second: it makes a snapshot for each one requested."""
        try:
            async with (
                rstreams.connect(url) as connection,
                connection.stream(STATISTICS, window=1).open(window=1) as snapshots,
            ):
                async for snapshot in snapshots:
                    self.progress.on_node(snapshot)
                    await trio.sleep(0.1)
        except rstreams.RStreamsError as error:
            await trio.sleep(1)  # a node that died is told by `_run_child`, with its last lines
            self._end(f"the node no longer answers: {error}")

    async def _watch_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if not self._over.is_set():  # else the processes are being ended already
                self.signal = number
                self._end(f"stopped by {signal.Signals(number).name}")

    async def _watch_progress(self, view: View, patience_s: float) -> None:
        """Show the progress ten times a second until all is through, or nothing moves any more."""
        watchdog = Watchdog(patience_s, trio.current_time())
        while not (self.progress.is_through or watchdog.gives_up):
            view.update()
            await trio.sleep(0.1)
            watchdog.look(self.progress.steps, trio.current_time())
        view.update()
        if self.progress.is_through:
            self._over.set()
        else:
            self._end(f"timed out: nothing has moved for {watchdog.still_s:.0f} s")

    async def _end_children(self) -> None:
        """End all processes, the node as the last."""
        self._over.set()
        with trio.CancelScope(shield=True):
            async with self._starting, trio.open_nursery() as nursery:
                for child in self._children[1:]:
                    nursery.start_soon(child.end)
            for child in self._children[:1]:
                await child.end()


def _traceback(lines: Iterable[str]) -> list[str]:
    """Return the last traceback among the lines, up to the end; the last line is told anyway."""
    traceback: list[str] = []
    for line in lines:
        if line.startswith("Traceback"):
            traceback = [line]
        elif traceback:
            traceback.append(line)
    return traceback[:-1]


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise ValueError
    return seconds


def run() -> int:
    """Run the demo, tell what came of it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.airports", description=DESCRIPTION)
    parser.add_argument("--output", type=Path, default=Path("build/airports.png"), help="the chart (%(default)s)")
    patience = "seconds without any progress, after which the demo gives up; more on a slow machine (%(default)g)"
    parser.add_argument("--patience", type=_seconds, default=PATIENCE_S, metavar="S", help=patience)
    options = parser.parse_args()
    progress = Progress(expected_results(weather_file()))
    demo = Demo(progress)
    trio.run(demo.run, options.patience)
    for line in demo.traceback if demo.trouble else progress.wrong():
        print(line)
    if progress.results:
        chart.write_png(options.output, progress.maxima, progress.received)
        print(f"chart: {options.output}")
    if demo.trouble:
        print(f"demo: {demo.trouble}; {progress.so_far()}")
        return 1 if demo.signal is None else 128 + demo.signal
    print(f"observations without a temperature, which are in no maximum: {progress.received_without_temperature}")
    print(f"demo: {progress.verdict()}")
    return 0 if progress.is_right else 1
