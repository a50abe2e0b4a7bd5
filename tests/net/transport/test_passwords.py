"""Hashes of passwords: their form, what they match, and how a node checks them."""

from __future__ import annotations

import hashlib

import pytest
import trio
import trio.testing

from rstreams.errors import AuthenticationFailed, ConfigError
from rstreams.net.transport import passwords
from rstreams.net.transport.passwords import PasswordHash, Passwords
from rstreams.net.transport.security import AMQP_HEADER, SASL_HEADER, Admission, authenticate
from tests.net.transport.test_sasl import plain

QUICK = "$scrypt$ln=1,r=1,p=1$c2FsdHNhbHRzYWx0${}"


def quick_hash(password: str) -> PasswordHash:
    """Return a hash that takes no time; the format of passlib's documentation."""
    digest = hashlib.scrypt(password.encode(), salt=b"saltsaltsalt", n=2, r=1, p=1, dklen=32)
    return PasswordHash(QUICK.format(passwords._written(digest)))


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


async def test_a_known_client_does_not_wait_behind_the_guesses_of_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Passwords({"alice": quick_hash("sesame")})
    assert await users.check("alice", b"sesame")
    guessing = trio.Event()

    async def wait_for_ever(*_: object, **__: object) -> bool:
        guessing.set()
        await trio.sleep_forever()
        return False

    monkeypatch.setattr(trio.to_thread, "run_sync", wait_for_ever)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(users.check, "eve", b"guess")
        nursery.start_soon(users.check, "alice", b"guess")
        await guessing.wait()
        assert await users.check("alice", b"sesame")
        nursery.cancel_scope.cancel()


async def test_as_many_guesses_as_you_like_are_hashed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Passwords({"alice": quick_hash("sesame")})
    limiters: set[object] = set()
    real = trio.to_thread.run_sync

    async def noting(call: object, *, abandon_on_cancel: bool, limiter: trio.CapacityLimiter) -> bool:
        limiters.add(limiter)
        assert abandon_on_cancel
        assert limiter.total_tokens == passwords.AT_ONCE
        return await real(call, abandon_on_cancel=abandon_on_cancel, limiter=limiter)  # type: ignore[arg-type]

    monkeypatch.setattr(trio.to_thread, "run_sync", noting)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(users.check, f"eve-{number}", b"guess")
    assert len(limiters) == 1


async def test_many_connections_of_one_user_cost_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    real = PasswordHash.matches

    def counted(self: PasswordHash, password: bytes) -> bool:
        hashed.append(password)
        return real(self, password)

    monkeypatch.setattr(PasswordHash, "matches", counted)
    monkeypatch.setattr(passwords, "AT_ONCE", 1)
    users, let_in = Passwords({"alice": quick_hash("sesame")}), 0

    async def come_in() -> None:
        nonlocal let_in
        right = await users.check("alice", b"sesame")
        let_in += right

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(come_in)
    assert let_in == 50
    assert 1 <= len(hashed) <= 2, "the second may begin before the first has been noted"


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
