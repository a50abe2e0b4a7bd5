"""The line in which passwords wait to be hashed: a few are hashed at a time, in threads, and everyone has turns.

A hash is slow on purpose: a processor makes some five a second. Clients that guess must not take all of them. The next
password is chosen by these rules, in this order:

1. It is of an address from which fewer wrong passwords have come of late (in steps of two, four, eight, ...).
2. Of these addresses, it is of the one whose last turn is the longest ago.
3. Of this address, it is of a user for whom fewer wrong passwords have come, then of the user whose last turn is the
   longest ago.
4. It came first.

Clients with the same user and password wait for one hash. How many passwords may wait is limited for an address, and
for a user of an address: more would not be answered in time. A further one is refused at once, as passing trouble.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from rstreams._events.table import PASSWORD_NOT_CHECKED
from rstreams.errors import TransportError

if TYPE_CHECKING:
    from outcome import Outcome


MOST_OF_ADDRESS: Final = 32
"""The most passwords of one address that wait, for each one that is hashed at a time. All of them take six seconds."""

MOST_OF_USER: Final = 16
"""The same for one user of an address."""

MOST_REMEMBERED: Final = 1024
"""How many addresses, and users of addresses, are remembered: who guessed and who had a turn."""

HALF_LIFE_S: Final = 60.0
"""After how many seconds a wrong password counts half."""


class CheckLater(TransportError):
    """A password cannot be checked now: too many of this address, or of this user of the address, wait already."""


def origin_of(host: str) -> str:
    """Return the part of an address that its owner cannot choose: 64 bits of IPv6, all of IPv4."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(ipaddress.ip_network((address, 64), strict=False)) if mapped is None else str(mapped)


class PasswordLine:
    """The passwords that wait, and those that are hashed now.

    Args:
        at_once: How many are hashed at a time.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting: dict[tuple[str, bytes], _Question] = {}  # in the order in which they came
        self._under_way: dict[tuple[str, bytes], _Question] = {}
        self._addresses = _Memory()
        self._users = _Memory()

    async def ask(
        self, origin: str, user: str, digest: bytes, matches: Callable[[], bool], note: Callable[[bool], None]
    ) -> bool:
        """Wait for a turn; tell whether the password matches.

        Args:
            origin: Where the client comes from; see `origin_of`.
            user: The user that it says it is.
            digest: Stands for the password.
            matches: Hashes the password, in a thread.
            note: Called with the answer, also if nobody waits for it any more.

        Errors: `CheckLater`.
        Cancels: A password that nobody waits for any more is not hashed, unless its turn has come already.
        """
        key = user, digest
        question = self._under_way.get(key) or self._waiting.get(key)
        if question is None:
            self._require_place(origin, user)
            question = self._waiting[key] = _Question(user, matches, note)
        question.origins[origin] += 1
        self._go_on()
        try:
            await question.answered.wait()
        finally:
            question.origins[origin] -= 1
            if not question.origins.total() and self._waiting.get(key) is question:  # not a later one
                del self._waiting[key]
        if question.right is None:
            msg = "the password could not be checked"
            raise CheckLater(msg)
        return question.right

    def _require_place(self, origin: str, user: str) -> None:
        of_origin = [each for each in self._waiting.values() if each.origins[origin]]
        if len(of_origin) >= MOST_OF_ADDRESS * self._at_once:
            msg = "too many passwords of clients of this address wait to be checked; try again later"
            raise CheckLater(msg)
        if sum(each.user == user for each in of_origin) >= MOST_OF_USER * self._at_once:
            msg = "too many passwords for this user of clients of this address wait to be checked; try again later"
            raise CheckLater(msg)

    def _go_on(self) -> None:
        """Hash the passwords whose turn it is."""
        while self._waiting and len(self._under_way) < self._at_once:
            now = trio.current_time()
            ranks = (
                (self._rank(origin, question.user, now), place, key, origin)
                for place, (key, question) in enumerate(self._waiting.items())
                for origin, count in question.origins.items()
                if count
            )
            *_, key, origin = min(ranks)
            question = self._under_way[key] = self._waiting.pop(key)
            self._addresses.had_turn(origin)
            self._users.had_turn((origin, question.user))
            self._hash(key, question)

    def _rank(self, origin: str, user: str, now: float) -> tuple[int, int, int, int]:
        return *self._addresses.rank(origin, now), *self._users.rank((origin, user), now)

    def _hash(self, key: tuple[str, bytes], question: _Question) -> None:
        token, asked_from = trio.lowlevel.current_trio_token(), [*question.origins]

        def matches() -> bool | None:
            try:
                return question.matches()
            except Exception as error:
                PASSWORD_NOT_CHECKED.tell(raised=error)
                return None

        def deliver(answer: Outcome[bool | None]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._answer, key, asked_from, answer.unwrap())

        trio.lowlevel.start_thread_soon(matches, deliver)

    def _answer(self, key: tuple[str, bytes], asked_from: list[str], right: bool | None) -> None:  # noqa: FBT001
        """Note an answer, in the thread of the loop."""
        question = self._under_way.pop(key)
        question.right = right
        if right is not None:
            question.note(right)
            self._remember(question.user, asked_from, right=right)
        question.answered.set()
        self._go_on()

    def _remember(self, user: str, origins: list[str], *, right: bool) -> None:
        now = trio.current_time()
        for origin in origins:
            if right:
                self._users.forget_wrong((origin, user))
            else:
                self._addresses.note_wrong(origin, now)
                self._users.note_wrong((origin, user), now)


class _Question:
    """One password of one user, for which one or more clients wait."""

    def __init__(self, user: str, matches: Callable[[], bool], note: Callable[[bool], None]) -> None:
        self.user = user
        self.matches = matches
        self.note = note
        self.right: bool | None = None
        self.answered = trio.Event()
        self.origins: Counter[str] = Counter()  # how many clients of each address wait for it


class _Memory:
    """The wrong passwords and the last turn of addresses, or of users; the least recently used ones are forgotten."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Record] = {}
        self._turns = 0

    def rank(self, key: Hashable, now: float) -> tuple[int, int]:
        record = self._kept.get(key)
        return (0, 0) if record is None else (int(2 * record.wrong_at(now)).bit_length(), record.turn)

    def had_turn(self, key: Hashable) -> None:
        self._turns += 1
        self._used(key).turn = self._turns

    def note_wrong(self, key: Hashable, now: float) -> None:
        record = self._used(key)
        record.wrong, record.since = record.wrong_at(now) + 1, now

    def forget_wrong(self, key: Hashable) -> None:
        self._used(key).wrong = 0.0

    def _used(self, key: Hashable) -> _Record:
        record = self._kept.pop(key) if key in self._kept else _Record()
        self._kept[key] = record
        if len(self._kept) > MOST_REMEMBERED:
            del self._kept[next(iter(self._kept))]
        return record


class _Record:
    """What is remembered of one key."""

    __slots__ = ("since", "turn", "wrong")

    def __init__(self) -> None:
        self.turn = 0
        self.wrong = 0.0
        self.since = 0.0

    def wrong_at(self, now: float) -> float:
        return self.wrong and self.wrong * 0.5 ** ((now - self.since) / HALF_LIFE_S)
