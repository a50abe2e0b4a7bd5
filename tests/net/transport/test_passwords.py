"""Hashes of passwords: their form, what they match, and how a node checks them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Node, Stream
from rstreams.errors import AuthenticationFailed, ConfigError
from rstreams.net.transport import passwords
from rstreams.net.transport.password_line import MOST_OF_ADDRESS, MOST_OF_USER, CheckLater
from rstreams.net.transport.passwords import PasswordHash, Passwords
from rstreams.net.transport.security import AMQP_HEADER, SASL_HEADER, Admission, authenticate
from tests.net.over_tcp import until
from tests.net.transport.test_sasl import answers, plain

QUICK = "$scrypt$ln=1,r=1,p=1$c2FsdHNhbHRzYWx0${}"


def quick_hash(password: str) -> PasswordHash:
    """Return a hash that takes no time; the format of passlib's documentation."""
    digest = hashlib.scrypt(password.encode(), salt=b"saltsaltsalt", n=2, r=1, p=1, dklen=32)
    return PasswordHash(QUICK.format(passwords._written(digest)))


class Counted:
    """Makes hashes that note what they are asked, in order, and that can be held."""

    def __init__(self) -> None:
        self.passwords: list[bytes] = []
        self.error: BaseException | None = None
        self._open = threading.Event()
        self._open.set()

    def of(self, password: str) -> PasswordHash:
        return _Counting(quick_hash(password).text, self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no hash end in the block."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    async def begun(self, count: int = 1) -> None:
        """Wait until so many hashes have begun."""
        await until(lambda: len(self.passwords) >= count)

    def note(self, password: bytes) -> None:
        self.passwords.append(password)
        if self.error is not None:
            raise self.error
        assert self._open.wait(10)


class _Counting(PasswordHash):
    def __init__(self, text: str, counted: Counted) -> None:
        super().__init__(text)
        object.__setattr__(self, "counted", counted)

    def matches(self, password: bytes) -> bool:
        counted: Counted = vars(self)["counted"]
        counted.note(password)
        return super().matches(password)


@pytest.mark.slow
def test_a_hash_matches_its_password_alone_and_has_its_own_salt() -> None:
    one, other = PasswordHash.of("hunter2"), PasswordHash.of("hunter2")
    assert one.text != other.text
    assert one.text.startswith("$scrypt$ln=14,r=8,p=5$")
    again = PasswordHash(one.text)
    assert again == one
    assert again.matches(b"hunter2")
    assert not again.matches(b"hunter3")
    assert not again.matches(b"")


@pytest.mark.slow
def test_the_hash_of_another_library() -> None:
    """The example of passlib's documentation of scrypt, with the password "password"."""
    found = PasswordHash("$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E")
    assert found.matches(b"password")


def test_no_repr_shows_a_hash() -> None:
    assert repr(quick_hash("x")) == "PasswordHash()"


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "",
        5,
        None,
        "$scrypt$ln=14,r=8,p=5$salt",
        "$scrypt$ln=14,r=8,p=5$$",
        "$bcrypt$ln=14,r=8,p=5$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=0,r=8,p=5$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=30,r=8,p=5$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=14,r=999,p=5$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=14,r=8,p=999$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=14,r=0,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=14,r=8,p=1$c2Fs$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHRzYWx0$aGFz",
        "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g\n",
        "$scrypt$ln=14,r=8,p=1$a$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
    ],
)
def test_a_text_that_is_no_hash_is_refused_and_not_repeated(text: object) -> None:
    with pytest.raises(ConfigError, match="rstreams node hash-password") as caught:
        PasswordHash(text)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)
    assert "aGFz" not in str(caught.value)


def test_an_empty_password_has_no_hash() -> None:
    with pytest.raises(ConfigError, match="the password is empty"):
        PasswordHash.of("")


async def test_users_with_plain_and_with_hashed_passwords() -> None:
    users = Passwords({"alice": quick_hash("sesame"), "bob": "b"})
    assert await users.check("alice", b"sesame")
    assert await users.check("alice", b"sesame"), "known by now"
    assert not await users.check("alice", b"b")
    assert await users.check("bob", b"b")
    assert not await users.check("bob", b"")
    assert not await users.check("eve", b"sesame")
    assert not await users.check("eve", b"")


async def test_a_user_is_known_as_long_as_its_hash_is_the_same() -> None:
    hashed = Counted()
    users = Passwords({"alice": hashed.of("sesame"), "bob": hashed.of("b"), "carol": hashed.of("c")})
    for user, password in (("alice", b"sesame"), ("bob", b"b"), ("carol", b"c")):
        assert await users.check(user, password)
    hashed.passwords.clear()
    users.renew({"alice": hashed.of("sesame"), "bob": hashed.of("bb"), "dave": hashed.of("d")})
    assert await users.check("alice", b"sesame")
    assert hashed.passwords == [], "the same hash"
    assert not await users.check("bob", b"b")
    assert not await users.check("carol", b"c")
    assert await users.check("bob", b"bb")
    users.renew({"alice": hashed.of("sesame"), "bob": hashed.of("b")})
    assert not await users.check("bob", b"bb")
    assert await users.check("bob", b"b")


async def test_an_answer_for_a_hash_that_is_gone_lets_nobody_in() -> None:
    hashed = Counted()
    users = Passwords({"alice": hashed.of("sesame")})
    answers: list[bool] = []

    async def come_in() -> None:
        answers.append(await users.check("alice", b"sesame"))

    async with trio.open_nursery() as nursery:
        with hashed.held():
            nursery.start_soon(come_in)
            await hashed.begun()
            users.renew({"alice": hashed.of("another")})
    assert answers == [False]
    assert not await users.check("alice", b"sesame")


async def test_a_wrong_password_that_comes_again_is_not_hashed_again() -> None:
    hashed = Counted()
    users = Passwords({"alice": hashed.of("sesame")})
    for _ in range(3):
        assert not await users.check("alice", b"old")
        assert not await users.check("eve", b"old")
    assert hashed.passwords == [b"old", b"old"]
    users.renew({"alice": hashed.of("old")})
    assert await users.check("alice", b"old"), "it is right by now"


async def test_many_connections_of_one_user_cost_one_hash() -> None:
    hashed = Counted()
    users, let_in = Passwords({"alice": hashed.of("sesame")}), 0

    async def come_in(origin: str) -> None:
        nonlocal let_in
        right = await users.check("alice", b"sesame", origin)
        let_in += right

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(come_in, f"192.0.2.{number % 3}")
    assert let_in == 50
    assert hashed.passwords == [b"sesame"]


async def test_a_client_that_has_gone_is_known_when_it_comes_again() -> None:
    hashed = Counted()
    users = Passwords({"alice": hashed.of("sesame")})
    with hashed.held():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(users.check, "alice", b"sesame")
            await hashed.begun()
            nursery.cancel_scope.cancel()
    await until(lambda: users._known)
    assert await users.check("alice", b"sesame")
    assert hashed.passwords == [b"sesame"]


async def test_a_hash_that_fails_is_passing_trouble(caplog: pytest.LogCaptureFixture) -> None:
    hashed = Counted()
    users = Passwords({"alice": hashed.of("sesame")})
    hashed.error = MemoryError()
    with pytest.raises(CheckLater):
        await users.check("alice", b"sesame")
    assert "a password could not be checked" in caplog.text
    hashed.error = None
    assert await users.check("alice", b"sesame")


async def test_sasl_plain_with_a_hash() -> None:
    admission = Admission({"alice": quick_hash("sesame")})
    for password, right in (("sesame", True), ("wrong", False)):
        client, server = trio.testing.memory_stream_pair()
        await client.send_all(SASL_HEADER + plain("alice", password) + AMQP_HEADER)
        if right:
            assert await authenticate(server, admission) == ("alice", AMQP_HEADER)
        else:
            with pytest.raises(AuthenticationFailed, match="user 'alice' was refused"):
                await authenticate(server, admission)


# a whole node, in real time: the hashes are made in threads, for which virtual time does not wait


@pytest.mark.parametrize("guessed", ["alice", "eve"])
async def test_forty_connections_that_guess_do_not_keep_a_user_out(
    guessed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = Counted()
    asked = 0
    real = Passwords.check

    async def check(self: Passwords, user: str, password: bytes, *origin: str) -> bool:
        nonlocal asked
        asked += 1
        return await real(self, user, password, *origin)

    monkeypatch.setattr(Passwords, "check", check)
    users: dict[str, str | PasswordHash] = {"alice": hashed.of("sesame")}
    told: list[int] = []
    async with Node(users=users) as node:
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0")

        async def guess(number: int) -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", listener.port, local_address="127.0.0.2")
            async with stream:
                name = guessed if guessed == "alice" else f"eve-{number}"
                await stream.send_all(SASL_HEADER + plain(name, f"{number}") + AMQP_HEADER)
                heard = b"".join([bytes(data) async for data in stream])
            told.append(answers(heard)[-1])

        async def come_in() -> None:
            async with rstreams.connect(f"amqp://alice:sesame@127.0.0.1:{listener.port}") as connection:
                assert await connection.stream("one").to_list() == [1]

        async with trio.open_nursery() as nursery:
            with hashed.held():
                for number in range(40):
                    nursery.start_soon(guess, number)
                await until(lambda: asked == 40)
                nursery.start_soon(come_in)
                await until(lambda: asked == 41)
    assert hashed.passwords.index(b"sesame") <= 1
    limit = MOST_OF_USER if guessed == "alice" else MOST_OF_ADDRESS
    assert sorted(told) == [1] * (limit + 1) + [4] * (40 - limit - 1)
