"""What a store tells of its disk: how long its syncs took, what its files take, and what goes wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rstreams.store import Store
from rstreams.store.sync_times import BOUNDS_S, SyncClock
from rstreams.store.tables import Tables


def test_the_classes_are_those_of_a_histogram() -> None:
    clock = SyncClock()
    for seconds in (0.0004, 0.001, 0.3, 7.0):
        clock.note(seconds)
    times = clock.times()
    assert (times.count, round(times.total_s, 4), times.longest_s) == (4, 7.3014, 7.0)
    assert [*times.up_to_s] == [f"{bound:g}" for bound in BOUNDS_S]
    assert (times.up_to_s["0.001"], times.up_to_s["0.25"], times.up_to_s["0.5"], times.up_to_s["5"]) == (2, 2, 3, 3)


def test_a_commit_that_is_synced_counts_and_another_does_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    partition = store.partition("queue/work")
    before = store.statistics().syncs.count
    partition.append([b"safe"])
    store.flush()
    assert store.statistics().syncs.count == before + 1
    partition.append([b"soon"], sync_s=1000.0)
    store.flush()
    now = store.statistics()
    assert now.syncs.count == before + 1
    assert now.syncs.up_to_s["5"] <= now.syncs.count
    assert now.file_bytes > 0
    assert now.log_bytes > 0
    assert now.free_bytes > 0
    assert (now.errors, now.trouble) == (0, "")
    store.close()
    assert store.statistics().syncs.count >= before + 1, "it may be asked behind its end"


def test_a_disk_that_fails_is_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    store = Store(tmp_path / "store")
    heard = threading.Event()
    with monkeypatch.context() as broken:
        broken.setattr(Tables, "commit", full)
        store.partition("queue/work").append([b"lost"], lambda _: heard.set())
        store.flush()
        store.finish()
        assert heard.is_set()
        now = store.statistics()
        assert now.errors > 0
        assert "the disk is full" in now.trouble
    store.close()


def test_a_folder_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.close()
    (tmp_path / "store").rename(tmp_path / "away")
    now = store.statistics()
    assert (now.file_bytes, now.log_bytes, now.free_bytes) == (0, 0, 0)
