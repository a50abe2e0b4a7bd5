"""explain: where a running pipeline stands, and which of its stages the others wait for.

Theory of operation. Demand goes up through the stages, items come down. Wherever a pipeline stands still there is, on
the way up from its subscriber, a last stage that still owes items: either it asks nobody for more, and then it is what
all others wait for; or it is a source, and then the source is. `stalls` walks that way, along every branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, Scannable, label_of, stall_of
from rstreams.abc import Publisher, Subscription

__all__ = ["Explanation", "StageReport", "explain"]


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of a run, as it stood when it was looked at.

    Attributes:
        name: The operator or source, or the text given to `name`.
        counts: What its subscriber has requested from it and received; None if it cannot tell.
        upstream: The stages that its items come from.
        waits_for: What it waits for besides them, as a sentence; empty if it knows of nothing.
        named: Whether it is no more than the text given to `name`.
        asks_for_no_more: Why its subscriber has asked for no more, of the stage next to the subscriber; empty if that
            is not known.
    """

    name: str
    counts: Counts | None
    upstream: tuple[StageReport, ...]
    waits_for: str = ""
    named: bool = False
    asks_for_no_more: str = ""

    def lines(self, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Yield the lines of the tree from here up: what stands at the left, and the counts."""
        yield "  " * depth + self.name, _told(self.counts)
        for stage in self.upstream:
            yield from stage.lines(depth + 1)

    def stalls(self, called: str = "") -> Iterator[str]:
        """Yield what this stage waits for, a sentence for each branch that stands still.

        Args:
            called: The text given to `name` right behind it.
        """
        name = f"{self.name} ({called})" if called else self.name
        owing = [stage for stage in self.upstream if stage.counts is None or stage.counts.outstanding]
        if owing:
            for stage in owing:
                yield from stage.stalls(self.name if self.named else "")
        elif self.counts is None:
            yield f"{name} does not tell what it has sent"
        elif self.waits_for:
            yield f"{name} stalls: it owes {_items(self.counts.outstanding)}; {self.waits_for}"
        elif self.upstream:
            kept = f" and keeps {_items(self.counts.buffered)}" if self.counts.buffered else ""
            yield (
                f"{name} stalls: it owes {_items(self.counts.outstanding)}{kept}, and asks "
                f"{' and '.join(stage.name for stage in self.upstream)} for none"
            )
        else:
            yield f"{name} stalls: it owes {_items(self.counts.outstanding)}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The live runs of a stream; `print` shows them.

    Attributes:
        runs: For each run, the stage next to the subscriber, with all the others above it.
    """

    runs: tuple[StageReport, ...]

    def __str__(self) -> str:
        """Return the runs as trees, the subscriber's side first, each with what it waits for."""
        if not self.runs:
            return "no run of this stream is in sight"
        return "\n\n".join("\n".join(_shown(number, run)) for number, run in enumerate(self.runs, 1))


def explain(publisher: Publisher[Any]) -> Explanation:
    """Return where the live runs of `publisher` stand."""
    runs: Callable[[], Sequence[Any]] = getattr(publisher, "runs", tuple)
    live = [run for run in runs() if not run.ended]
    return Explanation(tuple(replace(reported(run), asks_for_no_more=stall_of(run)) for run in live))


def reported(subscription: Subscription) -> StageReport:
    """Return where a run stands, from this subscription up."""
    if not isinstance(subscription, Scannable):
        return StageReport(label_of(subscription), None, ())
    upstream = tuple(reported(each) for each in subscription.upstreams())
    return StageReport(
        subscription.label, subscription.counts(), upstream, subscription.waits_for, subscription.is_caption
    )


def _shown(number: int, run: StageReport) -> Iterator[str]:
    lines = list(run.lines(1))
    width = max(len(left) for left, _ in lines)
    yield f"run {number}"
    for left, right in lines:
        yield f"{left.ljust(width)}  {right}"
    if run.counts is not None and not run.counts.outstanding:
        why = f"; {run.asks_for_no_more}" if run.asks_for_no_more else ""
        yield f"  -> the subscriber stalls: it has all that it requested{why}"
        return
    for stall in dict.fromkeys(run.stalls()):  # branches may meet in one source
        yield f"  -> {stall}"


def _told(counts: Counts | None) -> str:
    if counts is None:
        return "requested ?  delivered ?  outstanding ?  buffered ?"
    return (
        f"requested {_number(counts.requested)}  delivered {counts.delivered}  "
        f"outstanding {_number(counts.outstanding)}  buffered {counts.buffered}"
    )


def _number(items: int) -> str:
    return "unbounded" if items >= UNBOUNDED else str(items)


def _items(items: int) -> str:
    return "all it has" if items >= UNBOUNDED else f"{items} item{'' if items == 1 else 's'}"
