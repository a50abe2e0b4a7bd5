"""group_by: the items sorted by key, with a stream for each key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._stages.part import LiveParts, Part
from rstreams._stages.split import InParts
from rstreams._stages.splitter import Splitting
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import BufferOverflow

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class GroupedPublisher(Part[T], Generic[K, T]):
    """The items of one key: a publisher for one subscriber.

    Attributes:
        key: The result of `key(item)` for all its items.
    """

    __slots__ = ("key",)

    def __init__(self, parts: LiveParts[T], key: K) -> None:
        """Start with no items."""
        super().__init__(parts)
        self.key = key

    @property
    def label(self) -> str:
        """The name of the group: its key."""
        return f"group {self.key!r}"


def group_by(
    source: Publisher[T], key: Callable[[T], K], *, prefetch: int = 256, max_groups: int | None = None
) -> Publisher[GroupedPublisher[K, T]]:
    """Emit a stream for each key of the items of `source`; it emits the items with that key.

        --1--2--3--4-----|
          group_by(x % 2)
        --+--+-----------|
          |  2-----4-----|
          1-----3--------|

    A group takes one subscriber; a second one gets an error. Its attribute `key` has its key. It ends with the source.
    If its subscriber cancels it, the next item of its key opens a new group.

    Args:
        source: The publisher of the items.
        key: Called once for each item, in the task that delivers it; it must not block. Its result must be hashable.
        prefetch: The most items, requested or waiting, in all groups together; at least 1.
        max_groups: The most groups at the same time, or None for no limit; at least 1. The stage keeps each group.
            Without a limit, its memory grows with the number of keys.

    Demand: The first request for a group asks the source for `prefetch` items, and for more in batches as items leave.
        Groups are emitted on demand; the items of a group that has not been requested wait in it. When `prefetch` items
        wait, no more are requested. A group that is not read therefore stops all others: each group needs a subscriber
        that reads it or cancels it. A `flat_map` behind it needs a `concurrency` of at least the number of groups. With
        a smaller one, a time may come when nothing can move any more. The stream then ends with `DemandDeadlock`, if it
        runs in a scope, as every terminal does.
    Holds: An item that waits is held, and shares the outcome of its emission. When the stream is cancelled, all items
        that wait are given back (released). Items that wait in a cancelled group are done.
    Errors: `ConfigError` at the call if an option is less than 1. An exception that `key` raises, or a `TypeError` for
        a key that is not hashable, ends the stream and all groups unchanged; the item counts as failed. The same
        applies to `BufferOverflow`, for the item that would open more than `max_groups` groups. An error of the source
        goes to the stream and all groups. In each of them it comes after the items that wait, and so do the errors
        above.
    Cancels: The source, when the stream of groups is cancelled and no group has a subscriber. Groups that have a
        subscriber go on. Groups without one are closed, and items with new keys are dropped.
    Context: The tasks and timers of the source belong to the run: a group may be read when the scope of the stream of
        groups has ended.
    Spec: Reactive Streams 1.1, 1.3, 2.13, 3.3, 3.17.

    Example:
        >>> groups = Stream.range(10).group_by(lambda x: x % 3)
        >>> await groups.flat_map(lambda group: Stream(group).reduce(lambda a, x: a + x, 0)).to_list()
        [18, 12, 15]
    """
    require_plain("group_by", "key", key)
    require_count("group_by", "prefetch", prefetch, 1)
    if max_groups is not None:
        require_count("group_by", "max_groups", max_groups, 1, unit="")
    return InParts(source, lambda downstream: _GroupBy(downstream, key, prefetch, max_groups))


class _GroupBy(Splitting[T, GroupedPublisher[K, T]], Generic[T, K]):
    __slots__ = ("_groups", "_key", "_max_groups")

    operator = "group_by"

    part_name = "group"

    def __init__(
        self,
        downstream: Subscriber[GroupedPublisher[K, T]],
        key: Callable[[T], K],
        prefetch: int,
        max_groups: int | None,
    ) -> None:
        super().__init__(downstream, prefetch)
        self._key = key
        self._max_groups = max_groups
        self._groups: dict[K, GroupedPublisher[K, T]] = {}

    def on_next(self, item: T) -> None:
        if self._over:
            return
        try:
            key = self._key(item)
            group = self._groups.get(key)
        except Exception as error:
            self._fail_item(error)
            return
        if group is None:
            self._open(key, item)
            return
        send = group.send
        if send is None:
            self._parts.keep(group, item)
            return
        delivered = group.delivered + 1
        group.delivered = delivered
        if delivered == group.requested:
            group.send = None
        try:
            send(item)
        except BaseException as error:
            self._parts.broken(error, group)
            raise
        bound = self._bound
        left = bound.left + 1
        bound.left = left
        if left >= bound.ask_at:
            bound.ask()

    def _open(self, key: K, item: T) -> None:
        if self._ended:  # new groups are not wanted any more
            self._parts.share((), item)
            return
        if len(self._groups) == self._max_groups:
            text = f"group_by(max_groups={self._max_groups}): the key {key!r} would open a group more than that"
            self._fail_item(BufferOverflow(text))
            return
        group = GroupedPublisher(self._parts, key)
        self._groups[key] = group
        self._add(group, group)
        self._parts.keep(group, item)
        if not self._over:
            self._send_parts()

    def _stop(self) -> None:
        self._groups = {}

    def _forgotten(self, part: Part[T]) -> None:
        assert isinstance(part, GroupedPublisher)
        if self._groups.get(part.key) is part:
            del self._groups[part.key]
