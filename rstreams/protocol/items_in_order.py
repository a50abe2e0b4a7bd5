"""Items of a link that wait for a consumer, which is through with them in their order.

They are kept as the runs in which they came, and settled as runs. The consumer says how many are done. To say so for
each item would cost more than the item. It therefore announces once that some are done, and the link asks how many when
it has its turn. The link has no turn while the consumer does not wait, so its peer hears of each item as early as it
would by a call for each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from rstreams._core.holds import NO_HOLD
from rstreams.abc import Hold
from rstreams.protocol.delivery import ACCEPTED, RELEASED, DeliveryHold, Outcome
from rstreams.protocol.gathered_items import Keeps
from rstreams.protocol.incoming_outcomes import IncomingOutcomes

_HELD: Final = -1
"""Stands in the place of the number of losses where a run is holds on items."""


class ItemsInOrder:
    """The claims of a consumer on the items that wait for it; see `rstreams._core.gathering.ClaimsInOrder`.

    Attributes:
        asks: Whether the link asks how many items are done.
        whole_runs: Whether all items of a run are kept that was handed over in one call.
    """

    asks = True

    __slots__ = ("_begin", "_incoming", "_last", "_outcomes", "_released", "_runs", "whole_runs")

    def __init__(self, incoming: Keeps, outcomes: IncomingOutcomes, *, whole_runs: bool) -> None:
        """Have none yet of the items `incoming`, which are settled by `outcomes`."""
        self.whole_runs = whole_runs
        self._incoming = incoming
        self._outcomes = outcomes
        self._runs: deque[tuple[int, Sequence[Any]]] = deque()  # the oldest first
        self._begin = 0  # of the first run, behind the items that are through
        self._last: list[Hashable] = []  # the run that single items are put into, if it is the last one
        self._released = False

    # the consumer calls these

    def keep(self) -> None:
        """Keep the item in `on_next`."""
        self._incoming.keep(self)

    def announce(self, settle: Callable[[], None]) -> None:
        """Have `settle` called when the link tells its peer of outcomes."""
        self._outcomes.announce(settle)

    def done(self, items: int) -> None:
        """Accept so many items, the oldest."""
        while items:
            items -= self._settle_some(items, ACCEPTED)
        self._outcomes.wake()

    def fail(self, error: BaseException) -> None:
        """Give the oldest item back as failed, or as the subscription's failure strategy says."""
        losses, run = self._cut(1)
        if losses == _HELD:
            run[0].fail(error)
        else:
            self._outcomes.fail((losses, run[0]), b"", error)

    def take(self) -> Hold:
        """Take the claim on the oldest item."""
        losses, run = self._cut(1)
        hold: Hold = run[0] if losses == _HELD else DeliveryHold(self._outcomes, (losses, run[0]))
        return hold

    def release(self) -> None:
        """Give all items back untouched, also those that are put in later."""
        self._released = True
        while self._runs:
            self._settle_some(len(self._runs[0][1]), RELEASED)
        self._outcomes.wake()

    # the link calls these

    def put_run(self, losses: int, run: Sequence[Any]) -> None:
        """Keep items that have been handed over together, after so many losses of the link."""
        self._runs.append((losses, run))
        if self._released:
            self.release()

    def put(self, losses: int, delivery: Hashable) -> None:
        """Keep an item that has been handed over."""
        runs = self._runs
        if runs and runs[-1][1] is self._last and runs[-1][0] == losses:
            self._last.append(delivery)
        else:
            self._last = [delivery]
            self.put_run(losses, self._last)

    def put_hold(self, hold: Hold) -> None:
        """Keep an item that somebody else holds, too."""
        self.put_run(_HELD, [hold])

    def put_settled(self, items: int) -> None:
        """Keep the place of items that came settled."""
        self.put_run(_HELD, [NO_HOLD] * items)

    def _settle_some(self, most: int, outcome: Outcome) -> int:
        """Settle some of the oldest items, `most` of them at most; return how many."""
        losses, run = self._cut(most)
        if losses != _HELD:
            self._outcomes.settle_run(losses, run, outcome)
            return len(run)
        for hold in run:
            if outcome is ACCEPTED:
                hold.done()
            else:
                hold.release()
        return len(run)

    def _cut(self, most: int) -> tuple[int, Sequence[Any]]:
        """Take up to `most` items of the first run."""
        (losses, run), begin = self._runs[0], self._begin
        size = len(run)
        end = begin + most
        if end >= size:
            self._runs.popleft()
            self._begin = 0
            return losses, run[begin:] if begin else run
        self._begin = end
        return losses, run[begin:end]
