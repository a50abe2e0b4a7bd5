"""What the demo knows about its run: the numbers that came in, whether they agree, and what to say in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from examples.seattle.readings import READINGS


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch of the Spark job."""

    number: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Day:
    """The last result for a day: its maximum, and how many different readings Spark made it from."""

    maximum: float
    readings: int


@dataclass
class Progress:
    """The run so far, from what each process says.

    Attributes:
        rows: How many readings the file has.
        maxima: The maximum of each day, computed straight from the file.
        sent: Readings the publisher has sent.
        accepted: Readings it knows to be accepted; it learns that at the end.
        queue: The node's counters of the queue of readings.
        batches: Spark's micro-batches.
        days: The last result the subscriber has of each day.
    """

    rows: int
    maxima: Mapping[str, float]
    sent: int = 0
    accepted: int = 0
    queue: Mapping[str, int] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    days: dict[str, Day] = field(default_factory=dict)

    # what comes in

    def on_publisher(self, line: Mapping[str, Any]) -> None:
        """Take a line of the publisher."""
        self.sent = line["sent"]
        self.accepted = line.get("accepted", self.accepted)

    def on_node(self, statistics: Mapping[str, Any]) -> None:
        """Take a snapshot of the node's statistics."""
        self.queue = statistics["queues"][READINGS]

    def on_job(self, line: Mapping[str, Any]) -> None:
        """Take a line of the Spark job."""
        self.batches.append(Batch(line["batch"], line["rows"], line["seconds"]))

    def on_subscriber(self, line: Mapping[str, Any]) -> None:
        """Take a line of the subscriber; the last one about a day counts."""
        self.days[line["day"]] = Day(line["maximum"], line["readings"])

    # what follows from it

    @property
    def seen(self) -> int:
        """How many different message ids Spark has seen: those of a day went into that day's result."""
        return sum(day.readings for day in self.days.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many readings each of those that must agree has counted."""
        return {
            "readings accepted, says the publisher": self.accepted,
            "readings accepted by Spark, says the node": self.queue.get("accepted", 0),
            "different readings seen, says Spark": self.seen,
        }

    @property
    def accounted(self) -> int:
        """How many readings are accounted for: the count that is furthest from the truth."""
        return max(self.counts.values(), key=lambda count: abs(count - self.rows))

    @property
    def right(self) -> int:
        """How many daily maxima are what the file says."""
        return sum(day in self.days and self.days[day].maximum == maximum for day, maximum in self.maxima.items())

    @property
    def is_through(self) -> bool:
        """Whether all agree that every reading is through.

        Then every day is final, too: no day has more readings than Spark has seen, and it has seen all.
        """
        return all(count == self.rows for count in self.counts.values())

    @property
    def is_right(self) -> bool:
        """Whether every reading is through, and the days are those of the file, each with its maximum."""
        return self.is_through and self.right == len(self.maxima) == len(self.days)

    def missing(self) -> list[str]:
        """Return what is not as it should be, each in a line."""
        lines = [f"{what}: {count:,} of {self.rows:,}" for what, count in self.counts.items() if count != self.rows]
        absent = sorted(self.maxima.keys() - self.days.keys())
        if absent:
            lines.append(f"days without a result: {len(absent)} of {len(self.maxima)}, the first is {absent[0]}")
        lines += [
            f"{day}: the maximum is {self.maxima[day]:g} in the file, and {result.maximum:g} from Spark"
            if day in self.maxima
            else f"{day}: there is a result, and no such day in the file"
            for day, result in sorted(self.days.items())
            if self.maxima.get(day) != result.maximum
        ]
        return lines

    def last_line(self) -> str:
        """Return the verdict."""
        return (
            f"demo: {self.right} of {len(self.maxima)} daily maxima right, "
            f"{self.accounted} of {self.rows} readings accounted for"
        )
