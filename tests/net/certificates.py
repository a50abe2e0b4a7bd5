"""Certificates for tests, made when they are first needed: an authority, nodes and clients it signed, others."""

from __future__ import annotations

import datetime as dt
import ssl
from functools import cache
from pathlib import Path

import trustme

from rstreams import tls

TO_COME = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)
LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


def authority(name: str = "ours") -> trustme.CA:
    return _authority(name)


@cache
def _authority(name: str) -> trustme.CA:
    return trustme.CA(organization_name=name)


@cache
def certificate(
    *names: str, common_name: str | None = None, expired: bool = False, by: str = "ours"
) -> trustme.LeafCert:
    issuer = authority(by)
    if not expired:
        return issuer.issue_cert(*names, common_name=common_name, organization_name="Example")
    until = LONG_AGO + dt.timedelta(days=1)
    return issuer.issue_cert(
        *names, common_name=common_name, organization_name="Example", not_before=LONG_AGO, not_after=until
    )


def node_context(
    *names: str, expired: bool = False, by: str = "ours", clients: ssl.VerifyMode = ssl.CERT_NONE
) -> ssl.SSLContext:
    """Return the context of a node whose certificate is for `names`, by default 127.0.0.1."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate(*(names or ("127.0.0.1",)), expired=expired, by=by).configure_cert(context)
    if clients is not ssl.CERT_NONE:
        authority().configure_trust(context)
        context.verify_mode = clients
    return context


def client_context(shown: trustme.LeafCert | None = None, *, trusts: str = "ours") -> ssl.SSLContext:
    """Return the context of a client that trusts an authority, and shows a certificate."""
    context = ssl.create_default_context(cadata=authority(trusts).cert_pem.bytes().decode())
    if shown is not None:
        shown.configure_cert(context)
    return context


def alice(*, expired: bool = False, by: str = "ours") -> trustme.LeafCert:
    return certificate("alice@example.com", common_name="alice", expired=expired, by=by)


class Files:
    """Certificates as files, as `rstreams.tls` and the command line take them."""

    def __init__(self, folder: Path) -> None:
        self.ca = folder / "ca.pem"
        self.node = folder / "node.pem"
        self.node_key = folder / "node.key"
        self.both = folder / "both.pem"  # certificate and key
        self.alice = folder / "alice.pem"  # likewise
        authority().cert_pem.write_to_path(self.ca)
        node = certificate("127.0.0.1")
        node.cert_chain_pems[0].write_to_path(self.node)
        node.private_key_pem.write_to_path(self.node_key)
        node.private_key_and_cert_chain_pem.write_to_path(self.both)
        alice().private_key_and_cert_chain_pem.write_to_path(self.alice)

    @property
    def client(self) -> ssl.SSLContext:
        return tls.client_context(ca_file=self.ca, certificate=self.alice)
