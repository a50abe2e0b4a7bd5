"""Arithmetic on offsets: how much of each partition a batch gets, and how a batch is split into tasks.

An offset of a query is a map, which Spark keeps in the checkpoint:

    {"events/0": 1200, "events/1": 1180, "maxRecordsPerPartition": 1000}

Each key with a slash is a partition, and its value is the offset of the next message. The other keys are about the
batch that ends there:

- the options by which it is split,
- `firsts`: where it begins in partitions where the offset before does not tell it, such as `{"events/2": 700}`.
- `incarnations`: which log each offset is of, such as `{"events/2": "552c771a935a44ff"}`, as far as the peer tells it.

In the first batch these are all partitions: Spark does not keep the start of that batch, and asks for it again. Later
they are new partitions, and partitions of which messages were deleted before they were read, or that were made anew.

Therefore the tasks of a batch follow from the two offsets of the batch alone. A batch that is run again, also with
other options, has the same rows in the same tasks in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from rstreams.errors import ConfigError

Positions: TypeAlias = dict[str, int]
"""An offset for each partition, by its key."""

MIN_PARTITIONS: Final = "minPartitions"
MAX_RECORDS: Final = "maxRecordsPerPartition"
FIRSTS: Final = "firsts"
INCARNATIONS: Final = "incarnations"
_SPLITS: Final = (MIN_PARTITIONS, MAX_RECORDS)
_OF_BATCH: Final = (*_SPLITS, FIRSTS, INCARNATIONS)


class Split(NamedTuple):
    """How a batch is split into tasks.

    Attributes:
        min_partitions: The least number of tasks, if there are as many messages; None: any.
        max_records: The most messages of a task; None: any number.
    """

    min_partitions: int | None = None
    max_records: int | None = None


class Range(NamedTuple):
    """Messages that one task reads.

    Attributes:
        key: The partition.
        first: The offset of the first message.
        end: The offset behind the last message.
    """

    key: str
    first: int
    end: int

    @property
    def messages(self) -> int:
        """The most messages in the range: some offsets may have none."""
        return self.end - self.first


def made_offset(
    positions: Mapping[str, int],
    split: Split,
    firsts: Mapping[str, int] = {},
    incarnations: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Return the offset for Spark's checkpoint: of a batch that ends at `positions`.

    Args:
        positions: Where it ends.
        split: How it is split.
        firsts: Where it begins in partitions where the offset before does not tell it.
        incarnations: Which log each position is of; "" where the peer does not tell it.
    """
    options = {name: value for name, value in zip(_SPLITS, split, strict=True) if value is not None}
    told = {key: each for key, each in incarnations.items() if each and key in positions}
    maps = {FIRSTS: dict(firsts), INCARNATIONS: told}
    return {**positions, **options, **{name: each for name, each in maps.items() if each}}


def is_log_offset(offset: object) -> bool:
    """Return whether an offset of a checkpoint is one of log mode."""
    if not isinstance(offset, dict):
        return False
    splits = all(type(offset.get(name, 1)) is int for name in _SPLITS)
    places = {name: value for name, value in offset.items() if name not in _OF_BATCH}
    incarnations = offset.get(INCARNATIONS, {})
    known = isinstance(incarnations, dict) and all(type(each) is str for each in incarnations.values())
    return splits and known and bool(places) and _are_places(places) and _are_places(offset.get(FIRSTS, {}))


def _are_places(places: object) -> bool:
    """Return whether these are offsets of partitions, by their keys."""
    return isinstance(places, dict) and all(
        type(at) is int and at >= 0 and name.rpartition("/")[2].isdecimal() for name, at in places.items()
    )


def read_keys(offset: Mapping[str, Any]) -> list[str]:
    """Return the keys of the partitions of an offset."""
    return [name for name in offset if name not in _OF_BATCH]


def read_offset(offset: Mapping[str, Any]) -> tuple[Positions, Split]:
    """Return the positions of an offset, and how the batch that ends there is split.

    Errors: `ConfigError` for an offset that is not one of log mode.
    """
    if not is_log_offset(offset):
        raise of_another_source(offset, "a log ({'log/partition': n, ...})")
    positions = {key: int(offset[key]) for key in read_keys(offset)}
    return positions, Split(offset.get(MIN_PARTITIONS), offset.get(MAX_RECORDS))


def of_another_source(offset: object, wanted: str) -> ConfigError:
    """Return the error for the offset of a checkpoint that is not of the kind that is wanted."""
    return ConfigError(
        f"the checkpoint has the offset {offset!r}, which is not one of {wanted}: it belongs to a query with another "
        "source. Use a new checkpoint"
    )


def read_firsts(offset: Mapping[str, Any]) -> Positions:
    """Return where the batch that ends at an offset begins, in partitions where the offset before does not tell it.

    A checkpoint of an older version does not tell it. Such a batch begins at its start, or at 0 in a new partition.
    """
    return dict(offset.get(FIRSTS, {}))


def read_incarnations(offset: Mapping[str, Any]) -> dict[str, str]:
    """Return which log each position of an offset is of; a checkpoint of an older version does not tell it."""
    return dict(offset.get(INCARNATIONS, {}))


def ranges_between(start: Mapping[str, int], end: Mapping[str, int]) -> list[Range]:
    """Return the messages of each partition between two positions, those with none left out.

    A partition that is not in `start` begins at 0. One that ends before its start has been made anew, and is read from
    0 also.
    """
    ranges = []
    for key in sorted(end, key=order):
        first, last = start.get(key, 0), end[key]
        if last < first:
            first = 0
        if last > first:
            ranges.append(Range(key, first, last))
    return ranges


def order(key: str) -> tuple[str, int]:
    """Return the place of a partition among others: by log, then by number."""
    log, _, number = key.rpartition("/")
    return log, int(number)


def tasks_of(ranges: list[Range], split: Split) -> list[Range]:
    """Return the parts of the ranges, one for each task: as large as each other within a range, and never empty."""
    total = sum(each.messages for each in ranges)
    least = split.min_partitions or 0
    tasks = []
    for each in ranges:
        parts = 1 if split.max_records is None else -(-each.messages // split.max_records)
        if least > len(ranges):
            parts = max(parts, -(-each.messages * least // total))
        parts = min(parts, each.messages)
        bounds = [each.first + each.messages * part // parts for part in range(parts + 1)]
        tasks += [Range(each.key, first, end) for first, end in pairwise(bounds)]
    return tasks


def shared_out(waiting: Mapping[str, int], most: int) -> Positions:
    """Return how many messages of each partition a batch gets, if it gets `most` at most.

    Each partition gets a share in proportion to the messages that wait in it. It gets at least one message, unless
    there are more partitions than messages; then those with the most waiting messages get one.

    Args:
        waiting: The messages that wait, by partition.
        most: The most messages of the batch.
    """
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    queue = sorted((key for key in waiting if waiting[key]), key=lambda key: (-waiting[key], order(key)))
    shares = dict.fromkeys(waiting, 0) | dict.fromkeys(queue[:most], 1)
    left, rest = most - sum(shares.values()), total - len(queue)
    if left <= 0:
        return shares
    more = {key: (waiting[key] - 1) * left // rest for key in queue}
    over = left - sum(more.values())
    for key in queue:
        room = min(over, waiting[key] - shares[key] - more[key])
        shares[key] += more[key] + room
        over -= room
    return shares
