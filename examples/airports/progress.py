"""What the demo knows about its run: the numbers that came in, whether they agree, and what to say in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from examples.airports.observations import OBSERVATIONS
from examples.airports.results import Result, StationDay

_LISTED: Final = 5
"""How many wrong days are listed."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch of the Spark job."""

    number: int
    rows: int
    seconds: float


@dataclass
class Progress:
    """The run so far, from what each process says.

    Attributes:
        expected: The result of each day at each station, computed by pandas straight from the file.
        sent: How many observations the publisher of each station has sent.
        accepted: How many of them the node has accepted, for each publisher that is through.
        queue: The node's counters of the queue of observations.
        taken: The most observations that Spark has taken from the queue so far, settled or not.
        phases: What the Spark job has said that it does, before its first micro-batch.
        batches: Spark's micro-batches.
        results: The last result that the subscriber has of each day at each station.
        results_received: How many results it has received; a day comes again when Spark knows more of it.
    """

    expected: Mapping[StationDay, Result]
    sent: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, int] = field(default_factory=dict)
    queue: Mapping[str, int] = field(default_factory=dict)
    taken: int = 0
    phases: list[str] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    results: dict[StationDay, Result] = field(default_factory=dict)
    results_received: int = 0

    def __post_init__(self) -> None:
        """Count what there is to do."""
        self.rows_of: Counter[str] = Counter()
        for (station, _day), result in self.expected.items():
            self.rows_of[station] += result.observations
        self.rows = self.rows_of.total()

    # what comes in

    def on_publisher(self, line: Mapping[str, Any]) -> None:
        """Take a line of a publisher."""
        self.sent[line["station"]] = line["sent"]
        if "accepted" in line:
            self.accepted[line["station"]] = line["accepted"]

    def on_node(self, statistics: Mapping[str, Any]) -> None:
        """Take a snapshot of the node's statistics."""
        self.queue = statistics["queues"][OBSERVATIONS]
        self.taken = max(self.taken, self.queue["accepted"] + self.queue["unsettled"])

    def on_job(self, line: Mapping[str, Any]) -> None:
        """Take a line of the Spark job."""
        if "phase" in line:
            self.phases.append(line["phase"])
        else:
            self.batches.append(Batch(line["batch"], line["rows"], line["seconds"]))

    def on_subscriber(self, line: Mapping[str, Any]) -> None:
        """Take a line of the subscriber; the last one about a day counts."""
        self.results[StationDay(line["station"], line["day"])] = Result.from_json(line)
        self.results_received += 1

    # what follows from it

    @property
    def published(self) -> int:
        """How many observations were sent, says who knows more: the publishers, who tell every tenth, or the node."""
        return max(self.sent.total(), self.queue.get("enqueued", 0))

    @property
    def processed(self) -> int:
        """How many observations Spark's micro-batches had."""
        return sum(batch.rows for batch in self.batches)

    @property
    def received(self) -> int:
        """How many different observations went into the results that the subscriber has."""
        return sum(result.observations for result in self.results.values())

    @property
    def received_without_temperature(self) -> int:
        """How many of those have no temperature."""
        return sum(result.without_temperature for result in self.results.values())

    @property
    def maxima(self) -> dict[StationDay, float | None]:
        """The daily maxima that the subscriber has."""
        return {day: result.maximum for day, result in self.results.items()}

    @property
    def steps(self) -> int:
        """A number that grows whenever something moves, and never shrinks."""
        queue = self.queue.get("enqueued", 0) + self.queue.get("accepted", 0) + bool(self.queue)
        spark = len(self.phases) + len(self.batches) + self.taken
        return self.sent.total() + len(self.accepted) + queue + spark + self.results_received

    @property
    def counts(self) -> dict[str, int]:
        """How many observations each of those that must agree has counted."""
        return {
            "accepted by the node, say the publishers": sum(self.accepted.values()),
            "accepted by Spark, says the node": self.queue.get("accepted", 0),
            "processed, says Spark": self.processed,
            "received in results, says the subscriber": self.received,
        }

    @property
    def accounted(self) -> int:
        """How many observations are accounted for: the count that is furthest from the truth.

        An observation in the result of another day than its own counts as missing, and so does one with a temperature
        that is counted as one without.
        """
        in_place = sum(
            min(result.without_temperature, expected.without_temperature)
            + min(result.with_temperature, expected.with_temperature)
            for day, result in self.results.items()
            if (expected := self.expected.get(day)) is not None
        )
        return max([*self.counts.values(), in_place], key=lambda count: abs(count - self.rows))

    @property
    def right(self) -> int:
        """How many daily maxima are those that pandas has computed from the file."""
        return sum(
            day in self.results and self.results[day].maximum == result.maximum for day, result in self.expected.items()
        )

    @property
    def is_through(self) -> bool:
        """Whether all agree that every observation is through.

        Then every result is final, too: none has more observations than Spark has seen, and it has seen all.
        """
        return all(count == self.rows for count in self.counts.values())

    @property
    def is_right(self) -> bool:
        """Whether every observation is through and the results are those of pandas: their maxima and their counts."""
        return self.is_through and self.results == self.expected

    def wrong(self) -> list[str]:
        """Return what is not as it should be, each in a line, of many days only the first."""
        lines = [f"{what}: {count:,} of {self.rows:,}" for what, count in self.counts.items() if count != self.rows]
        days = [
            f"{day}: {_said(self.expected.get(day))}, says pandas; {_said(self.results.get(day))}, says Spark"
            for day in sorted(self.expected.keys() | self.results.keys())
            if self.expected.get(day) != self.results.get(day)
        ]
        more = [f"... and {len(days) - _LISTED:,} more days"] if len(days) > _LISTED else []
        return [*lines, *days[:_LISTED], *more]

    def so_far(self) -> str:
        """Return how far a run came that was ended early, in the numbers that the view shows."""
        return (
            f"of {self.rows:,} observations {self.published:,} were published, {self.processed:,} processed by Spark, "
            f"{self.received:,} received in results"
        )

    def verdict(self) -> str:
        """Return what came of a run to the end."""
        return (
            f"{self.right} of {len(self.expected)} daily maxima right, "
            f"{self.accounted} of {self.rows} observations accounted for"
        )


def _said(result: Result | None) -> str:
    if result is None:
        return "no such day"
    maximum = "no maximum" if result.maximum is None else f"maximum {result.maximum:g}"
    return f"{maximum} of {result.observations} observations, {result.without_temperature} without temperature"
