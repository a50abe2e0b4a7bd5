"""Changes that could not be made yet, in their order. A later change takes the place of those that it replaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rstreams.errors import StoreError
from rstreams.store.changes import Delete, Modification, Note, Put
from rstreams.store.entries import Done, merged

_MOST_PARTS: Final = 1024
"""The most ranges of deletions that are put together: a commit of them needs little room."""


class KeptChanges:
    """Changes that wait for the disk.

    Their number is bounded: each message is deleted once, and of each note and record only the last change is kept.
    """

    def __init__(self) -> None:
        """Have none."""
        self._changes: dict[int, Modification] = {}  # by `id`
        self._puts: dict[tuple[str, str], Put] = {}
        self._notes: dict[str, dict[int, Note]] = {}
        self._deletes: dict[str, Delete] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def take(self) -> list[Modification]:
        """Take all out, in their order."""
        changes = list(self._changes.values())
        for known in (self._changes, self._puts, self._notes, self._deletes):
            known.clear()
        return changes

    def add(self, changes: Iterable[Modification]) -> None:
        """Keep more changes, which may not be refused."""
        for change in changes:
            name = change.partition.name
            if isinstance(change, Note):
                notes = self._notes.setdefault(name, {})
                self._replace(notes.get(change.position), change)
                notes[change.position] = change
            elif isinstance(change, Put):
                self._replace(self._puts.get((name, change.key)), change)
                self._puts[name, change.key] = change
            elif isinstance(change, Delete):
                self._delete(name, change)
            self._changes[id(change)] = change

    def add_all(self, changes: Iterable[Modification]) -> None:
        """Keep more changes for a short time, also those that may be refused."""
        self._changes.update((id(change), change) for change in changes)

    def _delete(self, name: str, change: Delete) -> None:
        notes = self._notes.get(name, {})
        for position in [each for each in notes if any(each in part for part in change.ranges())]:
            self._replace(notes.pop(position), change)  # it would be deleted at once
        earlier = self._deletes.get(name)
        if earlier is not None and len(earlier.ranges()) + len(change.ranges()) <= _MOST_PARTS:
            change.parts = merged([*earlier.ranges(), *change.ranges()])
            self._replace(earlier, change)
        self._deletes[name] = change

    def _replace(self, earlier: Delete | Note | Put | None, later: Delete | Note | Put) -> None:
        """Keep `later` in place of both."""
        if earlier is not None:
            del self._changes[id(earlier)]
            later.sync_s = min(earlier.sync_s, later.sync_s)
            later.done = _both(earlier.done, later.done)


class _All:
    """The functions `done` of several changes, called as one."""

    __slots__ = ("_told",)

    def __init__(self, first: Done, second: Done) -> None:
        self._told = [first, second]

    def add(self, done: Done) -> None:
        """Add a function."""
        self._told.append(done)

    def __call__(self, error: StoreError | None) -> None:
        for done in self._told:
            done(error)


def _both(first: Done | None, second: Done | None) -> Done | None:
    if first is None or second is None:
        return first or second
    if isinstance(first, _All):
        first.add(second)
        return first
    return _All(first, second)
