"""Twelve staged stalls: each side is asked whom the others wait for, and an alert must tell it too.

    python -m tests.stalls.run [TITLE...] --json build/stalls/stalls.json

Each part of a stall is a process of its own, on 127.0.0.1: a node, a publisher, a consumer. The culprit is known,
because it was staged. The harness asks each process that can answer, and looks which rules of
examples/monitoring/alerts.yml hold for the node. It asks again and again until all is right, or `PATIENCE_S` is over;
what is right must be so twice. It prints a table, and ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from tests.stalls.answers import Answer
from tests.stalls.processes import Part
from tests.stalls.prometheus import Prometheus
from tests.stalls.stagings import STALLS, TRIALS, Staging

PATIENCE_S: Final = 10.0
"""How long after its parts play a stall may take until all that is said about it is right."""

AGAIN_S: Final = 0.4
AT_A_TIME: Final = 2
"""How many stalls are staged at the same time."""


@dataclass
class Row:
    """What was found about one stall.

    Attributes:
        staging: The stall.
        said: What each side said.
        alerts: The names of the alerts that hold; None: nobody asked.
        alert_is_right: Whether the one that must hold does.
        trouble: Why it could not be staged.
        seconds: How long it took, from the start of its processes to their end.
    """

    staging: Staging
    said: dict[str, Answer] = field(default_factory=dict)
    alerts: list[str] | None = None
    alert_is_right: bool = False
    trouble: str = ""
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether every side named the culprit, and the alert holds."""
        truth = self.staging.truth
        told = all(answer.is_right(truth) for answer in self.said.values())
        return told and not self.trouble and (self.alerts is None or self.alert_is_right)

    def lines(self) -> list[str]:
        """Return what the table has about it."""
        truth = self.staging.truth
        shown = [f"{self.staging.title}: {truth.kind} {truth.name!r} ({self.seconds:.1f} s)"]
        if self.trouble:
            return [*shown, f"  wrong  {self.trouble}"]
        for side, answer in self.said.items():
            found = answer.sentence or f"names no culprit: {' / '.join(answer.text.split(chr(10)))}"
            kind = f"{answer.kind}: " if answer.kind else ""
            if answer.gap_s is not None:
                found = answer.text
            shown.append(f"  {_word(right=answer.is_right(truth))}  {side}: {kind}{found}"[:230])
        if self.alerts is not None:
            must = self.staging.alert
            shown.append(f"  {_word(right=self.alert_is_right)}  alert {must}: {', '.join(self.alerts) or 'none'} hold")
        return shown

    def as_dict(self) -> dict[str, Any]:
        """Return it for the JSON."""
        return {
            "truth": [self.staging.truth.kind, self.staging.truth.name],
            "said": {side: answer.as_dict() for side, answer in self.said.items()},
            "alerts": self.alerts,
            "trouble": self.trouble,
            "seconds": round(self.seconds, 1),
            "right": self.is_right,
        }


def _word(*, right: bool) -> str:
    return "right" if right else "wrong"


async def stage(staging: Staging, folder: Path, prometheus: Prometheus | None) -> Row:
    """Stage one stall, ask all sides, and end its processes."""
    row, began = (
        Row(staging, {each: Answer() for each in staging.parts if each not in staging.silent}),
        time.monotonic(),
    )
    parts = [Part(each, folder / f"{each}.log", staging.disk(folder, each)) for each in staging.parts]
    try:
        told: dict[str, Any] = {"folder": str(folder)}
        for node in parts[: staging.nodes]:
            told = await node.start(told)
        async with trio.open_nursery() as nursery:
            for each in parts[staging.nodes :]:
                nursery.start_soon(each.start, told)
        for each in parts:
            if each.name == staging.stopped:
                each.stop()
        if prometheus is not None and staging.alert:
            prometheus.watch(told["http"])
        asked = [each for each in parts if each.name not in staging.silent]
        await _ask_until_right(row, asked, told["http"], prometheus if staging.alert else None)
    except* RuntimeError as error:
        row.trouble = str(error.exceptions[0])
    finally:
        with trio.CancelScope(shield=True):
            for each in reversed(parts):
                await each.end()
    row.seconds = time.monotonic() - began
    return row


async def _ask_until_right(row: Row, asked: Sequence[Part], http: int, prometheus: Prometheus | None) -> None:
    name, labels = row.staging.alert, row.staging.labels
    until, was_right = trio.current_time() + PATIENCE_S, False
    while True:
        async with trio.open_nursery() as nursery:
            for part in asked:
                nursery.start_soon(_ask, row, part)
        if prometheus is not None:
            held = await prometheus.alerts(http)
            row.alerts = sorted({each["alertname"] for each in held})
            row.alert_is_right = any(
                each["alertname"] in name.split(" or ") and labels.items() <= each.items() for each in held
            )
        if trio.current_time() > until or (row.is_right and was_right):
            return
        was_right = row.is_right
        await trio.sleep(AGAIN_S)


async def _ask(row: Row, part: Part) -> None:
    row.said[part.name] = await part.ask()


async def all_of(stagings: Sequence[Staging], folder: Path, prometheus: Prometheus | None) -> list[Row]:
    """Stage the stalls, some at a time; print each row when it is there."""
    rows: list[Row] = []
    places = trio.Semaphore(AT_A_TIME)

    async def one(number: int, staging: Staging) -> None:
        place = folder / str(number)
        place.mkdir()
        row = await stage(staging, place, prometheus)
        print("\n".join(row.lines()), flush=True)  # noqa: T201
        rows.append(row)
        places.release()

    async with trio.open_nursery() as nursery:
        for number, staging in enumerate(stagings):
            await places.acquire()
            nursery.start_soon(one, number, staging)
    return rows


def main(arguments: Sequence[str]) -> int:
    """Run the harness; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description="stage stalls, and ask each side for the culprit")
    parser.add_argument("titles", nargs="*", help="those to stage; all by default")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    stagings = [each for each in (*STALLS, *TRIALS) if not given.titles or each.title in given.titles]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rstreams-stalls-") as name:
        folder = Path(name)
        prometheus = Prometheus(folder) if Prometheus.is_installed() else None
        try:
            if prometheus is None:
                print("stalls: no alert is asked for, because Prometheus is not installed (Debian: prometheus)")  # noqa: T201
            else:
                prometheus.start()
            rows = trio.run(all_of, stagings, folder, prometheus)
        finally:
            if prometheus is not None:
                prometheus.end()
    wrong = [row.staging.title for row in rows if not row.is_right]
    seconds = time.monotonic() - began
    told = f"; wrong: {', '.join(wrong)}" if wrong else ""
    print(f"stalls: {len(rows) - len(wrong)} of {len(rows)} right in {seconds:.0f} s{told}")  # noqa: T201
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({row.staging.title: row.as_dict() for row in rows}, indent=2) + "\n")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
