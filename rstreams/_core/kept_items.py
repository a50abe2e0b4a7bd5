"""Items that wait for a consumer, in their order. Those behind the first ones may be not made yet.

A subscriber that keeps items makes few of them at a time. Many made items do not fit the cache of a processor, and the
garbage collector looks at each of them again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from operator import length_hint
from typing import Generic, TypeVar

from rstreams._core.claims import NOTHING
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.run import Run

T = TypeVar("T")


class KeptItems(Generic[T]):
    """Items that wait.

    Attributes:
        made: The first ones, which are made.
        unmade: How many others there are behind these.
        error: Why the item behind these cannot be made; None if that is not known.
    """

    __slots__ = ("_broken", "_runs", "error", "made", "unmade")

    def __init__(self) -> None:
        """Have none."""
        self.made: deque[T] = deque()
        self.error: BaseException | None = None
        self._runs: deque[Run[T]] = deque()  # the items behind these
        self.unmade = 0
        self._broken: Run[T] | None = None  # has the item that cannot be made

    def put(self, items: Iterable[T]) -> None:
        """Put items that are made behind the others."""
        if self.unmade:
            behind = list(items)
            self._put_unmade(Run(NOTHING, 0, range(len(behind)), iter(behind)))
        else:
            self.made.extend(items)

    def put_run(self, run: Run[T], claims: ClaimsInOrder | None) -> None:
        """Put the items of a run behind the others, and the claims on them into `claims`; they are made when wanted.

        If the run does not wait, they are made now: an exception of a step passes through, and those before are kept.
        """
        if run.waits:
            kept = run.keep(run.size)
            if claims is not None:
                claims.put(kept)
            self._put_unmade(run)
        elif not self.unmade:
            run.put_into(self.made, claims)
        else:
            behind: list[T] = []
            try:
                run.put_into(behind, claims)
            finally:
                self._put_unmade(Run(NOTHING, 0, range(len(behind)), iter(behind)))

    def _put_unmade(self, run: Run[T]) -> None:
        if run.size:
            self._runs.append(run)
            self.unmade += run.size

    def make(self, most: int) -> None:
        """Make items until `most` are made, but none behind an item that cannot be made."""
        made = self.made
        while self._runs and len(made) < most and self._broken is None:
            run, before = self._runs[0], len(made)
            try:
                made.extend(islice(run.items(), most - before))
            except BaseException as error:
                self.error, self._broken = error, run
                if not isinstance(error, Exception):
                    raise
            finally:
                self.unmade -= len(made) - before
                if not length_hint(run):
                    self._runs.popleft()

    def refuse(self) -> bool:
        """Let go of the item that cannot be made, and tell its source; return whether the stream goes on."""
        error, run = self.error, self._broken
        assert error is not None, "otherwise there is no such item"
        assert run is not None, "likewise"
        self.error = self._broken = None
        self.unmade -= 1
        return run.refuse(error)

    def clear(self) -> None:
        """Let go of all items."""
        self.made.clear()
        self._runs.clear()
        self.unmade = 0
        self.error = self._broken = None
