"""The holds of a sending link: of items that wait to be sent, and of deliveries that are known by runs.

Items that were handed over together stay together: their holds are one run (`rstreams._core.holds.HoldRun`), and
deliveries of one run are accepted in one call. A hold on a single item is made only when the item is not accepted, or
when its link ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias, cast

from rstreams._core.holds import NO_HOLD, HoldRun, NoHolds
from rstreams.abc import Hold

SentRun: TypeAlias = tuple[range, Sequence[bytes], list[int], HoldRun]
"""Deliveries that were sent together: their tags, their messages if these are kept, their sizes and their holds."""


class WaitingHolds:
    """The holds of the items that wait, in their order: single ones, and runs."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        """Have none."""
        self._runs: list[list[Hold] | HoldRun] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def append(self, hold: Hold) -> None:
        """Put the hold of one item behind the others."""
        runs = self._runs
        if runs and type(runs[-1]) is list:
            runs[-1].append(hold)
        else:
            runs.append([hold])

    def put(self, run: HoldRun) -> None:
        """Put the holds of a run behind the others."""
        if run:
            self._runs.append(run)

    def put_first(self, holds: list[Hold]) -> None:
        """Put holds before the others."""
        if holds:
            self._runs.insert(0, holds)

    def take(self, count: int) -> list[list[Hold] | HoldRun]:
        """Take out the first `count` holds, in the runs that they came in."""
        runs = self._runs
        if len(runs) == 1 and len(runs[0]) == count:
            self._runs = []
            return runs
        taken: list[list[Hold] | HoldRun] = []
        while count:
            run = runs[0]
            if len(run) > count:
                taken.append(run[:count])
                runs[0] = run[count:]
                break
            taken.append(run)
            del runs[0]
            count -= len(run)
        return taken

    def remove(self, hold: Hold) -> int:
        """Take a single hold out; return the place that it had, -1 if it is not there."""
        at = 0
        for run in self._runs:
            if type(run) is list and hold in run:
                place = run.index(hold)
                del run[place]
                return at + place
            at += len(run)
        return -1

    def take_all(self) -> list[Hold]:
        """Take out the hold of each item."""
        runs, self._runs = self._runs, []
        return list(chain.from_iterable(runs))


def as_run(holds: list[Hold] | HoldRun) -> HoldRun | None:
    """Return holds that can be let go in one call as one run; None if each is to be let go by itself."""
    if type(holds) is not list:  # `isinstance` would call code in Python, because HoldRun is abstract
        return cast("HoldRun", holds)
    return NoHolds(len(holds)) if holds.count(NO_HOLD) == len(holds) else None


class SentRuns:
    """Unsettled deliveries that are known by runs, in the order in which they were sent."""

    __slots__ = ("_begin", "_runs")

    def __init__(self) -> None:
        """Have none."""
        self._runs: deque[SentRun] = deque()
        self._begin = 0  # how many deliveries of the first run are settled

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def first(self) -> int:
        """The tag of the first delivery; there must be one."""
        return self._runs[0][0][self._begin]

    def add(self, run: SentRun) -> None:
        """Put a run behind the others."""
        self._runs.append(run)

    def take(self, most: int) -> tuple[int, HoldRun]:
        """Take out up to `most` deliveries of the first run.

        Returns: How many bytes their messages have, and their holds.
        """
        (_, _, sizes, holds), begin = self._runs[0], self._begin
        size = len(sizes)
        end = self._begin = min(begin + most, size)
        if 2 * end > size:  # holds keep their items: a run that is settled little by little must let go of some
            first, self._begin = self._runs.popleft(), 0
            if end < size:
                self._runs.appendleft(_behind(first, end))
        if end - begin < size:
            sizes, holds = sizes[begin:end], holds[begin:end]
        return sum(sizes), holds

    def take_all(self) -> Iterator[SentRun]:
        """Take out all runs."""
        runs, begin = self._runs, self._begin
        self._runs, self._begin = deque(), 0
        for run in runs:
            yield _behind(run, begin) if begin else run
            begin = 0


def _behind(run: SentRun, begin: int) -> SentRun:
    tags, payloads, sizes, holds = run
    return tags[begin:], payloads[begin:], sizes[begin:], holds[begin:]


def end_each(holds: list[Hold], error: BaseException | None) -> Iterator[None]:
    """Give back unsettled items, one at a time: unchanged, or as failed if the receiver may have processed them."""
    for hold in holds:
        if error is None:
            hold.release()
        else:
            hold.fail(error)
        yield
