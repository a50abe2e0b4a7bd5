"""Turns at hashing passwords: no guesser, no address and no user keeps others waiting."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import pytest
import trio

from rstreams.net.transport import passwords
from rstreams.net.transport.handshakes import Handshake, Handshakes
from rstreams.net.transport.password_line import (
    HALF_LIFE_S,
    MOST_OF_ADDRESS,
    MOST_OF_USER,
    MOST_REMEMBERED,
    CheckLater,
    PasswordLine,
    origin_of,
)
from rstreams.net.transport.passwords import Passwords
from tests.net.transport.test_passwords import Counted

A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "AT_ONCE", 1)


class Line:
    """The passwords of alice and bob, and those who guess."""

    def __init__(self) -> None:
        self.hashed = Counted()
        self.users = Passwords({"alice": self.hashed.of("a"), "bob": self.hashed.of("b")})
        self._numbers = count()

    async def guess(self, origin: str, user: str, times: int = 1) -> None:
        for _ in range(times):
            assert not await self.users.check(user, b"guess %d" % next(self._numbers), origin)

    async def order(self, waiting: Sequence[tuple[str, str, bytes]]) -> list[int]:
        """Let these wait behind a password of another address; return their numbers in the order of their turns."""
        async with trio.open_nursery() as nursery:
            with self.hashed.held():
                began = len(self.hashed.passwords)
                nursery.start_soon(self.guess, "198.51.100.1", "zoe")
                await self.hashed.begun(began + 1)
                for place in waiting:
                    nursery.start_soon(self.users.check, place[1], place[2], place[0])
                    await trio.testing.wait_all_tasks_blocked()
        return [[password for *_, password in waiting].index(each) for each in self.hashed.passwords[began + 1 :]]


# whose turn it is


ALICE = (A, "alice", b"a")


@pytest.mark.parametrize(
    ("waiting", "place"),
    [
        ([(B, "alice", b"%d" % number) for number in range(15)], 1),  # guesses for her, from another address
        ([(B, f"eve-{number}", b"%d" % number) for number in range(30)], 1),  # for all names
        ([(A, "bob", b"%d" % number) for number in range(15)], 1),  # from her own address, for another user
        (
            [(f"192.0.2.{number}", "alice", b"%d" % number) for number in range(10, 40)],
            30,
        ),  # as many addresses: in turn
    ],
)
async def test_a_user_waits_for_one_turn_of_each_address_and_user(
    waiting: list[tuple[str, str, bytes]], place: int
) -> None:
    order = await Line().order([*waiting, ALICE])
    assert order.index(len(waiting)) <= place


@pytest.mark.parametrize("user", ["alice", "eve"])
async def test_addresses_that_have_guessed_wrong_come_behind_those_that_have_not(user: str) -> None:
    line = Line()
    guessers = [f"192.0.2.{number}" for number in range(10, 30)]
    for guesser in guessers:
        await line.guess(guesser, user)
    order = await line.order([*((each, user, each.encode()) for each in guessers), ALICE])
    assert order[0] == len(guessers)


@pytest.mark.parametrize("cleared_by", ["nothing", "the right password", "time"])
async def test_users_for_whom_wrong_ones_came_come_behind_others_of_their_address(cleared_by: str) -> None:
    line = Line()
    await line.guess(A, "bob", 3)
    if cleared_by == "the right password":
        assert await line.users.check("bob", b"b", A)
    elif cleared_by == "time":
        await trio.sleep(3 * HALF_LIFE_S)
    assert await line.users.check("alice", b"a", A)  # her last turn is later than his
    assert await line.order([(A, "alice", b"x"), (A, "bob", b"y")]) == ([0, 1] if cleared_by == "nothing" else [1, 0])


async def test_within_one_address_users_take_turns() -> None:
    waiting = [(A, "alice", b"1"), (A, "alice", b"2"), (A, "alice", b"3"), (A, "bob", b"4"), (A, "bob", b"5")]
    assert await Line().order(waiting) == [0, 3, 1, 4, 2]


async def test_a_password_that_two_addresses_wait_for_has_the_better_place() -> None:
    line = Line()
    await line.guess(B, "alice", 4)
    assert await line.order([(C, "bob", b"x"), (C, "bob", b"y"), (B, "alice", b"a"), ALICE]) == [0, 2, 1]


async def test_what_is_remembered_has_a_bound() -> None:
    line = Line()
    for number in range(MOST_REMEMBERED + 50):
        await line.guess(f"10.0.{number // 256}.{number % 256}", f"user-{number}")
    queue = line.users._line
    assert len(queue._addresses._kept) == len(queue._users._kept) == len(line.users._wrong) == MOST_REMEMBERED
    assert not queue._waiting
    assert not queue._under_way


# how many may wait


async def test_too_many_passwords_of_an_address_or_a_user_are_refused_at_once() -> None:
    line, users = Line(), iter(range(1000))
    async with trio.open_nursery() as nursery:
        with line.hashed.held():
            nursery.start_soon(line.guess, C, "zoe")
            await line.hashed.begun()
            for _ in range(MOST_OF_USER):
                nursery.start_soon(line.guess, A, "alice")
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(CheckLater, match="too many passwords for this user"):
                await line.guess(A, "alice")
            nursery.start_soon(line.guess, B, "alice")
            nursery.start_soon(line.users.check, "bob", b"b", A)
            for _ in range(MOST_OF_ADDRESS - MOST_OF_USER - 1):
                nursery.start_soon(line.guess, A, f"eve-{next(users)}")
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(CheckLater, match="too many passwords of clients of this address"):
                await line.guess(A, f"eve-{next(users)}")
            nursery.start_soon(line.users.check, "bob", b"b", A)  # waits already: it costs no further hash
    await line.guess(A, "alice")


async def test_who_has_gone_leaves_its_place() -> None:
    line = Line()
    async with trio.open_nursery() as nursery:
        with line.hashed.held():
            nursery.start_soon(line.guess, C, "zoe")
            await line.hashed.begun()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as going:
                    for _ in range(MOST_OF_USER):
                        going.start_soon(line.guess, A, "alice")
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            nursery.start_soon(line.guess, A, "alice")
            await trio.testing.wait_all_tasks_blocked()
    assert len(line.hashed.passwords) == 2


async def test_who_has_heard_takes_no_later_question_out_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash fails, and another client asks the same before the first one has heard of that, in some of the rounds."""
    monkeypatch.setattr(PasswordLine, "_hash", lambda *_: None)
    key, others = ("alice", b"x"), ("alice", b"y")
    for _ in range(20):
        line = PasswordLine(1)

        async def ask(password: bytes, line: PasswordLine = line) -> None:
            with suppress(CheckLater):
                await line.ask(A, "alice", password, bool, lambda _: None)

        async with trio.open_nursery() as nursery:
            for password in (b"x", b"y"):
                nursery.start_soon(ask, password)
                await trio.testing.wait_all_tasks_blocked()
            line._answer(key, [A], None)
            nursery.start_soon(ask, b"x")
            await trio.testing.wait_all_tasks_blocked()
            assert key in line._waiting
            line._answer(others, [A], None)
            line._answer(key, [A], None)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a pipe", "a pipe"),
    ],
)
def test_what_counts_as_one_address(host: str, origin: str) -> None:
    assert origin_of(host) == origin


# places at the door


async def test_the_address_with_the_most_handshakes_makes_room() -> None:
    handshakes, displaced = Handshakes(4, 10.0), list[str]()

    async def come(origin: str) -> None:
        handshake: Handshake
        with handshakes.enter(origin) as handshake:
            await trio.sleep_forever()
        if handshake.displaced:
            displaced.append(origin)

    async with trio.open_nursery() as nursery:
        for origin in ("honest", "flood", "flood", "other", *["flood"] * 20):
            nursery.start_soon(come, origin)
            await trio.testing.wait_all_tasks_blocked()
        assert displaced == ["flood"] * 20
        assert len(handshakes) == 4
        nursery.cancel_scope.cancel()
    assert len(handshakes) == 0
    assert not handshakes._of_origin
