"""Certificates that have expired, are not valid yet, or expire soon: who is told, and whose certificate is named."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

import rstreams
from rstreams import Node
from rstreams._certificate_dates import _dates, remember_dates, warnings_about
from rstreams.errors import RStreamsError
from rstreams.tls import client_context, server_context
from tests.net.certificates import certificate as certificate_of_trustme
from tests.net.dated_certificates import DAY, Dated, dates, today
from tests.net.over_tcp import until

STATES = {"expired": "has expired, at ", "early": "is not valid before ", "ending": "expires soon, at ", "good": ""}

MOMENTS = st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(dt.UTC))  # noqa: DTZ001


@settings(max_examples=60)
@given(MOMENTS, MOMENTS, st.integers(1, 64))
def test_the_dates_are_those_that_another_reader_finds(one: dt.datetime, other: dt.datetime, length: int) -> None:
    made = Dated("n" * length, min(one, other), max(one, other)).certificate
    assert _dates(made.public_bytes(serialization.Encoding.DER)) == (
        made.not_valid_before_utc,
        made.not_valid_after_utc,
    )


def test_the_dates_of_a_certificate_with_a_key_of_another_kind() -> None:
    pem = certificate_of_trustme("127.0.0.1", expired=True).cert_chain_pems[0].bytes().decode()
    assert _dates(ssl.PEM_cert_to_DER_cert(pem))[1] == dt.datetime(2001, 1, 2, tzinfo=dt.UTC)


@settings(max_examples=200)
@given(st.binary(max_size=40), st.integers(0, 400))
def test_bytes_that_are_no_certificate_have_no_dates(noise: bytes, cut: int) -> None:
    der = ssl.PEM_cert_to_DER_cert(Dated("x", *dates("good")).pem.decode())
    for text in (noise, der[:cut] if cut < 100 else der[:cut] + noise):
        try:
            _dates(text)
        except (ValueError, IndexError):
            continue


def test_a_file_that_has_gone_or_has_no_certificates_has_no_dates(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    remember_dates(context, "certificate", tmp_path / "gone")
    (tmp_path / "broken").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    remember_dates(context, "certificate", tmp_path / "broken")
    assert warnings_about(context, today()) == []


@pytest.mark.parametrize("state", STATES)
def test_a_warning_names_the_file_the_place_in_it_and_the_moment(tmp_path: Path, state: str) -> None:
    authority = Dated("authority", *dates(state))
    file = Dated("node", *dates("good"), by=authority).write(tmp_path / "node.pem")
    chain = Dated("node", *dates("good"), by=authority).write(tmp_path / "chain.pem")
    chain.write_bytes(chain.read_bytes() + authority.pem)
    ca = authority.write(tmp_path / "ca.pem", with_key=False)
    moment = dates(state)[state != "early"]
    told = [f"{STATES[state]}{moment:%Y-%m-%d}"] if STATES[state] else []
    assert warnings_about(server_context(file), today()) == []
    for context, place in (
        (server_context(chain), f"certificate={str(chain)!r}, certificate 2 of 2 in it, "),
        (server_context(file, client_ca=ca), f"client_ca={str(ca)!r} "),
        (client_context(ca_file=ca), f"ca_file={str(ca)!r} "),
    ):
        assert [text[: len(place + told[0])] for text in warnings_about(context, today())] == [
            place + each for each in told
        ]


def test_a_warning_comes_two_weeks_before_the_end(tmp_path: Path) -> None:
    end = today() + 100 * DAY
    context = server_context(Dated("node", today(), end).write(tmp_path / "node.pem"))
    for day, count in ((-101, 1), (-99, 0), (-15, 0), (-13, 1), (1, 1)):
        assert len(warnings_about(context, end + day * DAY)) == count, day


# handshakes


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "rstreams.net" and each.levelname == "WARNING"]


class Sides:
    """A node and a client, with authorities; each of the four certificates has a state."""

    def __init__(
        self, folder: Path, node: str = "good", client: str = "good", node_ca: str = "good", client_ca: str = "good"
    ) -> None:
        of_nodes, of_clients = Dated("nodes", *dates(node_ca)), Dated("clients", *dates(client_ca))
        self.node = Dated("node", *dates(node), by=of_nodes).write(folder / "node.pem")
        self.client = Dated("alice", *dates(client), by=of_clients).write(folder / "alice.pem")
        self.node_ca = of_nodes.write(folder / "nodes.pem", with_key=False)
        self.client_ca = of_clients.write(folder / "clients.pem", with_key=False)

    async def meet(self, caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
        """Return the client's error, and the line of the node about its refusal."""
        async with Node() as node:
            listener = await node.listen("127.0.0.1:0", tls=server_context(self.node, client_ca=self.client_ca))
            context = client_context(ca_file=self.node_ca, certificate=self.client)
            with pytest.raises(RStreamsError) as raised:
                async with rstreams.connect(listener.url, tls=context):
                    pass
            await until(lambda: any("refused a connection" in each for each in told(caplog)))
        return str(raised.value), next(each for each in told(caplog) if "refused a connection" in each)


@pytest.mark.parametrize("state", ["expired", "early"])
async def test_a_node_names_its_own_certificate(state: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sides = Sides(tmp_path, node=state)
    error, line = await sides.meet(caplog)
    assert f"certificate={str(sides.node)!r} {STATES[state]}" in line
    assert "it must trust" not in line
    assert {"expired": "it has expired; its owner has to renew it", "early": "it is not valid yet"}[state] in error
    assert any(each.startswith("amqps://127.0.0.1:") and STATES[state] in each for each in told(caplog)), "at the start"


@pytest.mark.parametrize("state", ["expired", "early"])
async def test_a_node_names_its_authority_of_clients(
    state: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sides = Sides(tmp_path, client_ca=state)
    _, line = await sides.meet(caplog)
    assert f"its certificate was refused: certificate {'has expired' if state == 'expired' else 'is not yet'}" in line
    assert f"; client_ca={str(sides.client_ca)!r} {STATES[state]}" in line


@pytest.mark.parametrize("state", ["expired", "early"])
async def test_a_client_is_told_of_its_own_certificate(
    state: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sides = Sides(tmp_path, client=state)
    error, line = await sides.meet(caplog)
    assert f"certificate={str(sides.client)!r} {STATES[state]}" in error
    assert "its certificate was refused: " in line
    assert "client_ca" not in line


@pytest.mark.parametrize("state", ["expired", "early"])
async def test_a_client_is_told_of_its_own_authority(
    state: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sides = Sides(tmp_path, node_ca=state)
    error, line = await sides.meet(caplog)
    assert f"ca_file={str(sides.node_ca)!r} {STATES[state]}" in error
    assert "its owner" not in error
    assert ("unless one of the two clocks is wrong" in line) == (state == "expired"), "the node's own one is good"


async def test_new_certificates_are_looked_at_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good, ending = Sides(tmp_path).node, Dated("node", *dates("ending")).write(tmp_path / "new.pem")
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0", tls=server_context(good))
        assert told(caplog) == []
        listener.renew_tls(server_context(ending))
    (line,) = told(caplog)
    assert line.startswith(f"{listener.url}: certificate={str(ending)!r} expires soon, at ")
