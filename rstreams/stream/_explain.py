"""explain: the state of a running pipeline, and the stage that the others wait for.

Theory of operation. Demand goes up through the stages, items come down. In a pipeline that stands still, there is a
last stage on the way up from the subscriber that still owes items. If this stage is a source, all others wait for it.
If it is not, it asks no other stage for more, and all others wait for it too. `stalls` follows that way along every
branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import SEND, Asked, Blocked, Counts, Fluent, Scannable, label_of, stall_of
from rstreams._core.waits import why_run_waits
from rstreams._stages.deadlock import circle_of, find_deadlock
from rstreams.abc import Publisher, Subscription
from rstreams.culprits import Culprit, WaitTree, culprits_of

__all__ = ["Explanation", "StageReport", "explain", "trees_of"]


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of a run, in its state at the time of the look.

    Attributes:
        name: The operator or source, or the text given to `name`.
        counts: The items requested from it and received from it; None if it cannot tell.
        upstream: The stages that its items come from.
        waits_for: The reason for waiting besides them, as a sentence; empty if there is none.
        named: Whether it is only the text given to `name`.
        deadlock: For the stage next to the subscriber: which stages wait only for each other, as a sentence.
        asks_for_no_more: For the stage next to the subscriber: why the subscriber has asked for no more; empty if that
            is not known.
    """

    name: str
    counts: Counts | None
    upstream: tuple[StageReport, ...]
    waits_for: str = ""
    named: bool = False
    asks_for_no_more: str = ""
    deadlock: str = ""

    def lines(self, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Yield the lines of the tree from here up: the text on the left, and the counts."""
        yield "  " * depth + self.name, _told(self.counts)
        for stage in self.upstream:
            yield from stage.lines(depth + 1)

    def stalls(self, called: str = "") -> Iterator[str]:
        """Yield what this stage waits for: a sentence for each branch that stands still.

        Args:
            called: The text given to `name` directly behind it.
        """
        name = f"{self.name} ({called})" if called else self.name
        owing = [stage for stage in self.upstream if stage.counts is None or stage.counts.outstanding]
        if owing:
            for stage in owing:
                yield from stage.stalls(self.name if self.named else "")
        elif self.counts is None:
            yield f"{name} does not tell how many items it has sent"
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
        runs: For each run, the stage next to the subscriber, with all other stages above it.
        culprits: The ends that the runs wait for, as far as this process knows: the most certain one first.
    """

    runs: tuple[StageReport, ...]
    culprits: tuple[Culprit, ...] = ()

    @property
    def culprit(self) -> Culprit | None:
        """The first of the culprits; None if there is none."""
        return self.culprits[0] if self.culprits else None

    def __str__(self) -> str:
        """Return the runs as trees with the subscriber's side first, each with the reason for its waiting."""
        if not self.runs:
            return "no live run of this stream is known"
        return "\n\n".join("\n".join(_shown(number, run)) for number, run in enumerate(self.runs, 1))


def explain(publisher: Publisher[Any]) -> Explanation:
    """Return the state of the live runs of `publisher`."""
    live = _live_runs(publisher)
    return Explanation(
        tuple(replace(reported(run), asks_for_no_more=stall_of(run), deadlock=_deadlock(run)) for run in live),
        culprits_of([why_run_waits(run, Asked()) for run in live]),
    )


def trees_of(publisher: Publisher[Any], asked: Asked) -> tuple[WaitTree, ...]:
    """Return what each live run of `publisher` waits for."""
    source: Publisher[Any] = publisher._source if isinstance(publisher, Fluent) else publisher  # noqa: SLF001 - its own
    return tuple(why_run_waits(run, asked) for run in _live_runs(source))


def _live_runs(publisher: Publisher[Any]) -> list[Any]:
    runs: Callable[[], Sequence[Any]] = getattr(publisher, "runs", tuple)
    return [run for run in runs() if not run.ended]


def reported(subscription: Subscription) -> StageReport:
    """Return the state of a run, from this subscription up."""
    if not isinstance(subscription, Scannable):
        return StageReport(label_of(subscription), None, ())
    upstream = tuple(reported(each) for each in subscription.upstreams())
    return StageReport(
        subscription.label, subscription.counts(), upstream, subscription.waits_for, subscription.is_caption
    )


def _deadlock(run: Subscription) -> str:
    """Describe the deadlock that the run is in."""
    for _, stage in circle_of(SEND, run) or ():
        deadlock = find_deadlock(stage) if isinstance(stage.standing, Blocked) and stage.standing.blocked else None
        if deadlock is not None:
            return str(deadlock)
    return ""


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
    if run.deadlock:
        yield f"  -> deadlock: {run.deadlock}"
        return
    for stall in dict.fromkeys(run.stalls()):  # several branches may meet in one source
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
    return "all its items" if items >= UNBOUNDED else f"{items} item{'' if items == 1 else 's'}"
