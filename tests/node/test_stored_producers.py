"""What a failed commit changes in the numbers that are known of producers."""

from __future__ import annotations

from typing import Any, cast

from rstreams.errors import StoreError
from rstreams.node.seen_messages import Seen
from rstreams.node.stored_producers import StoredProducers
from rstreams.store import Chain


class _Partition:
    """What `StoredProducers` uses of a partition."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.records: dict[str, bytes] = {}

    def fail(self, numbered: StoredProducers, changes: int) -> None:
        """Let the changes on their way fail: the first failure begins a new chain."""
        chain, self.chain = self.chain, Chain()
        for _ in range(changes):
            numbered.heard(chain, StoreError("the disk is full"))


def _made() -> tuple[Seen, _Partition, StoredProducers]:
    seen, partition = Seen(), _Partition()
    return seen, partition, StoredProducers(seen, cast("Any", partition), 0.0, seen.gaps)


def test_numbers_below_those_of_a_failed_commit_do_not_count_as_stored() -> None:
    seen, partition, numbered = _made()
    partition.records |= numbered.note([("p", 6), ("p", 7)])
    partition.records |= numbered.note([("p", 8)])
    partition.fail(numbered, 2)
    assert not seen.has(("p", 0))
    assert not seen.has(("p", 5))
    assert partition.records == {}
    assert seen.gaps.is_behind(("p", 7))
    assert not seen.gaps.is_behind(("p", 6))


def test_what_was_stored_before_a_failed_commit_stays_known() -> None:
    seen, partition, numbered = _made()
    partition.records |= numbered.note([("p", 2)])
    numbered.heard(partition.chain, None)
    partition.records |= numbered.note([("p", 6), ("q", 0)])
    partition.fail(numbered, 1)
    assert seen.has(("p", 2))
    assert not seen.has(("p", 3))
    assert not seen.has(("q", 0))
    assert list(partition.records) == ["producer/p"]
