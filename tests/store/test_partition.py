"""The laws of what a store gives to messages: positions without gaps, and times that never go back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from rstreams.node.memory_partition import MemoryPartition
from rstreams.store import Store
from tests.store.stores import make_full, opened


class Clock:
    """A clock that somebody sets."""

    now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kept", ["in memory", "in a store"])
def test_a_time_finds_all_that_came_later_whatever_the_clock_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str, seed: int
) -> None:
    chance, clock = random.Random(seed), Clock()  # noqa: S311 - a choice
    times = [chance.choice((900.0, 950.0, 1000.0, 1050.0, 1100.0)) for _ in range(12)]
    memory = MemoryPartition(clock.time)
    for begin in (0, 6):  # the store is opened again in between
        with opened(tmp_path) as used:
            monkeypatch.setattr("rstreams._machine.calendar", clock.time)
            for clock.now in times[begin : begin + 6]:
                memory.append([b"m"])
                used.append([b"m"])
                assert (
                    memory.time_ms == used.partition().time_ms == used.read(used.partition().next - 1).runs[0].time_ms
                )
            monkeypatch.undo()
            for wanted in (0.0, 925.0, 950.0, 1025.0, 1100.0, 2000.0):
                came = (at for at in range(begin + 6) if max(times[: at + 1]) >= wanted)
                expected = next(came, begin + 6)
                found: list[Any] = []
                if kept == "in memory":
                    memory.seek(wanted, found.append)
                else:
                    found.append(used.wait(lambda answer: used.partition().seek(wanted, answer)))  # noqa: B023
                assert found == [expected], (times, wanted)


def full(store: Store, *, is_full: bool) -> None:
    """Have the disk be full, or not any more."""
    store.flush()
    make_full(store, 0 if is_full else None)


@pytest.mark.parametrize("seed", range(3))
def test_messages_that_were_refused_leave_no_gap(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a choice
    accepted: list[bytes] = []
    with opened(tmp_path) as used:
        partition, number, refused, waiting = used.partition(), 0, 0, 0

        def tell(run: list[bytes], error: Exception | None) -> None:
            nonlocal refused, waiting
            waiting -= 1
            if error is None:
                accepted.extend(run)
            else:
                refused += 1

        for _ in range(12):
            full(used.store, is_full=chance.random() < 0.4)
            for _ in range(chance.randint(1, 6)):  # the owner does not hear of the ones before
                run = [
                    b"%d/%d" % (number, at) + bytes(chance.choice((0, 200_000))) for at in range(chance.randint(1, 3))
                ]
                number, waiting = number + 1, waiting + 1
                partition.append(run, lambda error, run=run: tell(run, error), sync_s=60.0)  # type: ignore[misc]
                if chance.random() < 0.3:
                    used.store.finish()
                if chance.random() < 0.2:
                    used.store.flush()  # the store's thread has its turn, and the owner does not hear of it
        full(used.store, is_full=False)
        while waiting:
            used.store.flush()
            used.store.finish()
        assert refused
        assert partition.next == len(accepted)
        assert used.all() == list(enumerate(accepted))
    with opened(tmp_path) as used:
        assert used.partition().next == len(accepted)


def test_what_is_moved_is_in_one_place_whether_the_disk_is_full_or_not(tmp_path: Path) -> None:
    with opened(tmp_path) as used:
        used.append([b"a", b"b", b"c"], "source")
        used.append([b"old"], "other")
        source, target, other = (used.partition(name) for name in ("source", "target", "other"))
        for at, (is_full, size) in enumerate([(False, 1), (True, 1_000_000), (False, 1)]):
            full(used.store, is_full=is_full)
            told: list[Any] = []
            made: list[Any] = []
            with source.deleting_with_appends(at):
                target.append([bytes(size)], told.append)
                with other.deleting_with_appends(0):
                    pass  # nothing is appended: it stays
                other.put("x", b"%d" % at, made.append)  # what is not an append is not refused with it
            used.store.flush()
            full(used.store, is_full=False)
            used.wait(lambda done: source.put("through", b"", done))
            assert [error is not None for error in told] == [is_full]
            assert made == [None]
        assert used.all("source") == [(1, b"b")]
        assert [position for position, _ in used.all("target")] == [0, 1]
        assert used.all("other") == [(0, b"old")]
