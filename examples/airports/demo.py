"""Runs the demo: `python -m examples.seattle`. Starts its processes, watches them, checks the result, ends them all.

Its last line says what came of it; the exit code is 0 only if every daily maximum is right and every reading accounted
for.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

import rstreams
from examples.seattle import chart
from examples.seattle.processes import Child
from examples.seattle.progress import Progress
from examples.seattle.readings import MAXIMA, READINGS, daily_maxima, seattle
from examples.seattle.view import View, shown
from rstreams.node import STATISTICS

DESCRIPTION: Final = "Real temperatures through AMQP 1.0 links and a Spark job, each accounted for."

QUEUE_CAPACITY: Final = 2000
"""Two micro-batches: one at Spark, and one that the publisher fills meanwhile. More it is not given credit for."""

SHOW_THROUGH: Final = 5
"""For how many tenths of a second the numbers must agree: Spark tells of its last micro-batch a moment later."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Demo:
    """One run of the demo.

    Attributes:
        progress: What is known of it.
        trouble: Why it ended, if not because all was through.
        signal: The signal that ended it, or None.
    """

    def __init__(self, progress: Progress) -> None:
        """Prepare a run."""
        self.progress = progress
        self.trouble: list[str] = []
        self.signal: int | None = None
        self._children: list[Child] = []
        self._over = trio.Event()
        self._starting = trio.Lock()  # so that none is started behind the back of `_end_children`

    async def run(self, time_limit_s: float) -> None:
        """Run until all is through, or something is wrong; then nothing that was started is left."""
        with (
            trio.open_signal_receiver(*SIGNALS) as signals,
            TemporaryDirectory(prefix="rstreams-seattle-") as folder,
            shown(self.progress) as view,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_signals, signals)
                nursery.start_soon(self._show, view)
                nursery.start_soon(self._run_node, nursery, folder)
                try:
                    with trio.move_on_after(time_limit_s):
                        await self._over.wait()
                    self._end([f"after {time_limit_s:g} s this is not as it should be:", *self.progress.missing()])
                finally:
                    # What they write is read meanwhile: a process that cannot write cannot end either.
                    await self._end_children()
                nursery.cancel_scope.cancel()

    def _end(self, trouble: list[str]) -> None:
        """End the run, if it has not ended."""
        if not self._over.is_set():
            self.trouble = trouble
            self._over.set()

    async def _run_node(self, nursery: trio.Nursery, folder: str) -> None:
        """Run the node at a port that is free; when it says which, start the others."""

        def on_line(line: str) -> None:
            if url := re.search(r"amqp://\S+:\d+", line):
                self._start_others(nursery, url[0], folder)

        queues = ["--queue", f"{READINGS}:{QUEUE_CAPACITY}", "--queue", MAXIMA]
        command = [sys.executable, "-m", "rstreams.cli", "node", "--listen", "127.0.0.1:0", *queues]
        await self._run_child("node", command, on_line)

    def _start_others(self, nursery: trio.Nursery, url: str, folder: str) -> None:
        progress, to = self.progress, ["--url", url]
        environment = {"PYSPARK_PYTHON": sys.executable, "TMPDIR": folder}
        nursery.start_soon(self._watch_node, url)
        nursery.start_soon(self._run_module, "job", progress.on_job, [*to, "--folder", folder], environment)
        nursery.start_soon(self._run_module, "subscriber", progress.on_subscriber, to)
        nursery.start_soon(self._run_module, "publisher", progress.on_publisher, to)

    async def _run_module(
        self,
        name: str,
        on_line: Callable[[Mapping[str, Any]], None],
        arguments: list[str],
        environment: dict[str, str] | None = None,
    ) -> None:
        """Run one of the modules beside this one, which print lines of JSON."""

        def on_text(line: str) -> None:
            if line.startswith("{"):
                on_line(json.loads(line))

        await self._run_child(
            name, [sys.executable, "-m", f"examples.seattle.{name}", *arguments], on_text, environment
        )

    async def _run_child(
        self,
        name: str,
        command: list[str],
        on_line: Callable[[str], None],
        environment: dict[str, str] | None = None,
    ) -> None:
        """Run a process. Only the publisher may end before the demo does."""
        async with self._starting:
            if self._over.is_set():
                return
            child = await Child.start(command, environment)
            self._children.append(child)
        code = await child.run(on_line)
        if code != 0 or name != "publisher":
            tail = [f"    {line}" for line in child.tail] or ["    (nothing)"]
            how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
            self._end([f"the {name} ended early, {how}; its last lines:", *tail])

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
            self._end([f"the node no longer answers: {error}"])

    async def _watch_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if not self._over.is_set():  # else the processes are being ended already
                self.signal = number
                self._end([f"stopped by {signal.Signals(number).name}"])

    async def _show(self, view: View) -> None:
        """Show the progress ten times a second until all is through."""
        through_for = 0
        while through_for < SHOW_THROUGH:
            view.update()
            await trio.sleep(0.1)
            through_for = through_for + 1 if self.progress.is_through else 0
        view.update()
        self._over.set()

    async def _end_children(self) -> None:
        """End all processes, the node as the last."""
        self._over.set()
        with trio.CancelScope(shield=True):
            async with self._starting, trio.open_nursery() as nursery:
                for child in self._children[1:]:
                    nursery.start_soon(child.end)
            for child in self._children[:1]:
                await child.end()


def main() -> int:
    """Run the demo, tell what came of it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.seattle", description=DESCRIPTION)
    parser.add_argument("--output", type=Path, default=Path("build/seattle.png"), help="the chart (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=110, metavar="S", help="seconds (%(default)s)")
    options = parser.parse_args()
    rows = seattle()
    progress = Progress(len(rows), daily_maxima(rows))
    demo = Demo(progress)
    trio.run(demo.run, options.time_limit)
    for line in demo.trouble or progress.missing():
        print(line)
    if progress.days:
        chart.write_png(options.output, {day: result.maximum for day, result in progress.days.items()}, progress.seen)
        print(f"chart: {options.output}")
    print(progress.last_line())
    if demo.signal is not None:
        return 128 + demo.signal
    return 0 if progress.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
