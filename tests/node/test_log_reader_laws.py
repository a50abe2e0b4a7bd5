"""Readers of a log under random scripts: each gets every message once and in order, or hears that one is gone."""

from __future__ import annotations

import random

import pytest

from rstreams.errors import ProtocolError
from rstreams.message import decode_body, encode_item
from rstreams.net.links.offsets import read_offset
from rstreams.node import log_partition
from rstreams.node.log_partition import LogPartition, Retention
from rstreams.node.log_reader import LogReader
from rstreams.testing import ProbeSubscriber
from tests.node.slow_partition import SlowPartition, append, slow_log
from tests.seeds import seeds


class Looking(ProbeSubscriber[bytes]):
    """Knows whether it was told to look after its reader had no more to come."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = True

    def look_again(self) -> None:
        self.looked = True


class Script:
    """A partition that is written, cut off and compacted, and its readers, by the numbers of a random generator."""

    def __init__(self, seed: int, *, compacted: bool) -> None:
        self.random = random.Random(seed)  # noqa: S311 - it shuffles a test
        self.disk = SlowPartition()
        self.compacted = compacted
        retention = Retention() if compacted else Retention(items=self.random.choice([5, 50, None]))
        self.part = LogPartition("log", self.disk, retention, 0.0, has_gaps=compacted)
        self.readers: list[tuple[LogReader, Looking, int]] = []
        self.ends: dict[LogReader, int] = {}  # where readers complete
        self.left: set[LogReader] = set()
        self.deleted: set[int] = set()

    def append(self) -> None:
        first, count = self.disk.next, self.random.randint(1, 6)
        self.part.append([encode_item(number) for number in range(first, first + count)], lambda _: None, {})

    def forget_recent(self) -> None:
        self.part.remove(())

    def compact(self) -> None:
        if self.compacted and self.disk.next:
            gone = self.random.sample(range(self.disk.next), min(self.disk.next, 3))
            self.deleted.update(gone)
            self.part.remove(gone)

    def join(self) -> None:
        first = self.random.randint(self.disk.first, self.disk.next)
        probe = Looking()
        end = self.random.choice([None, self.disk.next, self.random.randint(first, self.disk.next + 10)])
        reader = LogReader(self.part, probe, first, self.left.add, end)
        if end is not None:
            self.ends[reader] = end
        probe.on_subscribe(reader)
        reader.emit()
        self.readers.append((reader, probe, first))

    def request(self) -> None:
        if self.readers:
            reader, probe, _ = self.random.choice(self.readers)
            reader.request(self.random.randint(1, 5))
            probe.looked = not reader.comes_later

    def cancel(self) -> None:
        if self.readers:
            self.random.choice(self.readers)[0].cancel()

    def answer(self) -> None:
        self.disk.answer()

    def check(self) -> None:
        for reader, probe, first in self.readers:
            offsets: list[int] = [decode_body(item) for item in probe.items]
            assert offsets == [read_offset(item) for item in probe.items]
            following = offsets[-1] + 1 if offsets else first
            expected = range(first, following)
            assert set(expected) - set(offsets) <= self.deleted, "nothing is missing but deleted messages"
            assert offsets == sorted(set(offsets)), "each one comes once, in order"
            if probe.error is not None:
                assert isinstance(probe.error, ProtocolError)
                assert "has no offset" in str(probe.error)
                assert following < self.disk.first
            end = self.ends.get(reader)
            if end is not None:
                assert following <= max(first, end)
            if "on_complete" in probe.signals:
                assert end is not None
                assert set(range(first, end)) - set(offsets) <= self.deleted
            assert (reader in self.left) == reader.ended
            assert probe.looked or reader.comes_later or reader.ended, "a drain is answered"

    def finish(self) -> None:
        for reader, _, _ in self.readers:
            reader.request(10_000)
        self.disk.answer_all()
        self.check()
        for reader, probe, first in self.readers:
            if not reader.ended:
                assert self.ends.get(reader, self.disk.next + 1) > self.disk.next
                due = set(range(max(first, self.disk.first), self.disk.next)) - self.deleted
                assert due <= {decode_body(item) for item in probe.items}
                reader.cancel()
        assert (self.part._cursors, self.part.read_ahead) == ({}, 0)


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("seed", seeds(60, quick=18))
def test_random_readers(monkeypatch: pytest.MonkeyPatch, seed: int, *, compacted: bool) -> None:
    monkeypatch.setattr(log_partition, "READ_AHEAD_BYTES", (0, 30, 2**30)[seed % 3])
    script = Script(seed, compacted=compacted)
    steps = [script.append, script.append, script.request, script.request, script.request, script.answer]
    rare = [script.join, script.join, script.cancel, script.forget_recent, script.compact]
    for _ in range(300):
        script.random.choice(rare if script.random.random() < 0.15 else steps)()
        script.check()
    script.finish()


def test_readers_at_the_end_share_the_messages_with_their_offsets() -> None:
    partition, _ = slow_log()
    probes = [ProbeSubscriber[bytes]() for _ in range(2)]
    for probe in probes:
        reader = LogReader(partition, probe, "next", lambda _: None)
        probe.on_subscribe(reader)
        reader.request(3)
    append(partition, range(2), in_memory=True)
    append(partition, range(2, 3), in_memory=True)
    ours, theirs = (probe.items for probe in probes)
    assert [read_offset(item) for item in ours] == [0, 1, 2]
    assert all(one is other for one, other in zip(ours, theirs, strict=True))
