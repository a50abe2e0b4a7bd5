"""The accounts of the logs of the crash harness: what each producer was told, and what readers and a group got."""

from __future__ import annotations

from dataclasses import dataclass, field

KEY = "x-opt-partition-key"


@dataclass
class LogAccount:
    """One partition of a log, whose messages are rising numbers.

    Attributes:
        name: Its address.
        accepted: Numbers that the node has accepted.
        read: The number at each offset, as a reader got it.
        position: The offset behind the last one that the reader has got.
        delivered: Numbers that came to the group.
        committed: The offset below which everything is certain to be settled by the group, and safe.
        redelivered: Deliveries to the group of a number that had come before.
        doubled: Deliveries to the group of an offset that was certain to be settled.
        disordered: Numbers that came to a reader, or for the first time to the group, behind a higher one.
        changed: Offsets that a reader has missed, or got again with another number.
    """

    name: str
    accepted: set[int] = field(default_factory=set)
    read: dict[int, int] = field(default_factory=dict)
    position: int = 0
    delivered: set[int] = field(default_factory=set)
    committed: int = 0
    redelivered: int = 0
    doubled: int = 0
    disordered: int = 0
    changed: int = 0
    _last: int = -1

    def reread(self) -> None:
        """Have the reader begin with the first message again."""
        self.position = 0

    def read_one(self, offset: int, number: int) -> None:
        """Note that a message has come to the reader."""
        missed = any(each in self.read for each in range(self.position, offset))  # a full disk leaves a gap
        self.changed += offset < self.position or missed or self.read.get(offset, number) != number
        self.disordered += self.read.get(offset - 1, -1) >= number
        self.position = offset + 1
        self.read[offset] = number

    def deliver(self, offset: int, number: int) -> None:
        """Note that a message has come to a member of the group."""
        self.doubled += offset < self.committed
        if number in self.delivered:
            self.redelivered += 1
            return
        self.delivered.add(number)
        self.disordered += number < self._last
        self._last = max(self._last, number)

    def settle(self, offset: int) -> None:
        """Note that the outcome of a message is certain to be safe.

        Those of all before it are then too: a partition has one member at a time, which settles in the order of the
        offsets. Each of them was settled by it, or by a member before it, maybe in a life of the node without marks.
        """
        self.committed = max(self.committed, offset + 1)

    @property
    def lost(self) -> int:
        """How many accepted numbers have not come to the reader, or not to the group; to be asked at the end."""
        return len(self.accepted - set(self.read.values())) + len(self.accepted - self.delivered)

    def numbers(self) -> dict[str, int]:
        """Return what is counted, by the words of `tests.crash.accounts.Account`."""
        return {
            "accepted": len(self.accepted),
            "delivered": len(self.delivered),
            "settled": self.committed,
            "redelivered": self.redelivered,
            "lost": self.lost,
            "doubled": self.doubled,
            "disordered": self.disordered,
            "forgotten": self.changed,
        }

    @property
    def is_right(self) -> bool:
        """Whether messages were accepted, and none was lost, settled in vain, disordered or changed."""
        return bool(self.accepted) and not (self.lost or self.doubled or self.disordered or self.changed)


@dataclass
class LatestAccount:
    """A compacted log: the last number of each key counts.

    Attributes:
        name: Its address.
        accepted: The highest number of each key that the node has accepted.
        found: The number of each key that the log has at the end.
        redelivered: Messages at the end beside those of the keys; compaction was not through.
        disordered: Numbers that came behind a higher one.
    """

    name: str
    accepted: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    redelivered: int = 0
    disordered: int = 0
    _last: int = -1

    def accept(self, key: str, number: int) -> None:
        """Note that a number is accepted."""
        self.accepted[key] = max(number, self.accepted.get(key, -1))

    def begin(self) -> None:
        """Have the log be read from its first message on."""
        self.found, self._last, self.redelivered = {}, -1, 0

    def read_one(self, key: str, number: int) -> None:
        """Note that a message has come."""
        self.disordered += number <= self._last
        self._last = number
        self.redelivered += key in self.found
        self.found[key] = number

    @property
    def lost(self) -> int:
        """Of how many keys the last accepted number, or a later one, is not there."""
        return sum(self.found.get(key, -1) < number for key, number in self.accepted.items())

    def numbers(self) -> dict[str, int]:
        """Return what is counted, by the words of `tests.crash.accounts.Account`."""
        counted = {"accepted": len(self.accepted), "delivered": len(self.found), "redelivered": self.redelivered}
        return {**counted, "settled": 0, "lost": self.lost, "doubled": 0, "disordered": self.disordered, "forgotten": 0}

    @property
    def is_right(self) -> bool:
        """Whether numbers were accepted, and none was lost or disordered."""
        return bool(self.accepted) and not (self.lost or self.disordered)
