"""Certificates with any dates, of authorities with any dates, as files."""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = dt.timedelta(days=1)


def today() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(microsecond=0)


def dates(state: str) -> tuple[dt.datetime, dt.datetime]:
    """Return the dates of a certificate that is "expired", "early", "ending" soon, or "good"."""
    begin, end = {"expired": (-9, -2), "early": (3, 99), "ending": (-9, 5), "good": (-9, 99)}[state]
    return today() + begin * DAY, today() + end * DAY


class Dated:
    """A certificate that is self-signed, or signed by another one."""

    def __init__(self, name: str, begin: dt.datetime, end: dt.datetime, by: Dated | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        signer = by or self
        builder = x509.CertificateBuilder(signer.name, self.name, self.key.public_key(), 7)
        builder = builder.not_valid_before(begin).not_valid_after(end)
        builder = builder.add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        host = x509.IPAddress(ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([host]), critical=False)
        self.certificate = builder.sign(signer.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, file: Path, *, with_key: bool = True) -> Path:
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(self.pem + (key if with_key else b""))
        return file
