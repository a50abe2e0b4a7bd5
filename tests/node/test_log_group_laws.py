"""Consumer groups under random scripts: members come, go, settle and give back; nothing is lost or out of order."""

from __future__ import annotations

import random

import pytest

from rstreams.message import decode_body, encode_item
from rstreams.net.links.offsets import read_offset
from rstreams.node import group_partition, log_partition
from rstreams.node.log_group import Group, GroupMember
from rstreams.node.log_partition import LogPartition, Retention
from rstreams.testing import ProbeSubscriber
from tests.node.slow_partition import SlowPartition
from tests.seeds import seeds

PARTITIONS = 3


class Script:
    """A group over partitions, and what each member does, by the numbers of a random generator.

    Args:
        seed: Chooses the numbers.
        on_disk: Whether messages are read from the disk, whose answers come when the script says so.
    """

    def __init__(self, seed: int, *, on_disk: bool) -> None:
        self.on_disk = on_disk
        self.random = random.Random(seed)  # noqa: S311 - it shuffles a test
        self.disks = [SlowPartition() for _ in range(PARTITIONS)]
        self.parts = [
            LogPartition(str(number), kept, Retention(), 0.0, has_gaps=False) for number, kept in enumerate(self.disks)
        ]
        self.group = Group("g", self.parts, "first")
        self.members: list[tuple[GroupMember, ProbeSubscriber[bytes]]] = []
        self.seen: dict[int, int] = {}  # by member: how many of its items were looked at
        self.held: dict[int, dict[tuple[int, int], int]] = {}  # by member: message, and the number of its hold
        self.completed: set[GroupMember] = set()
        self.accepted: set[tuple[int, int]] = set()
        self.appended = [0] * PARTITIONS

    def append(self) -> None:
        at = self.random.randrange(PARTITIONS)
        count = self.random.randint(1, 5)
        first = self.appended[at]
        run = [encode_item([at, number]) for number in range(first, first + count)]
        self.parts[at].append(run, lambda _: None, {})
        self.appended[at] += count
        if self.on_disk:
            self.parts[at].remove(())

    def answer(self) -> None:
        self.random.choice(self.disks).answer()

    def join(self, *, to_end: bool | None = None) -> None:
        probe = ProbeSubscriber[bytes](0, hold=True)
        to_end = self.random.random() < 0.5 if to_end is None else to_end
        member = GroupMember("log", self.group, probe, to_end=to_end)
        probe.on_subscribe(member)
        self.seen[id(member)], self.held[id(member)] = 0, {}
        self.members.append((member, probe))
        self.group.join(member)

    def leave(self) -> None:
        if self.members:
            member, probe = self.members.pop(self.random.randrange(len(self.members)))
            member.cancel()
            for number in self.held.pop(id(member)).values():
                probe.holds[number].release()  # this gives it back if the member has completed; else it is too late

    def request(self) -> None:
        if self.members:
            self.random.choice(self.members)[0].request(self.random.randint(1, 4))

    def settle(self) -> None:
        busy = [(member, probe) for member, probe in self.members if self.held[id(member)]]
        if busy:
            member, probe = self.random.choice(busy)
            held = self.held[id(member)]
            message = self.random.choice(list(held))
            number = held.pop(message)
            if self.random.random() < 0.8:
                self.accepted.add(message)
                probe.holds[number].done()
            else:
                probe.holds[number].release()

    def look(self) -> None:
        """Note what members got, and check it."""
        for member, probe in self.members:
            last: dict[int, int] = {}
            for number, item in list(enumerate(probe.items))[self.seen[id(member)] :]:
                at, place = message = tuple(decode_body(item))
                assert read_offset(item) == place
                assert message not in self.accepted, "it was settled"
                for held in self.held.values():
                    assert message not in held, "another member has it, or this one has it twice"
                assert last.get(at, -1) < place, "they are in order"
                last[at] = place
                self.held[id(member)][message] = number
            self.seen[id(member)] = len(probe.items)
        at_members = {message for held in self.held.values() for message in held}
        for member, probe in self.members:
            if "on_complete" in probe.signals and member not in self.completed:
                self.completed.add(member)
                there = {(at, place) for at, end in enumerate(member.ends) for place in range(end)}
                assert there <= self.accepted | at_members, "all has been handed out"
        owners = [(part.owner, part.unsettled) for part in self.group._parts]
        assert all(unsettled for owner, unsettled in owners if owner is not None and owner.ended)

    def settle_all(self, member: GroupMember, probe: ProbeSubscriber[bytes]) -> None:
        """Have a member settle all that it has, and all that comes then."""
        held = self.held[id(member)]
        while any(disk.answer() for disk in self.disks) or self.seen[id(member)] < len(probe.items) or held:
            self.look()
            for message, number in list(held.items()):
                del held[message]
                self.accepted.add(message)
                probe.holds[number].done()

    def finish(self) -> None:
        """Have one member settle everything."""
        while self.members:
            self.leave()
            self.look()
        self.join(to_end=True)
        member, probe = self.members[0]
        member.request(10_000)
        self.settle_all(member, probe)
        assert probe.signals[-1] == "on_complete"
        assert self.group.members == 0
        assert not member.comes_later
        assert self.accepted == {(at, place) for at in range(PARTITIONS) for place in range(self.appended[at])}
        now = self.group.statistics()
        assert (now.lag, now.unsettled, now.committed) == (0, 0, tuple(self.appended))


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("seed", seeds(60, quick=24))
def test_random_members(monkeypatch: pytest.MonkeyPatch, seed: int, *, on_disk: bool) -> None:
    monkeypatch.setattr(log_partition, "READ_AHEAD_BYTES", (0, 2**30)[seed % 2])
    monkeypatch.setattr(group_partition, "MOST_AHEAD", (7, 2**14)[seed % 3 > 0])
    script = Script(seed, on_disk=on_disk)
    steps = [script.answer, script.append, script.request, script.request, script.settle, script.settle, script.settle]
    for _ in range(300):
        draw = script.random.random()
        (script.join if draw < 0.03 else script.leave if draw < 0.05 else script.random.choice(steps))()
        script.look()
    script.finish()
