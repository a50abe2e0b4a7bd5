"""The claims on the items that wait to be sent: items that were handed over together stay together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rstreams._core.claims import EACH_HOLD, NO_HOLD, Claims, no_claims
from rstreams.abc import Hold


class WaitingClaims:
    """The claims on the items that wait, in their order: holds on single ones, and claims on runs."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        """Have none."""
        self._runs: list[list[Hold] | Claims] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def append(self, hold: Hold) -> None:
        """Put the hold of one item behind the others."""
        runs = self._runs
        if runs and type(runs[-1]) is list:
            runs[-1].append(hold)
        else:
            runs.append([hold])

    def put(self, claims: Claims) -> None:
        """Put the claims on a run behind the others."""
        if len(claims):
            self._runs.append(claims)

    def put_first(self, holds: list[Hold]) -> None:
        """Put holds before the others."""
        if holds:
            self._runs.insert(0, holds)

    def take(self, count: int) -> list[Claims]:
        """Take out the claims on the first `count` items, in the runs that they came in."""
        runs = self._runs
        if len(runs) == 1 and len(runs[0]) == count:
            self._runs = []
            return [_as_claims(runs[0])]
        taken: list[Claims] = []
        while count:
            run = runs[0]
            if len(run) > count:
                if isinstance(run, Claims):
                    taken.append(run.cut(count))
                else:
                    taken.append(_as_claims(run[:count]))
                    del run[:count]
                break
            taken.append(_as_claims(run))
            del runs[0]
            count -= len(taken[-1])
        return taken

    def take_first(self) -> Hold:
        """Take out the hold of the first item."""
        (claims,) = self.take(1)
        return next(claims.each())

    def remove(self, place: object) -> tuple[int, Hold | None]:
        """Take out the claim on a single item, which is on this place; return where the item waits, and the claim."""
        at = 0
        for number, run in enumerate(self._runs):
            if isinstance(run, Claims):
                at += len(run)
                continue
            for hold in run:
                if isinstance(hold, Claims) and place in hold.places:
                    run.remove(hold)
                    if not run:
                        del self._runs[number]  # otherwise it would be sent as a run without deliveries
                    return at, hold
                at += 1
        return at, None

    def take_all(self) -> list[Hold]:
        """Take out the hold of each item."""
        runs, self._runs = self._runs, []
        return list(chain.from_iterable(run if type(run) is list else _as_claims(run).each() for run in runs))


def _as_claims(run: list[Hold] | Claims) -> Claims:
    if isinstance(run, Claims):
        return run
    return no_claims(len(run)) if run.count(NO_HOLD) == len(run) else Claims(EACH_HOLD, 0, run)


def cut_off(runs: list[Claims], count: int) -> Claims:
    """Cut off the claims on the first `count` items of some runs; there are as many."""
    if len(runs[0]) >= count:
        claims = runs[0].cut(count)
        if not len(runs[0]):
            del runs[0]
        return claims
    holds: list[Hold] = []
    while len(holds) < count:
        claims = runs[0].cut(count - len(holds))
        if not len(runs[0]):
            del runs[0]
        holds += claims.each()
    return _as_claims(holds)


def end_each(holds: list[Hold], error: BaseException | None) -> Iterator[None]:
    """Give back unsettled items, one at a time: unchanged, or as failed if the receiver may have processed them."""
    for hold in holds:
        if error is None:
            hold.release()
        else:
            hold.fail(error)
        yield
